"""Tests of ``pulsar publish`` and ``pulsar restore``: tables, JSON, consent, and refusals as exit codes."""

import asyncio
import json
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.storage.maintenance.opening import opened_storage
from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.fixtures import cluster, zookeeper
from tests.cluster.brokers import ToldTopics, told_topics
from tests.cluster.made_cluster import TOPIC, indexes_of, made_cluster
from tests.cluster.publication.publications import LEDGERS, store

__all__ = ["cluster", "zookeeper"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SETTINGS = ("--set", "delayedDeliveryMinIndexCountPerBucket=10")


@pytest.fixture
def told():
    with told_topics() as made:
        yield made


@pytest.fixture
def url(cluster: Cluster, told: ToldTopics) -> str:
    """Return the address of a cluster with a broker, and an unloaded topic whose subscription has one bucket."""

    async def make() -> str:
        async with made_cluster(cluster) as made:
            await made.set(f"{made.address.brokers}/b:1", told.registration)
            await made.topic(TOPIC, LEDGERS)
            await made.cursor([await made.bucket(indexes_of([3]))])
            return made.address.text

    return asyncio.run(make())


@pytest.fixture
def storage(tmp_path: Path) -> str:
    made = f"sqlite:{tmp_path / 'tracker.db'}"

    async def make() -> None:
        async with opened_storage("--from", made, creates=True) as whole:
            await store(whole.snapshots, indexes_of([1, 2, 3, 4]), 1)

    asyncio.run(make())
    return made


def test_published_and_taken_back(command, url, storage, tmp_path):
    """A dry run changes nothing; each write of a node stands on stderr; restore needs the file alone."""
    publish = ("pulsar", "publish", "--from", storage, "--to", url, *SETTINGS)
    planned = command(*publish, "--dry-run", "--json")
    assert planned.status == 0, planned.err
    (plan,) = json.loads(planned.out)["planned"]
    assert [(one["first_ledger_id"], one["last_ledger_id"]) for one in plan["ranges"]] == [(1, 2), (3, 4)]
    assert len(plan["properties_now"]) == 1
    asked = command(*publish)
    assert asked.status == ExitCode.USAGE
    assert "--yes: publish 2 buckets of 1 subscription and delete 1 bucket that they have now" in asked.err

    backup = str(tmp_path / "before.jsonl")
    ran = command(*publish, "--yes", "--backup", backup)
    assert ran.status == 0, ran.err
    assert "32 messages of 1 subscription published in 2 buckets; 1 old bucket deleted" in ran.out
    assert ": version 0 is now 1" in ran.err or ": version 1 is now 2" in ran.err
    again = json.loads(command("pulsar", "restore", backup, "--dry-run", "--json").out)
    assert [one["is_restored"] for one in again["subscriptions"]] == [False]
    assert again["restored"] is None
    ran = command("pulsar", "restore", backup, "--yes")
    assert ran.status == 0, ran.err
    assert "1 subscription restored, 0 as before already; 1 ledger written again, 2 of the command deleted" in ran.out
    ran = command("pulsar", "inspect", url)
    assert ran.status == 0, ran.out


def test_refusals(command, url, storage, told, tmp_path):
    """A loaded topic, a silent broker, a storage without such a tracker, and files that are no backup have exit codes."""
    publish = ("pulsar", "publish", "--from", storage, "--to", url, "--yes", *SETTINGS)
    told.loaded.add(TOPIC)
    ran = command(*publish)
    assert ran.status == ExitCode.TRACKER_CONFLICT
    assert f"run `pulsar-admin topics unload {TOPIC}`" in ran.err
    told.status = 500
    assert command(*publish).status == ExitCode.SERVICE_UNAVAILABLE
    ran = command(*publish, "--topic", str(TOPIC), "--subscription", "none")
    assert ran.status == ExitCode.USAGE
    assert "it has no tracker like that, of 1 tracker in all" in ran.err
    file = tmp_path / "file"
    assert command("pulsar", "restore", str(file)).status == ExitCode.BAD_DATA
    file.write_text("nothing", encoding="utf-8")
    assert command("pulsar", "restore", str(file)).status == ExitCode.BAD_DATA
    ran = command("pulsar", "publish", "--from", storage, "--to", "bookkeeper+etcd:h:1", "--yes")
    assert ran.status == ExitCode.USAGE
    assert "the metadata store 'etcd' is not supported" in ran.err
