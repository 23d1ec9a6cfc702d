"""Tests of the guide for clusters: its commands run, in the order of the page, and those for Spark are understood."""

import asyncio
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from typer.main import get_command

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.spark.main import PROGRAM as SPARK_PROGRAM
from delayed_tracker.cluster.address import ClusterAddress
from delayed_tracker.cluster.adopting import BucketAdoption
from delayed_tracker.ledger.source_url import split_sources
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.storage.maintenance.opening import opened_storage
from tests.cli.conftest import command
from tests.cluster.gc.conftest import Trackers, trackers
from tests.cluster.made_cluster import MadeCluster, indexes_of
from tests.repository.documents import cluster_commands

__all__ = ["command", "trackers"]

TOPIC = TopicName.parse("persistent://lab/main/delayed")


@pytest.mark.slow
async def test_the_commands_run_in_the_order_of_the_guide(
    made: MadeCluster, trackers: Trackers, command, tmp_path: Path
):
    """Each exits with 0 on what the ones before it left."""
    (tmp_path / "broker.conf").write_text("delayedDeliveryMinIndexCountPerBucket=1\n", encoding="utf-8")
    await made.topic(TOPIC, {3: 8, 5: 8})
    await made.cursor([await made.bucket(indexes_of([3, 5]), TOPIC)], TOPIC)
    async with opened_storage("--to", f"sqlite:{tmp_path}/tracker.db", creates=True) as storage:
        await BucketAdoption(made.cluster, storage).adopt(TOPIC, "billing of all")
    lines = cluster_commands()
    assert len(lines) == 10
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "delayed-tracker"
        for named, place in (
            ("bookkeeper+zk:zk1:2181", made.address.text),
            ("sqlite:data/", f"sqlite:{tmp_path}/"),
            ("/etc/pulsar/", f"{tmp_path}/"),
            ("/var/backups/", f"{tmp_path}/"),
            ("/var/lib/delayed-tracker/", f"{tmp_path}/"),
            ("127.0.0.1:7650", trackers.service.address),
        ):
            arguments = [argument.replace(named, place) for argument in arguments]
        ran = await asyncio.to_thread(command, *arguments)
        assert ran.status == ExitCode.OK, (line, ran.out, ran.err)


def test_the_commands_for_spark_are_understood():
    """Options exist, and the addresses in them parse; tests with a broker run the job."""
    lines = cluster_commands("spark-rebuild")
    assert len(lines) == 2
    for line in lines:
        _, name, *arguments = shlex.split(line)
        made = get_command(SPARK_PROGRAM.app([name])).commands[name]
        known = {option for param in made.params for option in param.opts}
        assert {each for each in arguments if each.startswith("--")} <= known
        given = dict(pairwise(arguments))
        assert split_sources(given["--source"]) == [given["--source"]]
        if "--commit" in given:
            assert ClusterAddress.parse(given["--commit"]).wait_s == 600
