"""Tests of compaction, which keeps the latest message of each key."""

import tracemalloc

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction import Compaction
from delayed_tracker.ledger.compression import Codec
from delayed_tracker.ledger.entry.frame import encode_entry, parse_message_metadata, split_frame
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.messages.batch import join_batch
from delayed_tracker.ledger.topic.topic_log import CompactedLog, TopicLog
from tests.ledger.compaction.compacting import (
    COMPACTED_LEDGER_ID,
    EntryList,
    compacted,
    compacted_with_summary,
    entries_of,
    kept,
    messages,
)
from tests.ledger.harness.list_ledger import ListLedger, topic_of
from tests.ledger.harness.log_files import flipped
from tests.ledger.messages.producer import batch, chunks, entry, marker, metadata_of, single, slot

ONE = (0, 1)
ENCRYPTED = [{"key": "k", "value": b""}]


def compacted_messages(log: TopicLog, **options) -> list[tuple[str | None, bytes]]:
    return kept(log, compacted(log, **options))


def test_the_latest_message_of_each_key_is_kept():
    """The latest message of each key is kept in topic order, from a single entry, a batch or another ledger."""
    log = topic_of(
        {
            1: [
                single(b"a0", partition_key="a"),
                batch([slot(0, b"b0", partition_key="b"), slot(1, b"a1", partition_key="a")]),
                single(b"c0", partition_key="c"),
            ],
            2: [batch([slot(0, b"b1", partition_key="b"), slot(1, b"b2", partition_key="b")])],
        }
    )
    assert compacted_messages(log) == [("a", b"a1"), ("c", b"c0"), ("b", b"b2")]


def test_a_message_without_a_value_removes_its_key():
    """A message with a null or empty value removes its key, and a later value brings the key back."""
    tombstones = [
        single(b"", partition_key="a", null_value=True),
        single(b"", partition_key="a"),
        batch([slot(0, b"", partition_key="a", null_value=True)]),
        batch([slot(0, b"", partition_key="a")]),
        single(b"", partition_key="a", codec=Codec.ZLIB),
        encode_entry(metadata_of(partition_key="a", null_value=True), b""),
        encode_entry(metadata_of(partition_key="a", null_value=True, encryption_keys=ENCRYPTED), b"tag of 16 bytes."),
    ]
    for tombstone in tombstones:
        before = [single(b"a0", partition_key="a"), single(b"b0", partition_key="b"), tombstone]
        assert compacted_messages(topic_of({1: before})) == [("b", b"b0")]
        assert compacted_messages(topic_of({1: [*before, single(b"a1", partition_key="a")]})) == [
            ("b", b"b0"),
            ("a", b"a1"),
        ]


def test_a_size_that_nobody_stated_is_that_of_the_payload():
    """Without a stated size, the size of an uncompressed message is the size of its payload."""
    log = topic_of({1: [encode_entry(metadata_of(partition_key="a"), b"x")]})
    assert compacted_messages(log) == [("a", b"x")]


def test_messages_without_a_key_are_dropped_unless_they_are_to_be_kept():
    """Messages without a key are dropped unless topicCompactionRetainNullKey, false by default, is set."""
    mixed = batch([slot(0, b"x"), slot(1, b"a", partition_key="a")])
    log = topic_of({1: [single(b"y"), mixed, batch([slot(0, b"z")])]})

    assert compacted_messages(log) == [("a", b"a")]
    assert compacted_messages(log, retain_null_key=True) == [(None, b"y"), (None, b"x"), ("a", b"a"), (None, b"z")]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_keeps_its_slots(codec):
    """A dropped slot of a batch stays as an empty slot, and the metadata lists the others; all else is unchanged."""
    original = batch(
        [slot(number, b"%d" % number, partition_key="abc"[number % 3], sequence_id=number) for number in range(5)],
        codec=codec,
        index=14,
        properties=[{"key": "a", "value": "b"}],
    )
    left, summary = compacted_with_summary(topic_of({1: [original]}))

    (rebatched,) = entries_of(left)
    frame = split_frame(rebatched)
    metadata = parse_message_metadata(rebatched, frame)
    assert list(metadata.compacted_batch_indexes) == [2, 3, 4]
    assert (metadata.num_messages_in_batch, metadata.compression) == (5, codec)
    assert rebatched[: frame.broker_end] == original[: frame.broker_end]
    assert [
        (message.id.batch_index, message.index, message.sequence_id) for message in messages(topic_of({}), left)
    ] == [
        (2, 12, 2),
        (3, 13, 3),
        (4, 14, 4),
    ]
    assert (summary.entry_count, summary.rebatched_count, summary.undecodable_count) == (1, 1, 0)


def test_what_is_no_batch_is_copied_byte_by_byte():
    """An entry that is not a batch is copied byte by byte, with its broker frame and compression."""
    content = single(b"a" * 100, codec=Codec.LZ4, index=3, partition_key="a")
    assert entries_of(compacted(topic_of({1: [content]}))) == [content]


