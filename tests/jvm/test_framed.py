"""Tests that Pulsar's own classes read the entries that we store, with their frames, as we do."""

from itertools import accumulate

import pytest

from delayed_tracker.ledger.entry.entry_columns import EntryVerdict, scan_entries
from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from tests.jvm.our_reading import read_entry
from tests.jvm.pulsar_reads import PulsarReads
from tests.jvm.sent import sent
from tests.jvm.writing import BOTH, INDEX, TIME, message_count, write
from tests.ledger.harness.log_files import flipped
from tests.ledger.local.disks import stored
from tests.ledger.messages.producer import batch, slot

FIRST_MS, SECOND_MS = 1_700_000_000_123, 1_700_000_000_456


@pytest.mark.slow
def test_entries_with_broker_metadata(pulsar: PulsarReads, tmp_path):
    """Every field, the checksum's verdict and all messages are equal, and time and index are those of the adds."""
    first, second = sent(150, seed=1), sent(150, seed=2)
    write(tmp_path, first, now_ms=FIRST_MS, interceptors=BOTH)
    write(tmp_path, second, now_ms=SECOND_MS, interceptors=BOTH)

    entries = [entry for _, entry in stored(tmp_path)]
    theirs = [pulsar.entry(entry) for entry in entries]

    assert theirs == [read_entry(entry) for entry in entries]
    assert [row["broker_timestamp"] for row in theirs] == [FIRST_MS] * len(first) + [SECOND_MS] * len(second)
    assert [row["index"] for row in theirs] == [end - 1 for end in accumulate(map(message_count, first + second))]
    assert all(row["crc_ok"] for row in theirs)
    assert sum(row["num_messages_in_batch"] is not None for row in theirs) > 100
    assert [entry[-len(payload) :] for entry, payload in zip(entries, first + second, strict=True)] == first + second


@pytest.mark.parametrize(
    ("interceptors", "timestamp", "index"), [([], None, None), ([TIME], FIRST_MS, None), ([INDEX], None, 2)]
)
def test_entries_with_a_part_of_it(pulsar: PulsarReads, tmp_path, interceptors, timestamp, index):
    """Entries with any choice of interceptors are equal, and an entry that counts as no message has no frame."""
    payload = batch([slot(at, b"x", sequence_id=7 + at) for at in range(3)])

    write(tmp_path, [payload] * 2, now_ms=FIRST_MS, interceptors=interceptors, num_messages=[3, 0])
    (_, framed), (_, unframed) = stored(tmp_path)
    theirs = pulsar.entry(framed)

    assert theirs == read_entry(framed)
    assert (theirs["broker_timestamp"], theirs["index"], theirs["has_frame"]) == (timestamp, index, bool(interceptors))
    assert pulsar.entry(unframed) == read_entry(unframed)
    assert unframed == payload


def test_a_flipped_byte_is_refused(pulsar: PulsarReads, tmp_path):
    """Pulsar and our reader refuse an entry with any flipped byte behind the broker metadata."""
    payload = batch([slot(at, b"payload") for at in range(3)])
    write(tmp_path, [payload], now_ms=FIRST_MS, interceptors=BOTH)
    ((_, entry),) = stored(tmp_path)
    assert pulsar.entry(entry)["crc_ok"]

    for offset in range(len(entry) - len(payload), len(entry)):
        broken = flipped(entry, offset)
        theirs = pulsar.entry(broken)
        assert "refused" in theirs or (theirs["crc_ok"], theirs["messages"]) == (False, []), offset
        assert scan_entries(StoredEntries.of(1, [0], [broken])).verdict[0] != EntryVerdict.READABLE, offset
