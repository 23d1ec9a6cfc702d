"""Tests of compaction with chunked messages that are unfinished or abandoned."""

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction import Compaction
from delayed_tracker.ledger.compaction.latest import ABANDONED_AFTER_MS, LatestByKey
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata
from tests.ledger.compaction.compacting import compacted, entries_of, kept
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.messages.producer import PUBLISHED_AT_MS, chunks, metadata_of, single


def piece(uuid: str, chunk: int, chunk_count: int = 3) -> MessageMetadata:
    return metadata_of(uuid=uuid, chunk_id=chunk, num_chunks_from_msg=chunk_count, partition_key=uuid)


def fed(*pieces: MessageMetadata, waiting_pieces_max: int) -> LatestByKey:
    latest = LatestByKey(retain_null_key=False, waiting_pieces_max=waiting_pieces_max)
    for number, metadata in enumerate(pieces):
        latest.add_message(Position(1, number), metadata, 1)
    latest.finish(PUBLISHED_AT_MS)
    return latest


def test_the_message_that_waits_longest_for_a_piece_is_given_up():
    """The message that waits longest for a chunk is given up, and not the one that began first."""
    pieces = [piece("old", 0), *(piece(f"never {number}", 0) for number in range(2)), piece("old", 1)]
    more = [piece("new", 0), piece("old", 2), *(piece("never 0", chunk) for chunk in (1, 2)), piece("new", 1)]

    latest = fed(*pieces, *more, piece("new", 2), waiting_pieces_max=4)

    assert [latest.keeps_message(Position(1, number), metadata) for number, metadata in enumerate(pieces)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert latest.keeps_message(Position(1, 5), piece("old", 2))
    assert not latest.keeps_message(Position(1, 7), piece("never 0", 2))
    assert latest.keeps_message(Position(1, 9), piece("new", 2))


def test_pieces_that_are_sent_anew_do_not_fill_the_memory():
    """Chunks that are sent again replace the old ones, and a complete message is not counted any more."""
    again = [piece("again", chunk) for chunk in (0, 1)] * 3
    whole = [piece(uuid, chunk) for uuid in "abc" for chunk in range(3)]
    latest = fed(*again, *whole, piece("again", 2), waiting_pieces_max=4)
    assert len(latest) == 4


@pytest.mark.parametrize("ledger_entries", [1, 2, 10])
def test_a_message_that_is_still_being_sent_is_not_cut_in_two(ledger_entries):
    """Compaction ends before the first chunk of an unfinished message, and the next compaction continues there."""
    sent = chunks(b"in pieces", 3, uuid="sent", partition_key="a")
    whole = chunks(b"whole", 2, uuid="whole", partition_key="b")
    a, b, c = (single(b"old", partition_key=key) for key in "abc")
    entries = [a, b, c, whole[0], sent[0], *whole[1:], sent[1], single(b"c1", partition_key="c"), sent[2]]
    ledgers = [entries[at : at + ledger_entries] for at in range(0, len(entries), ledger_entries)]
    whole_log = topic_of(dict(enumerate(ledgers)))
    position = [Position(number // ledger_entries, number % ledger_entries) for number in range(len(entries))]

    left = compacted(whole_log, through=position[-2])

    assert left.horizon == position[3]
    assert kept(whole_log, left) == [("a", b"old"), ("b", b"whole"), ("c", b"c1"), ("a", b"in pieces")]
    # The only new entries are those that must wait.
    assert Compaction(log=whole_log, previous=left, through=position[-2]).choose() is None
    again = compacted(whole_log, previous=left)
    assert again.horizon == position[-1]
    assert kept(whole_log, again) == [("b", b"whole"), ("c", b"c1"), ("a", b"in pieces")]


def test_a_topic_that_begins_with_what_must_wait():
    """A topic that begins with an unfinished message has nothing to compact yet."""
    log = topic_of(
        {1: [*chunks(b"in pieces", 3, uuid="sent", partition_key="a")[:-1], single(b"b", partition_key="b")]}
    )
    assert Compaction(log=log).choose() is None


def test_an_abandoned_message_holds_nothing_up():
    """A message whose producer sent no chunk for as long as a consumer would wait does not delay compaction."""
    sent = chunks(b"in pieces", 3, uuid="sent", partition_key="a")
    for delay_ms, horizon in ((ABANDONED_AFTER_MS - 1, (1, 0)), (ABANDONED_AFTER_MS, (1, 3))):
        later = single(b"later", partition_key="b", publish_time=PUBLISHED_AT_MS + delay_ms)
        log = topic_of({1: [single(b"first", partition_key="b"), *sent[:2], later, sent[2]]})
        left = compacted(log, through=Position(1, 3))
        assert left.horizon == horizon
    assert entries_of(left) == [later]
