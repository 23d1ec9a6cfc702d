"""Rebuilds into storages that processes share: tasks write there, tasks read there, and both agree with SQLite."""

import asyncio

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.storage.protocol import SnapshotStore
from delayed_tracker.storage.registry import open_storage
from tests.bookkeeper.servers.fixtures import cluster, zookeeper
from tests.snapshot_storage.shared.clouds.conftest import credentials, place, s3
from tests.spark.harness.clusters import NOW_MS, Cursor, Entry, Topic, write_cluster
from tests.spark.harness.live import Live, stored

__all__ = ["cluster", "credentials", "place", "s3", "zookeeper"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TOPIC = "persistent://lab/main/orders"
KEYS = [TrackerKey(TOPIC, subscription) for subscription in ("billing", "shipping")]
LEDGERS = {ledger: [Entry(10**9 + 7_000 * entry) for entry in range(200)] for ledger in (1, 2, 3)}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture(params=[pytest.param("file", marks=pytest.mark.deep), "s3", "bookkeeper"])
def url(request, spark: SparkSession, tmp_path, monkeypatch) -> str:
    """Return the URL of an empty storage, which tasks can open."""
    if request.param == "file":
        return f"file://{tmp_path / 'storage'}"
    if request.param == "s3":
        for name, value in CREDENTIALS.items():
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
        return f"s3:{request.getfixturevalue('s3').rest(request.getfixturevalue('place'))}"
    running = request.getfixturevalue("cluster")
    running.require(1)
    return f"bookkeeper:zk://{running.zookeeper.address}/ledgers?root=/spark&ensemble=1&writeQuorum=1&ackQuorum=1"


def look(url: str) -> list[tuple[Live, int]]:
    """Return what each tracker has, and the number of its stored snapshots."""

    async def looked() -> list[tuple[Live, int]]:
        storage: SnapshotStore = open_storage(url)
        await storage.start()
        try:
            return [(await stored(storage, key), len(await storage.list_bucket_snapshots(*key))) for key in KEYS]
        finally:
            await storage.close()

    return asyncio.run(looked())


def test_what_tasks_write_is_what_the_driver_would_write(spark: SparkSession, command, tmp_path, url):
    """The bytes are those in SQLite; a second job changes nothing; verify and the data source find every position."""
    cursors = {"billing": Cursor((1, 3)), "shipping": Cursor((1, -1))}
    source = write_cluster(tmp_path / "cluster", [Topic(TOPIC, LEDGERS, cursors)])
    reading = (
        "--source", source, "--now", str(NOW_MS), "--set", "delayedDeliveryMinIndexCountPerBucket=50",
        "--set", "delayedDeliveryMaxIndexesPerBucketSnapshotSegment=20", "--json",
    )  # fmt: skip
    staging = ("--staging", str(tmp_path / "staging"), "--indexes-per-task", "60")
    in_file = f"sqlite:{tmp_path / 'tracker.db'}"
    for target in (in_file, url):
        ran = command("rebuild", *reading, *staging, "--commit", target)
        assert ran.status == 0, ran.err
    written = ran.document["written"]
    assert written == 2 * 400 - 4
    rebuilt = look(url)
    assert [live.snapshots for live, _ in rebuilt] == [live.snapshots for live, _ in look(in_file)]
    assert [count for _, count in rebuilt] == [len(live.entries) for live, _ in rebuilt] == [2, 2]
    again = command("rebuild", *reading, *staging, "--commit", url)
    assert [tracker["unchanged"] for tracker in again.document["trackers"]] == [True, True]

    verified = command("verify", *reading, "--against", url)
    assert (verified.status, verified.document["equal"]) == (0, True), verified.err
    assert sum(tracker["found"] for tracker in verified.document["trackers"]) == written
    pending = spark.read.format("delayed_snapshots").options(url=url, partitionBytes="1000").load()
    assert pending.select("subscription", "ledger_id", "entry_id").distinct().count() == pending.count() == written