def test_encrypted_batches_are_copied_by_the_key_of_their_metadata():
    """An encrypted batch is kept whole by the key in its metadata, because its slots cannot be read."""
    old, new, other, keyless = (
        entry(metadata_of(num_messages_in_batch=4, encryption_keys=ENCRYPTED, uncompressed_size=9, **fields), payload)
        for fields, payload in [
            ({"partition_key": "a"}, b"old"),
            ({"partition_key": "a"}, b"new"),
            ({"partition_key": "b"}, b"other"),
            ({}, b"keyless"),
        ]
    )
    log = topic_of({1: [old, other, keyless, new]})

    assert entries_of(compacted(log)) == [other, new]
    assert entries_of(compacted(log, retain_null_key=True)) == [other, keyless, new]


def test_markers_and_aborted_messages_are_dropped():
    """An aborted message does not replace a committed one, and the horizon is the last message before the marker."""
    log = topic_of(
        {
            1: [
                single(b"a0", partition_key="a"),
                single(b"no", partition_key="a", txnid_most_bits=0, txnid_least_bits=1),
                single(b"b0", partition_key="b", txnid_most_bits=0, txnid_least_bits=2),
                marker(22, ONE),
                marker(21, (0, 2)),
            ]
        }
    )
    left = compacted(log)
    assert kept(log, left) == [("a", b"a0"), ("b", b"b0")]
    assert left.horizon == (1, 2)


def test_compaction_ends_before_an_open_transaction():
    """Compaction ends before an open transaction."""
    waiting = single(b"?", partition_key="a", txnid_most_bits=0, txnid_least_bits=1)
    log = topic_of({1: [single(b"a0", partition_key="a"), waiting, single(b"a1", partition_key="a")]})
    left = compacted(log)
    assert left.horizon == (1, 0)
    assert [content[-2:] for content in entries_of(left)] == [b"a0"]


def test_messages_in_pieces_are_kept_whole():
    """All chunks of a key's latest message are kept; chunks of other or unfinished messages are dropped."""
    old = chunks(b"old old old", 4, uuid="old", partition_key="a")
    new = chunks(b"new new new", 4, uuid="new", partition_key="a")
    unfinished = chunks(b"never never", 4, uuid="never", partition_key="a")[:-1]
    log = topic_of(
        {1: [*old, new[0], unfinished[0], new[1], new[1], new[2], single(b"b", partition_key="b"), *unfinished]}
    )

    left = compacted(log)

    assert kept(log, left) == [("a", b"new new new"), ("b", b"b")]
    assert entries_of(left) == [*new, single(b"b", partition_key="b")]


def test_a_batch_that_cannot_be_taken_apart_is_kept():
    """A batch that cannot be decoded is kept, because its keys are unknown."""
    broken = batch([slot(0, b"a", partition_key="a")], num_messages_in_batch=2)
    log = topic_of({1: [broken, single(b"a1", partition_key="a")]})

    left, summary = compacted_with_summary(log)

    assert entries_of(left) == [broken, single(b"a1", partition_key="a")]
    assert (summary.entry_count, summary.rebatched_count, summary.undecodable_count) == (2, 0, 1)


def test_the_next_compaction_goes_on_from_the_last():
    """The next compaction reads the kept and the new messages, and compacts a compacted batch again."""
    slots = [slot(number, b"%d" % number, partition_key=key) for number, key in enumerate("aabc")]
    ledgers = {1: [batch(slots), single(b"d", partition_key="d")]}
    first = compacted(topic_of(ledgers))
    ledgers[2] = [single(b"b1", partition_key="b"), single(b"", partition_key="d", null_value=True)]
    log = topic_of(ledgers)

    second = compacted(log, previous=first)

    assert kept(log, second) == [("a", b"1"), ("c", b"3"), ("b", b"b1")]
    assert (first.horizon, second.horizon) == ((1, 1), (2, 1))
    assert log.ledgers[0].entries_read == 0
    (rebatched, _) = entries_of(second)
    assert list(parse_message_metadata(rebatched, split_frame(rebatched)).compacted_batch_indexes) == [1, 3]


def test_what_was_dropped_stays_dropped():
    """A dropped slot stays dropped, although it has no key and messages without a key are kept."""
    mixed = batch([slot(0, b"a0", partition_key="a"), slot(1, b"x"), slot(2, b"a1", partition_key="a")])
    log = topic_of({1: [mixed]})
    first = compacted(log, retain_null_key=True)
    assert (
        kept(log, first)
        == kept(log, compacted(log, previous=first, retain_null_key=True))
        == [(None, b"x"), ("a", b"a1")]
    )


def test_what_was_kept_of_a_transaction_was_committed():
    """Kept messages of a transaction stay visible after the topic, and with it the marker, was trimmed."""
    in_txn = single(b"x", partition_key="k", txnid_most_bits=0, txnid_least_bits=1)
    first = compacted(topic_of({1: [in_txn, marker(21, ONE)]}))
    log = topic_of({2: [single(b"y", partition_key="l")]})
    assert compacted_messages(log, previous=first) == [("k", b"x"), ("l", b"y")]


