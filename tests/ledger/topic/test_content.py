"""Tests of counting the contents of a ledger of messages."""

from delayed_tracker.ledger.topic.ledger_statistics import count_ledger
from tests.ledger.harness.list_ledger import ListLedger
from tests.ledger.harness.log_files import flipped
from tests.ledger.messages.producer import PUBLISHED_AT_MS, batch, chunks, marker, single, slot


def test_every_kind_is_counted():
    """Every kind of entry is counted over several pieces, and bad entries are in no other count."""
    batched = batch([slot(0, b"a"), slot(1, b"b"), slot(2, b"c")], index=12, deliver_at_time=5)
    entries = [
        single(b"-", index=9, publish_time=PUBLISHED_AT_MS - 7),
        batched,
        *chunks(b"abcd", 2, uuid="u"),
        single(b"-", txnid_most_bits=0, txnid_least_bits=1),
        marker(21, (0, 1), index=13),
        flipped(single(b"-", index=99, publish_time=1), 20),
        None,
    ]
    seen: list[int] = []
    content = count_ledger(ListLedger(3, entries), seen=seen.append)
    assert (content.ledger_id, content.entry_count, content.bad_count) == (3, 8, 2)
    assert (content.message_count, content.batch_count, content.chunk_count) == (7, 1, 2)
    assert (content.delayed_count, content.transaction_count, content.marker_count) == (1, 1, 1)
    assert content.payload_bytes == sum(len(entry) for entry in entries if entry is not None)
    assert (content.first_index, content.last_index) == (9, 13)
    # The broker's time counts if the entry has one.
    assert (content.first_written_ms, content.last_written_ms) == (PUBLISHED_AT_MS, PUBLISHED_AT_MS + 5)
    assert seen == [3, 6, 8]


def test_an_empty_ledger_has_neither_times_nor_indexes():
    """An empty ledger, and one whose entries are all bad, has neither times nor indexes."""
    for entries in ([], [None]):
        content = count_ledger(ListLedger(3, entries))
        assert (content.message_count, content.bad_count) == (0, len(entries))
        assert (content.first_written_ms, content.last_written_ms) == (None, None)
        assert (content.first_index, content.last_index) == (None, None)
