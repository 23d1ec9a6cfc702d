"""Tests that Pulsar's own classes read the ledgers of our compactor as we do."""

from pathlib import Path

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction import Compaction
from delayed_tracker.ledger.compaction.compacted_ledger import first_at_or_after
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.topic.topic_log import CompactedLog, TopicLog
from tests.jvm.our_reading import read_compacted
from tests.jvm.pulsar_reads import PulsarReads
from tests.jvm.sent import KEYS, sent
from tests.jvm.writing import BOTH, write
from tests.ledger.compaction.compacting import COMPACTED_LEDGER_ID, EntryList
from tests.ledger.harness.list_ledger import ListLedger

FIRST_MS, SECOND_MS = 1_700_000_000_123, 1_700_000_000_456
PARTITION = 3
TOPIC = f"persistent://lab/main/orders-partition-{PARTITION}"


def topic_log(directory: Path) -> TopicLog:
    with open_local_ledgers(directory) as source:
        return source.topic_log(TOPIC)


def compacted(log: TopicLog, previous: CompactedLog | None = None) -> tuple[list[bytes], CompactedLog]:
    """Return the entries of the compacted ledger, and the ledger."""
    compaction = Compaction(log=log, previous=previous)
    plan = compaction.choose()
    assert plan is not None
    entries = EntryList()
    compaction.write(plan, entries)
    return entries, CompactedLog(ListLedger(COMPACTED_LEDGER_ID, entries), plan.horizon)


@pytest.mark.slow
def test_every_entry(pulsar: PulsarReads, tmp_path):
    """Original id, frame, checksum, metadata, slots, kept slots and a later compaction's view are equal, twice."""
    previous = None
    for seed, now_ms in enumerate([FIRST_MS, SECOND_MS]):
        write(tmp_path, sent(100, seed=seed), now_ms=now_ms, interceptors=BOTH, topic=TOPIC)
        entries, previous = compacted(topic_log(tmp_path), previous)

        theirs = [pulsar.compacted(entry) for entry in entries]

        assert theirs == [read_compacted(entry, PARTITION) for entry in entries]
        assert all(row["crc_ok"] and row["has_frame"] for row in theirs)
        assert {key for row in theirs for _, key, _ in row["compactable"]} & set(KEYS)
        rebatched = [row for row in theirs if row["compacted_batch_indexes"]]
        assert rebatched
        for row in rebatched:
            kept = [at for at, slot in enumerate(row["slots"]) if not slot["compacted_out"]]
            assert row["compacted_batch_indexes"] == kept == [at for at, _, _ in row["compactable"]]
            assert len(row["messages"]) == len(kept) < len(row["slots"]) == row["num_messages_in_batch"]


@pytest.mark.slow
def test_where_reading_begins(pulsar: PulsarReads, tmp_path):
    """Pulsar's search in our compacted ledger gives our start for every position of the topic and those around it."""
    write(tmp_path, sent(100, seed=3), now_ms=FIRST_MS, interceptors=BOTH, topic=TOPIC)
    log = topic_log(tmp_path)
    entries, left = compacted(log)
    places = set()
    for ledger in log.ledgers:
        for entry_id in range(-1, ledger.last_entry_id + 2):
            position = Position(ledger.ledger_id, entry_id)
            ours = first_at_or_after(left.ledger, position)
            assert pulsar.start(position, entries) == (ours if ours < len(entries) else None), position
            places.add(ours)
    assert places == set(range(len(entries) + 1))
