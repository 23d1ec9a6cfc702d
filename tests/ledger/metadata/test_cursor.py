"""Tests of the acknowledgement state of a subscription, in each stored form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import BEFORE_ALL, Position, PositionColumns
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.ledger.metadata.cursor import cursor_state, nothing_acked
from delayed_tracker.ledger.metadata.managed_ledger import parse_cursor, parse_cursor_entry
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb


def in_metadata(**fields) -> pb.ManagedCursorInfo:
    return pb.ManagedCursorInfo(cursors_ledger_id=-1, mark_delete_ledger_id=5, mark_delete_entry_id=0, **fields)


def acked_range(lower: tuple[int, int], upper: tuple[int, int]) -> pb.MessageRange:
    return pb.MessageRange(
        lower_endpoint=pb.NestedPositionInfo(ledger_id=lower[0], entry_id=lower[1]),
        upper_endpoint=pb.NestedPositionInfo(ledger_id=upper[0], entry_id=upper[1]),
    )


def hole(ledger_id: int, entry_id: int, *words: int) -> pb.BatchedEntryDeletionIndexInfo:
    position = pb.NestedPositionInfo(ledger_id=ledger_id, entry_id=entry_id)
    return pb.BatchedEntryDeletionIndexInfo(position=position, delete_set=words)


def words_of(entries: set[int]) -> list[int]:
    """Return the result of java.util.BitSet.toLongArray."""
    words = [0] * (max(entries) // 64 + 1 if entries else 0)
    for entry in entries:
        words[entry // 64] |= 1 << entry % 64
    return [word - 2**64 if word >= 2**63 else word for word in words]


def test_worked_example_of_a_cursor_with_a_bucket():
    """Worked example G has its state in ledger 12, mark-delete (5,-1) as fallback, and one bucket property."""
    stored = bytes.fromhex(
        "080c100518ffffffffffffffffff0142290a23"
        "2370756c7361722e696e7465726e616c2e64656c617965642e6275636b65745f355f35"
        "12023737"
    )
    info = parse_cursor(stored)
    state = cursor_state(info, None, {})

    assert info.cursors_ledger_id == 12
    assert state.mark_delete == Position(5, -1)
    assert state.cursor_properties == {"#pulsar.internal.delayed.bucket_5_5": "77"}
    assert state.state_ledger_id is None


@pytest.mark.parametrize("stored", ["08051000320408051004", "080510001a0c0a0408051001120408051002"])
def test_worked_example_of_individual_acknowledgements(stored):
    """Worked example H acknowledges entry 2, as words and as the range (1, 2]."""
    info = pb.ManagedCursorInfo(cursors_ledger_id=12)
    state = cursor_state(info, parse_cursor_entry(bytes.fromhex(stored)), {})

    assert state.mark_delete == Position(5, 0)
    assert list(state.acked.to_columns()) == [(5, 2)]
    assert state.state_ledger_id == 12


def test_mark_delete_covers_everything_up_to_itself():
    """The mark-delete position acknowledges ledgers below and entries up to and including itself."""
    state = cursor_state(in_metadata(individual_deleted_messages=[acked_range((5, 1), (5, 3))]), None, {5: 9})
    positions = PositionColumns.of([(4, 99), (5, 0), (5, 1), (5, 2), (5, 3), (5, 4), (6, 0)])

    assert state.acknowledges(positions).tolist() == [True, True, False, True, True, False, False]


def test_nothing_acknowledged():
    """A new subscription, and a node without a position, acknowledge nothing."""
    assert not nothing_acked().acknowledges(PositionColumns.of([(0, 0), (5, 5)])).any()
    assert nothing_acked().mark_delete == BEFORE_ALL
    assert cursor_state(pb.ManagedCursorInfo(cursors_ledger_id=-1), None, {}).mark_delete == BEFORE_ALL


def test_ranges_may_span_ledgers():
    """A range in old data may span ledgers: part of one, all of others, including empty ones, and part of another."""
    state = cursor_state(
        in_metadata(individual_deleted_messages=[acked_range((5, 7), (8, 1))]),
        None,
        {4: 9, 5: 9, 6: -1, 7: 2, 8: 9, 9: 9},
    )

    assert list(state.acked.to_columns()) == [(5, 8), (5, 9), (7, 0), (7, 1), (7, 2), (8, 0), (8, 1)]


def test_range_from_before_the_first_entry():
    """(ledger, -1) is an exclusive lower end like any other."""
    state = cursor_state(in_metadata(individual_deleted_messages=[acked_range((6, -1), (6, 0))]), None, {6: 0})

    assert list(state.acked.to_columns()) == [(6, 0)]


@pytest.mark.parametrize(
    ("lower", "upper"), [((5, 3), (5, 2)), ((6, 0), (5, 9)), ((5, -2), (5, 2)), ((-1, 0), (5, 2)), ((5, 0), (5, 2**32))]
)
def test_impossible_ranges_are_refused(lower, upper):
    """An impossible range is refused with its ends in the message."""
    with pytest.raises(MetadataInvalid, match=r"acknowledged range .* cannot be"):
        cursor_state(in_metadata(individual_deleted_messages=[acked_range(lower, upper)]), None, {5: 9})


def test_set_bits_of_a_batch_are_unacknowledged():
    """A batch with unacknowledged messages is pending, and a batch without any is acknowledged."""
    holes = [hole(6, 4, 0, 5), hole(6, 1, 0, 0), hole(5, 9, -1), hole(6, 2)]
    state = cursor_state(in_metadata(batched_entry_deletion_index_info=holes), None, {5: 9, 6: 9})

    assert list(state.partial_batch_acks.positions) == [(5, 9), (6, 4)]
    assert [state.partial_batch_acks.row_words(row).tolist() for row in range(2)] == [[2**64 - 1], [0, 5]]
    assert list(state.acked.to_columns()) == [(6, 1), (6, 2)]


def test_words_count_only_without_ranges():
    """Words are used only if there are no ranges, as in Pulsar."""
    entry = pb.PositionInfo(
        ledger_id=5,
        entry_id=0,
        individual_deleted_messages=[acked_range((5, 1), (5, 2))],
        individual_deleted_message_ranges=[pb.LongListMap(key=5, values=words_of({70}))],
    )
    info = pb.ManagedCursorInfo(cursors_ledger_id=12)

    assert list(cursor_state(info, entry, {}).acked.to_columns()) == [(5, 2)]
    del entry.individual_deleted_messages[:]
    assert list(cursor_state(info, entry, {}).acked.to_columns()) == [(5, 70)]


def test_state_entry_wins_over_the_stale_fallback():
    """The state entry wins over the stale position in the node, but cursor properties come from the node."""
    info = pb.ManagedCursorInfo(cursors_ledger_id=12, mark_delete_ledger_id=3, mark_delete_entry_id=3)
    info.cursor_properties.add(name="a", value="b")
    info.properties.add(name="old", value=1)
    entry = pb.PositionInfo(ledger_id=5, entry_id=6, batched_entry_deletion_index_info=[hole(5, 8, 3)])
    entry.properties.add(name="CompactedTopicLedger", value=46)

    state = cursor_state(info, entry, {})

    assert state.mark_delete == Position(5, 6)
    assert state.properties == {"CompactedTopicLedger": 46}
    assert state.cursor_properties == {"a": "b"}
    assert list(state.partial_batch_acks.positions) == [(5, 8)]


@pytest.mark.parametrize("stored", ["08", "0805", "0805100032", "ff"])
def test_damaged_state_entries_are_refused(stored):
    """A state entry that is cut short or has no position is refused."""
    with pytest.raises(MetadataInvalid, match="PositionInfo"):
        parse_cursor_entry(bytes.fromhex(stored))


ledger_sets = st.dictionaries(st.integers(5, 8), st.sets(st.integers(0, 200), max_size=30), max_size=4)


@given(ledger_sets, st.booleans())
def test_both_forms_give_the_same_set(acked, ranges):
    """For any acknowledgements, ranges and words give the same set."""
    entry = pb.PositionInfo(ledger_id=5, entry_id=-1)
    for ledger_id, entries in acked.items():
        if ranges:
            entry.individual_deleted_messages.extend(
                acked_range((ledger_id, each - 1), (ledger_id, each)) for each in entries
            )
        else:
            entry.individual_deleted_message_ranges.add(key=ledger_id, values=words_of(entries))

    state = cursor_state(pb.ManagedCursorInfo(cursors_ledger_id=12), entry, {})

    expected = sorted((ledger_id, each) for ledger_id, entries in acked.items() for each in entries)
    assert list(state.acked.to_columns()) == expected
    state.acked.check()
