"""Tests of jobs over a running cluster: the rows of its ledgers, the rate that tasks share, and one snapshot for a job."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerState
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.ledger.live.ledger import LiveLedger
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.spark.commit.commit import StorageCommit
from delayed_tracker.spark.jobs.rebuild import rebuild
from delayed_tracker.spark.plan.scope import read_scope
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.spark.source.chosen_source import running_clusters
from delayed_tracker.spark.source.entry_filter import Range
from delayed_tracker.spark.source.ledger_plan import LedgerPart, plan_parts
from delayed_tracker.spark.source.source_options import SourceOptions, parse_options
from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.fixtures import allow_downloads, cluster, zookeeper
from tests.ledger.harness.cluster_topic import ClusterTopic
from tests.ledger.harness.disks import DiskFiles, cursor_at
from tests.ledger.harness.log_files import TOPIC, message
from tests.spark.commit.test_commit import looked_at
from tests.spark.harness.reading import bad_rows, positions, read_rows

__all__ = ["cluster", "zookeeper"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
NOW_MS = 1_795_000_000_000
LIMITS = TrackerLimits(min_index_count_per_bucket=20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow_downloads(items)


def messages(count: int, *, first: int = 0) -> list[bytes]:
    return [message(deliver_at_ms=NOW_MS + 60_000 * (1 + (7 * row) % 100)) for row in range(first, first + count)]


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[ClusterTopic]:
    cluster.require(2)
    with ClusterTopic(cluster.zookeeper) as made:
        yield made


def options_of(topic: ClusterTopic, parameters: str = "", **others: str) -> SourceOptions:
    return parse_options({"url": f"{topic.url}{parameters}", "topic": topic.name, **others})


def test_rows_are_those_of_the_ledgers(topic: ClusterTopic):
    """Each position is one row; what was trimmed is one row with its error."""
    first, second = topic.add_ledger(messages(30)), topic.add_ledger(messages(12))
    trimmed = topic.add_ledger(messages(5))
    topic.delete_ledger(trimmed)
    writer = topic.begin(messages(10))
    rows, _ = read_rows(url=topic.url, topic=topic.name, onError="skip")
    expected = [(first, entry) for entry in range(30)] + [(second, entry) for entry in range(12)]
    assert positions(rows) == expected + [(writer.ledger_id, entry) for entry in range(9)]
    assert [(row["ledger_id"], row["entry_id"], row["entry_count"]) for row in bad_rows(rows)] == [(trimmed, 0, 5)]
    assert topic.metadata(writer.ledger_id).state is LedgerState.OPEN


def rates_of(options: SourceOptions) -> list[int | None]:
    """Return the rate of each part, all of whose ledgers have the same."""
    rates = []
    for part in plan_parts(options, Range()):
        assert isinstance(part, LedgerPart)
        (rate,) = {
            entries.ledger.client.throttle.bytes_per_second_max
            for entries in part.ranges
            if isinstance(entries.ledger, LiveLedger)
        }
        rates.append(rate)
    return rates


def test_tasks_share_the_rate(topic: ClusterTopic):
    """The shares of all tasks together are the rate, whether their number is limited or not."""
    for _ in range(6):
        topic.add_ledger(messages(10))
    rate = "?maxBytesPerSecond=600000"
    assert rates_of(options_of(topic, rate, partitionBytes="1")) == [10_000] * 60
    assert rates_of(options_of(topic, rate, partitionBytes="1", tasksAtOnce="4")) == [150_000] * 4
    assert rates_of(options_of(topic, rate, tasksAtOnce="4")) == [600_000]
    assert rates_of(options_of(topic, partitionBytes="100", tasksAtOnce="4"))[:5] == [None] * 5


def test_no_entry_is_lost_among_the_tasks(topic: ClusterTopic):
    """Ranges are divided evenly among few tasks, and each is read once."""
    ids = [topic.add_ledger(messages(count)) for count in (40, 3, 25, 8)]
    options = options_of(topic, "?maxBytesPerSecond=100000000", partitionBytes="200", tasksAtOnce="3")
    parts = plan_parts(options, Range())
    sizes = [sum(entries.size_bytes for entries in part.ranges) for part in parts if isinstance(part, LedgerPart)]
    assert len(sizes) == 3
    assert max(sizes) < 1.3 * min(sizes)
    read = sorted(
        (entries.ledger.ledger_id, entry)
        for part in parts
        if isinstance(part, LedgerPart)
        for entries in part.ranges
        for entry in range(entries.first, entries.last + 1)
    )
    assert read == [
        (ledger, entry) for ledger, count in zip(ids, (40, 3, 25, 8), strict=True) for entry in range(count)
    ]


def test_a_job_sees_a_topic_as_of_its_first_look(topic: ClusterTopic):
    """The plan has the ledgers and the ends that the scope counted, although the topic has grown meanwhile."""
    topic.add_ledger(messages(10))
    writer = topic.begin(messages(6))
    topic.add_cursor(cursor_at(0, 0))
    options = options_of(topic)
    settings = RebuildSettings({"url": topic.url, "topic": topic.name}, now_ms=NOW_MS)
    with running_clusters(options) as running:
        scope = read_scope(settings, running)
        topic.add(writer, messages(5))
        topic.add_ledger(messages(4))
        ranges = [
            entries
            for part in plan_parts(options, Range(), running)
            if isinstance(part, LedgerPart)
            for entries in part.ranges
        ]
    assert {entries.ledger.ledger_id: entries.last + 1 for entries in ranges} == scope.entry_counts
    assert sum(scope.entry_counts.values()) == 15


def test_there_is_nothing_to_choose_about_open_ledgers(topic: ClusterTopic):
    """A running cluster is read live, and has its own metadata."""
    assert options_of(topic, metadata="/dump", openLedgers="live").urls == (topic.url,)
    with pytest.raises(InvalidInput, match=r"openLedgers: .recovered. is not valid; .* is a running cluster"):
        options_of(topic, openLedgers="recovered")
    for count in ("0", "x", "100001"):
        with pytest.raises(InvalidInput, match=r"tasksAtOnce: .* give a number of tasks from 1 to 100000"):
            options_of(topic, tasksAtOnce=count)


@pytest.mark.long
def test_a_rebuild_is_that_of_the_disks(spark: SparkSession, topic: ClusterTopic, tmp_path: Path):
    """The buckets of a running cluster, read by tasks that share a rate, equal those of disks with the same entries.

    Messages arrive all the time. One subscription has its acknowledgements in a ledger that its broker still writes.
    """
    ids = [topic.add_ledger(messages(count, first=count)) for count in (60, 45, 80)]
    by_entry = pb.PositionInfo(ledger_id=ids[0], entry_id=19)
    by_entry.individual_deleted_messages.add(
        lower_endpoint=pb.NestedPositionInfo(ledger_id=ids[1], entry_id=9),
        upper_endpoint=pb.NestedPositionInfo(ledger_id=ids[1], entry_id=29),
    )
    cursor_ledger = topic.begin([by_entry.SerializeToString()], of_topic=False)
    topic.add_cursor(pb.ManagedCursorInfo(cursors_ledger_id=cursor_ledger.ledger_id), "in a ledger")
    topic.add_cursor(cursor_at(ids[0], -1), "from the first")
    disk = DiskFiles(tmp_path)
    for ledger_id in ids:
        disk.add_ledger(ledger_id, topic.ledgers[ledger_id])
    in_metadata = cursor_at(by_entry.ledger_id, by_entry.entry_id)
    in_metadata.individual_deleted_messages.MergeFrom(by_entry.individual_deleted_messages)
    disk.add_cursor(in_metadata, "in a ledger")
    disk.add_cursor(cursor_at(ids[0], -1), "from the first")
    disk.open().close()

    def rebuilt(name: str, url: str, topic_name: str):
        options = {"url": url, "topic": topic_name, "partitionBytes": "2000"}
        job = RebuildSettings(options, now_ms=NOW_MS, staging=str(tmp_path / f"{name}-staging"), limits=LIMITS)
        summary = rebuild(spark, job, target=StorageCommit(f"sqlite:{tmp_path}/{name}.db"))
        assert summary.bad_entries == ()
        return {
            tracker.subscription: (
                tracker.written,
                tracker.acknowledged,
                [
                    stored[0]
                    for stored in looked_at(tmp_path / f"{name}.db", TrackerKey(topic_name, tracker.subscription))[
                        0
                    ].snapshots
                ],
            )
            for tracker in summary.trackers
        }

    writer = topic.begin([])
    with topic.adding(writer, message()):
        found = rebuilt("live", f"{topic.url}?maxBytesPerSecond=1000000", topic.name)
    assert found == rebuilt("disk", f"bookkeeper+file:{tmp_path}/ledgers?metadata={tmp_path}/dump.jsonl.gz", TOPIC)
    assert found["in a ledger"][1] == 40
    assert topic.metadata(writer.ledger_id).state is LedgerState.OPEN
    assert topic.metadata(cursor_ledger.ledger_id).state is LedgerState.OPEN
