"""Tests of the command ``delayed-tracker pulsar gc``: answers for people and machines, consent, and exit codes."""

import json
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from tests.cluster.gc.conftest import FOREIGN, Trackers
from tests.cluster.made_cluster import SUBSCRIPTION, TOPIC, MadeCluster

pytestmark = pytest.mark.slow


@pytest.fixture
async def gone(made: MadeCluster, trackers: Trackers) -> Trackers:
    """Three trackers: one with a cursor, one without, and one of a namespace that the cluster does not have."""
    await made.cursor([])
    await trackers.open(TOPIC, SUBSCRIPTION)
    await trackers.open(TOPIC, "gone")
    await trackers.open(FOREIGN)
    return trackers


async def test_what_is_gone_is_deleted(gone: Trackers, gc):
    """A dry run shows it and a run without a terminal asks for --yes; each deletion is a line on stderr."""
    ran = await gc("--grace", "0", "--dry-run")
    assert ran.status == 0, ran.err
    assert "trackers to delete" in ran.out
    assert "left as they are" in ran.out
    assert "the cluster has no such namespace" in ran.out
    assert ran.out.endswith("3 trackers looked for, 2 without a cursor\nnothing was changed\n")
    ran = await gc("--grace", "0")
    assert ran.status == ExitCode.USAGE
    assert f"--yes: delete 1 tracker from {gone.service.address}? give it" in ran.err
    assert len(await gone.names()) == 3
    ran = await gc("--grace", "0", "--yes")
    assert ran.status == 0, ran.err
    assert f"{TOPIC}, 'gone': deleted, with 1 tracked messages" in ran.err
    assert "looking for cursors: 3 of 3 trackers" in ran.err
    assert ran.out.endswith("1 tracker deleted, with 1 tracked message; 1 tracker without a cursor left\n")
    assert await gone.names() == {(str(TOPIC), SUBSCRIPTION), (str(FOREIGN), "workers")}
    assert (await gc("--grace", "0")).out.endswith("\nnothing to delete\n")


async def test_without_a_state_the_command_waits(gone: Trackers, gc):
    """It shows for how long, and asks before."""
    ran = await gc("--grace", "1")
    assert ran.status == ExitCode.USAGE
    assert "if their cursors are still missing in 1 s? give it" in ran.err
    ran = await gc("--grace", "1", "--yes")
    assert ran.status == 0, ran.err
    assert "waiting: 1 of 1 seconds" in ran.err
    assert "looking again: 3 of 3 trackers" in ran.err
    assert ran.out.endswith("1 tracker deleted, with 1 tracked message; 1 tracker without a cursor left\n")


async def test_a_document_for_machines(gone: Trackers, gc, tmp_path: Path):
    """It has every tracker without a cursor and what became of it; stderr has nothing."""
    state = ("--state", str(tmp_path / "gc.json"))
    ran = await gc(*state, "--json")
    assert (ran.status, ran.err) == (0, "")
    first = json.loads(ran.out)
    assert (first["dry_run"], first["grace_s"], first["tracker_count"], first["other_count"]) == (False, 3_600, 3, 0)
    assert [(one["topic"], one["subscription"], one["verdict"]) for one in first["missing"]] == [
        (str(FOREIGN), "workers", "no_namespace"), (str(TOPIC), "gone", "waiting")
    ]  # fmt: skip
    waiting = first["missing"][1]
    assert (waiting["owner"], waiting["pending_count"], waiting["missing_since_ms"]) == ("broker", 1, first["now_ms"])
    assert first["deleted"] is None
    assert len(first["left"]) == 2
    second = json.loads((await gc(*state, "--grace", "0", "--yes", "--json")).out)
    assert second["deleted"] == [{"topic": str(TOPIC), "subscription": "gone", "deleted_count": 1}]
    assert [one["topic"] for one in second["left"]] == [str(FOREIGN)]
    assert second["missing"][1]["missing_since_ms"] == first["now_ms"]


@pytest.mark.long
async def test_refusals_delete_nothing(gone: Trackers, gc, made: MadeCluster, tmp_path: Path):
    """Each is a line on stderr with the exit code of its kind."""
    damaged = tmp_path / "gc.json"
    damaged.write_text("{", encoding="utf-8")
    zookeeper = made.address.zookeeper
    for arguments, cluster, status, words in (
        (("--state", str(damaged)), None, ExitCode.BAD_DATA, "is damaged; nothing was deleted"),
        (("--state", str(tmp_path / "no" / "x")), None, ExitCode.STORAGE_UNUSABLE, "cannot be written"),
        (("--topic", str(TOPIC), "--topic-prefix", "x"), None, ExitCode.USAGE, "not both"),
        (("--topic", "non-persistent://t/ns/x"), None, ExitCode.USAGE, "--topic"),
        (("--grace", "-1"), None, ExitCode.USAGE, "--grace"),
        ((), f"bookkeeper+zk:{zookeeper}/none", ExitCode.FAILURE, "/none"),
        ((), "bookkeeper+zk:127.0.0.1:1", ExitCode.SERVICE_UNAVAILABLE, "does not answer"),
        (("--service", "127.0.0.1:1"), None, ExitCode.SERVICE_UNAVAILABLE, "127.0.0.1:1"),
        (("--token-file", str(tmp_path / "none")), None, ExitCode.USAGE, "--token-file"),
    ):
        ran = await gc("--grace", "0", "--yes", *arguments, cluster=cluster or made.address.text)
        assert ran.status == status, (arguments, ran.err)
        assert words in ran.err, (arguments, ran.err)
    assert len(await gone.names()) == 3


async def test_a_cluster_without_topics_is_refused(gone: Trackers, gc, made: MadeCluster):
    """BookKeeper's nodes alone are no Pulsar."""
    zookeeper = made.cluster.client.zookeeper
    for path in (made.address.cursor_node(TOPIC, SUBSCRIPTION), made.address.topic_node(TOPIC)):
        await zookeeper.delete(path)
    path = made.address.topic_node(TOPIC).rpartition("/")[0]
    while path != made.address.root:
        await zookeeper.delete(path)
        path = path.rpartition("/")[0]
    ran = await gc("--grace", "0", "--yes", "--missing-namespaces")
    assert ran.status == ExitCode.USAGE
    assert f"ZooKeeper has no node {made.address.managed_ledgers}" in ran.err
    assert len(await gone.names()) == 3
