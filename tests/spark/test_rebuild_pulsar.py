"""Rebuilds from data of a real Pulsar: the pending messages are those that Pulsar's own classes computed."""

import gzip
import json
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.ledger.source_url import open_source
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.spark.commit.commit import StorageCommit
from delayed_tracker.spark.jobs.rebuild import rebuild
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.storage.codec.codec import decode_metadata
from tests.repository.project_tree import ROOT
from tests.spark.commit.test_commit import looked_at

pytestmark = pytest.mark.timeout(600)

PULSAR_A = ROOT / "tests" / "data" / "pulsar-a"
METADATA = f"metadata={PULSAR_A}/metadata.jsonl.gz"
BOOKIE = f"bookkeeper+file:{PULSAR_A}/bookie?{METADATA}"
SOURCES = {
    "entry logs": BOOKIE,
    "map files": f"offload+mapfile:{PULSAR_A}/offload-filesystem/block?{METADATA} {BOOKIE}",
    "blobs": f"offload+blob:{PULSAR_A}/offload-blob?{METADATA} {BOOKIE}",
}
LIMITS = TrackerLimits(strict=True, min_index_count_per_bucket=1)
"""Nothing is due at 0, and each ledger is a bucket, so all but the last one is stored."""


def pending_by_oracle() -> dict[TrackerKey, list[tuple[Position, int]]]:
    """Return the pending entries of each subscription that has any, ascending, without unfinished transactions."""
    found = {}
    with gzip.open(PULSAR_A / "expected" / "pending.jsonl.gz") as lines:
        for line in lines:
            row = json.loads(line)
            topic = TopicName.of_managed_ledger(row["managed_ledger"])
            found[TrackerKey(str(topic), row["cursor"])] = [
                (Position(ledger, entry), deadline)
                for ledger, entry, deadline, *outcome in row["pending"]
                if outcome in ([], ["committed"])
            ]
    return found


@pytest.mark.long
@pytest.mark.parametrize("url", SOURCES.values(), ids=SOURCES)
def test_what_is_pending_is_what_pulsar_says(spark: SparkSession, tmp_path: Path, url: str):
    """The buckets, the tail and the due messages of every subscription contain exactly the pending positions."""
    # The objects of one topic are too large for the repository.
    source = {"url": url, "topicsPattern": "(?!persistent://lab/s3/blocks).*"}
    job = RebuildSettings(source, now_ms=0, staging=str(tmp_path / "staging"), limits=LIMITS)
    summary = rebuild(spark, job, target=StorageCommit(f"sqlite:{tmp_path}/tracker.db"))
    oracle = pending_by_oracle()
    assert oracle
    for tracker in summary.trackers:
        key = TrackerKey(tracker.topic, tracker.subscription)
        expected = [position for position, deadline in oracle.pop(key, []) if deadline > 0]
        stored: list[Position] = []
        for metadata, *_ in looked_at(tmp_path / "tracker.db", key)[0].snapshots:
            bits = [bits.to_columns() for bits in decode_metadata(metadata).segment_bits]
            stored += sorted(position for columns in bits for position in columns)
        assert stored == expected[: tracker.written]
        tail = list(islice(expected, tracker.written, None))
        assert (tracker.tail, tracker.replay_from) == (len(tail), tail[0] if tail else None)
    assert not oracle


def delayed_by_oracle(topic: str, ledgers: set[int]) -> list[Position]:
    """Return all delayed entries of some ledgers of a topic, ascending."""
    with gzip.open(PULSAR_A / "expected" / "entries.jsonl.gz") as lines:
        found = [json.loads(line) for line in lines]
    return sorted(
        Position(entry["ledger"], entry["entry"])
        for entry in found
        if entry["topic"] == topic and entry["ledger"] in ledgers and (entry["deliver_at"] or 0) > 0
    )


@pytest.mark.parametrize(
    ("url", "topic"),
    [
        (f"offload+mapfile:{PULSAR_A}/offload-filesystem/block", "persistent://lab/fs-block/stored"),
        (f"offload+blob:{PULSAR_A}/offload-blob", "persistent://lab/s3/stored"),
    ],
    ids=["map files", "blobs"],
)
def test_tiered_storage_alone_serves_a_new_subscription(spark: SparkSession, url: str, topic: str):
    """Without metadata all entries are pending, and nothing is written without a target."""
    job = RebuildSettings(
        {"url": url, "topic": topic}, now_ms=0, subscriptions=("new",), ignore_acks=True, limits=LIMITS
    )
    (tracker,) = rebuild(spark, job).trackers
    with open_source(url) as source:
        expected = delayed_by_oracle(topic, {ledger.ledger_id for ledger in source.topic_log(topic).ledgers})
    assert len(expected) > 100
    assert tracker.delayed == tracker.written + tracker.tail == len(expected)
    assert tracker.replay_from == expected[tracker.written]
    assert tracker.epoch is None