def test_messages_that_come_between_the_passes_are_left_to_the_next_compaction():
    """Messages that are written between the two passes are left to the next compaction."""
    entries = [single(b"a0", partition_key="a")]
    log = topic_of({1: entries})
    compaction = Compaction(log=log, retain_null_key=True)
    plan = compaction.choose()
    entries += [single(b"a1", partition_key="a"), single(b"b")]

    written = EntryList()
    compaction.write(plan, written)

    left = CompactedLog(ListLedger(COMPACTED_LEDGER_ID, written), plan.horizon)
    assert kept(log, left) == [("a", b"a0"), ("a", b"a1"), (None, b"b")]
    assert compacted_messages(log, previous=left, retain_null_key=True) == [("a", b"a1"), (None, b"b")]


def test_where_the_last_value_was():
    """The metadata has the position of the last value, not of tombstones or dropped messages behind it."""
    tombstone = slot(0, b"", partition_key="b")
    log = topic_of(
        {
            1: [
                single(b"a", partition_key="a"),
                batch([tombstone, slot(1, b"x")]),
                batch([tombstone, slot(1, b"", compacted_out=True)]),
            ]
        }
    )
    assert Compaction(log=log).choose().compacted_to == (1, 0)
    assert Compaction(log=log, retain_null_key=True).choose().compacted_to == (1, 1)
    assert dict(Compaction(log=log).choose().custom_metadata) == {
        "application": b"pulsar",
        "component": b"compacted-ledger",
        "pulsar/compactedTopic": b"persistent://lab/main/orders",
        "pulsar/compactedTo": bytes.fromhex("080110003000"),
    }


def test_compacting_twice_changes_nothing():
    """Compaction without new messages changes nothing, even if only tombstones are before the horizon."""
    log = topic_of(
        {
            1: [
                batch([slot(0, b"a", partition_key="a"), slot(1, b"b", partition_key="b")]),
                single(b"", partition_key="b"),
            ]
        }
    )
    first = compacted(log)
    second = compacted(log, previous=first)
    assert second.horizon == first.horizon == (1, 1)
    assert second.ledger.payloads == first.ledger.payloads


def test_a_batch_of_retained_messages_only_stays_one():
    """A batch that another compactor left in the layout of the proposal is compacted further in that layout."""
    metadata = metadata_of(num_messages_in_batch=1 << 30, compacted_batch_indexes=[1, 3, 7])
    retained = [slot(0, b"%d" % number, partition_key=key) for number, key in enumerate("abc")]
    log = topic_of({1: [entry(metadata, join_batch(retained)), single(b"b1", partition_key="b")]})

    left = compacted(log)

    assert [(message.key, message.id.batch_index) for message in messages(log, left)] == [("a", 1), ("c", 7), ("b", -1)]
    assert len(entries_of(left)[0]) < 200


def test_a_topic_without_messages_has_no_plan():
    """A topic that is empty, has only markers, or has only removed messages and no new ones, has no plan."""
    removed = topic_of({1: [single(b"a", partition_key="a"), single(b"", partition_key="a")]})
    assert Compaction(log=removed, previous=compacted(removed)).choose() is None
    assert Compaction(log=topic_of({1: []})).choose() is None
    assert Compaction(log=topic_of({1: [marker(21, ONE)]})).choose() is None


def test_damage_fails_or_is_listed():
    """An unreadable entry fails the compaction, or is listed in the plan because it is lost for the compacted topic."""
    log = topic_of(
        {
            1: [
                single(b"a", partition_key="a"),
                flipped(single(b"b", partition_key="b"), -1),
                None,
                single(b"c", partition_key="c"),
            ]
        }
    )
    with pytest.raises(EntriesUnreadable, match=r"entry 1:2: missing \(and 1 more\)"):
        Compaction(log=log).choose()

    plan = Compaction(log=log, on_error=ErrorPolicy.SKIP).choose()
    assert sorted(bad.entry_id for bad in plan.bad_entries) == [1, 2]
    assert compacted_messages(log, on_error=ErrorPolicy.SKIP) == [("a", b"a"), ("c", b"c")]


def test_compaction_through_a_position():
    """Entries behind the given position are not read, damaged or not."""
    damaged = [flipped(single(b"b", partition_key="b"), -1), None]
    log = topic_of({1: [single(b"a", partition_key="a"), *damaged], 2: damaged})
    assert compacted(log, through=Position(1, 0)).horizon == (1, 0)


@pytest.mark.slow
def test_memory_follows_the_keys_not_the_messages():
    """Twenty times the messages with the same keys need no more memory."""

    def peak(message_count: int) -> int:
        payload = bytes(2_000)
        ledger = ListLedger(
            1, [single(payload, partition_key=str(n % 50)) for n in range(message_count)], piece_entries=50
        )
        compaction = Compaction(log=TopicLog(topic_of({}).name, (ledger,)))
        tracemalloc.start()
        compaction.choose()
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(100)
    assert peak(4_000) < 1.2 * peak(200)
