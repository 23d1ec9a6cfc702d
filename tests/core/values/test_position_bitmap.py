"""Sets of positions equal Python's own sets, and their stored form is fixed."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX, Position, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap, bitmap_entries, by_ledger

# A few values of each, so that sets overlap; with the lowest and highest values and both sides of a container's edge.
ledgers = st.sampled_from([0, 1, 2, 7, INT63_MAX])
entries = st.sampled_from([0, 1, 2, 3, 5, 65_535, 65_536, 2**31, ENTRY_ID_MAX])
positions = st.builds(Position, ledgers, entries)
batches = st.lists(positions, max_size=12)


def bits_of(items) -> PositionBitmap:
    return PositionBitmap.of(PositionColumns.of(items))


def same(bits: PositionBitmap, expected: set[Position]) -> bool:
    bits.check()
    return list(bits.to_columns()) == sorted(expected) and len(bits) == len(expected)


@given(batches, batches)
def test_add_and_remove_equal_set_operations(held, given_):
    """The returned counts are of bits that changed."""
    bits, model = bits_of(held), set(held)
    assert same(bits, model)
    assert bits.add(PositionColumns.of(given_)) == len(set(given_) - model)
    model |= set(given_)
    assert same(bits, model)
    assert bits.remove(PositionColumns.of(held)) == len(set(held) & model)
    assert same(bits, model - set(held))


@given(batches, batches)
def test_update_and_subtract_equal_set_operations(left, right):
    """The other set stays as it is, and shares no memory."""
    bits, other = bits_of(left), bits_of(right)
    assert bits.intersection_count(other) == len(set(left) & set(right))
    assert bits.update(other) == len(set(right) - set(left))
    assert same(bits, set(left) | set(right))
    assert bits.subtract(other) == len(set(right))
    assert same(bits, set(left) - set(right))
    assert same(other, set(right))


@given(batches, batches)
def test_contains_equals_membership(held, asked):
    """The result is in the order of the positions asked for, repeats included."""
    bits = bits_of(held)
    assert bits.contains(PositionColumns.of(asked)).tolist() == [position in set(held) for position in asked]
    assert [bits.has(position) for position in asked] == [position in set(held) for position in asked]


@given(batches, st.builds(Position, st.sampled_from([-1, 0, 1, 3, INT63_MAX]), st.one_of(st.just(-1), entries)))
def test_remove_through_drops_what_lies_at_or_below(held, bound):
    """Entry -1 means before the first entry of the ledger."""
    bits = bits_of(held)
    assert bits.remove_through(bound) == len({position for position in held if position <= bound})
    assert same(bits, {position for position in held if position > bound})


@given(batches)
def test_first_last_copy_and_clear(held):
    """A copy is independent; first and last are the extremes."""
    bits = bits_of(held)
    twin = bits.copy()
    assert twin == bits
    assert bits.first() == min(held, default=None)
    assert bits.last() == max(held, default=None)
    assert bits.clear() == len(set(held))
    assert same(bits, set())
    assert same(twin, set(held))


@given(batches)
def test_serialize_round_trips(held):
    """Any stored set is read back."""
    bits = bits_of(held)
    assert PositionBitmap.deserialize(bits.serialize()) == bits
    assert same(PositionBitmap.deserialize(bits.serialize()), set(held))


range_starts = st.builds(int.__add__, st.integers(0, 12), st.sampled_from([0, 65_530, 3 * 65_536, ENTRY_ID_MAX - 30]))
range_lengths = st.one_of(st.integers(1, 12), st.sampled_from([4_096, 4_097, 70_000]))
entry_ranges = st.lists(st.tuples(range_starts, range_lengths), max_size=6)


@given(entry_ranges, entry_ranges)
def test_equal_sets_have_equal_bytes(added, removed):
    """A set built range by range and cut again is stored as the set built of its entries, runs and lists alike."""
    grown = BitMap()
    for first, count in added:
        grown |= BitMap(range(first, min(first + count, ENTRY_ID_MAX + 1)))
        grown.run_optimize()
    for first, count in removed:
        grown -= BitMap(range(first, min(first + count, ENTRY_ID_MAX + 1)))
    entry_by_entry = PositionBitmap.from_bitmaps({7: BitMap(grown.to_array())})
    assert PositionBitmap.from_bitmaps({7: grown}).serialize() == entry_by_entry.serialize()


def test_serializing_changes_nothing_of_the_set():
    """The bitmaps keep their containers and their memory, of whatever kind these are (apache/pulsar #26117)."""
    bits = bits_of([(1, entry) for entry in range(0, 3_000, 2)] + [(2, entry) for entry in range(5_000)])
    bits.add(bits_of([(1, entry) for entry in range(1, 3_000, 2)]).to_columns())  # a list, which runs would replace

    def kept():
        return [(ledger, bitmap, bitmap.get_statistics()) for ledger, bitmap in bits.copy().bitmaps()]

    before, nbytes = kept(), bits.nbytes
    assert bits.serialize() == bits.serialize()
    assert (kept(), bits.nbytes) == (before, nbytes)
    bits.check()


def test_serialized_form_is_fixed():
    """The stored form does not change: files outlive the code that wrote them."""
    assert bits_of([]).serialize() == bytes(4)
    one = bits_of([(258, 3)]).serialize()
    assert one[:12] == bytes.fromhex("01000000 0201000000000000")
    assert one[16:] == BitMap([3]).serialize()


def test_no_bytes_are_the_empty_set():
    """A bucket without consumed positions stores no bytes."""
    assert len(PositionBitmap.deserialize(b"")) == 0


@given(batches.filter(bool), st.data())
def test_bytes_cut_short_are_refused(held, data):
    """Bytes cut short are an error, never a part of the set."""
    stored = bits_of(held).serialize()
    cut = data.draw(st.integers(1, len(stored) - 1))
    with pytest.raises(InvalidInput):
        PositionBitmap.deserialize(stored[:cut])


@given(batches, st.binary(min_size=1, max_size=9))
def test_trailing_bytes_are_refused(held, rest):
    """Bytes behind the set are refused: the file has another content than expected."""
    with pytest.raises(InvalidInput):
        PositionBitmap.deserialize(bits_of(held).serialize() + rest)


@given(st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda tail: b"\x01\0\0\0" + bytes(8) + tail)))
def test_garbage_raises_invalid_input_and_nothing_else(garbage):
    """Any bytes give one error type or a sound set."""
    with contextlib.suppress(InvalidInput):
        PositionBitmap.deserialize(garbage).check()


@given(batches.filter(bool), st.data())
def test_a_flipped_byte_raises_invalid_input_or_gives_a_sound_set(held, data):
    """A changed byte may change the set, which the storage's checksum detects, but never crashes the process."""
    stored = bytearray(bits_of(held).serialize())
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        bits = PositionBitmap.deserialize(bytes(stored))
    except InvalidInput:
        return
    bits.check()
    assert bits.to_columns().ascend()


@pytest.mark.parametrize("ledgers_stored", [[2, 1], [1, 1], [2**63], [2**64 - 1]])
def test_ledgers_out_of_order_or_range_are_refused(ledgers_stored):
    """A ledger that occurs twice would count twice; one beyond 63 bits is invalid."""
    bitmap = BitMap([3]).serialize()
    parts = [ledger.to_bytes(8, "little") + len(bitmap).to_bytes(4, "little") + bitmap for ledger in ledgers_stored]
    with pytest.raises(InvalidInput, match="ascending"):
        PositionBitmap.deserialize(len(parts).to_bytes(4, "little") + b"".join(parts))


def test_a_ledger_without_bitmap_bytes_is_refused():
    """A ledger without bytes is refused: even an empty bitmap has bytes."""
    with pytest.raises(InvalidInput, match="cut short"):
        PositionBitmap.deserialize((1).to_bytes(4, "little") + bytes(12))


def test_from_bitmaps_drops_empty_ones():
    """A ledger without bits is not in the set."""
    bits = PositionBitmap.from_bitmaps({1: BitMap([4]), 2: BitMap()})
    assert bits.ledgers() == [1]
    assert same(bits, {Position(1, 4)})


def test_memory_is_estimated_without_walking():
    """The estimate is of the order of the measured size, and 0 for an empty set."""
    bits = bits_of((1, 2 * entry) for entry in range(4_000))
    assert bits.nbytes / 2 <= bits.estimated_nbytes <= 2 * bits.nbytes
    assert PositionBitmap().nbytes == PositionBitmap().estimated_nbytes == 0


@pytest.mark.parametrize("gone_every", [0, 5_000, 100, 2, 1.05])
@pytest.mark.parametrize(("ledger_count", "step"), [(1, 1), (3, 1), (2, 3)])
def test_memory_of_runs_that_lose_bits_is_estimated_without_walking(gone_every, ledger_count, step):
    """Removing every n-th position may turn a run of a few bytes into 8 KiB, and the estimate follows."""
    entries = np.arange(30_000) * step
    bits = PositionBitmap.from_bitmaps({ledger: BitMap(entries) for ledger in range(ledger_count)})
    measured = bits.nbytes / ledger_count
    if gone_every:
        gone = entries[np.arange(gone_every - 1, 30_000, gone_every).astype(int)]
        for ledger in range(ledger_count):
            bits.remove(PositionColumns.of([(ledger, entry) for entry in gone.tolist()]))
    guess = bits.nbytes_since(measured, 30_000)
    assert 0.95 * bits.nbytes <= guess <= max(1.05 * bits.nbytes, measured * ledger_count)


@given(st.lists(ledgers, max_size=12))
def test_by_ledger_names_each_ledger_once_with_its_rows(column):
    """Rows of a ledger come in the order of the column."""
    ledger_id = PositionColumns.of([(ledger, 0) for ledger in column]).ledger_id
    groups = {ledger: ledger_id[rows].tolist() for ledger, rows in by_ledger(ledger_id)}
    assert groups == {ledger: [ledger] * column.count(ledger) for ledger in set(column)}


CHANGES = {
    "add": lambda bits, other: bits.add(other.to_columns()),
    "remove": lambda bits, other: bits.remove(other.to_columns()),
    "remove_through": lambda bits, other: bits.remove_through(other.last() or Position(0, 0)),
    "update": lambda bits, other: bits.update(other),
    "subtract": lambda bits, other: bits.subtract(other),
    "clear": lambda bits, _: bits.clear(),
    "add_above": lambda bits, other: [
        bits.add_above(ledger, bitmap_entries(entries) + bits.last_entry(ledger) + 1)
        for ledger, entries in other.bitmaps()
        if entries.max() + bits.last_entry(ledger) + 1 <= ENTRY_ID_MAX
    ],
    "remove_entries": lambda bits, other: [bits.remove_entries(ledger, entries) for ledger, entries in other.bitmaps()],
}
READS = {
    *("bitmap_of", "bitmaps", "check", "contains", "copy", "deserialize", "estimated_nbytes", "first", "from_bitmaps"),
    *(
        "has",
        "intersection_count",
        "last",
        "last_entry",
        "ledger_count",
        "ledgers",
        "nbytes",
        "nbytes_since",
        "of",
        "serialize",
        "to_columns",
    ),
}


def test_every_method_is_known_to_read_or_to_change():
    """Every method is listed as reading or changing: a new one that changes something must leave a loan as it is."""
    public = {name for name in dir(PositionBitmap) if not name.startswith("_")}
    assert public == READS | CHANGES.keys() | {"lend", "end_loan", "run_optimize"}


@given(batches, st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), batches, st.booleans()), max_size=6))
def test_what_is_lent_stays_as_it_is(held, steps):
    """A loan stays as it is while the set changes as without a loan; a second loan does not end the first."""
    bits, twin = bits_of(held), bits_of(held)
    lent = [(bits.lend(), set(held))]
    for change, other, again in steps:
        assert CHANGES[change](bits, bits_of(other)) == CHANGES[change](twin, bits_of(other))
        assert bits == twin
        bits.check()
        assert all(same(loan, expected) for loan, expected in lent)
        if again:
            lent.append((bits.lend(), set(bits.to_columns())))
    bits.end_loan()
    bits.clear()
    assert same(lent[0][0], set(held))


def test_only_what_is_changed_while_lent_is_copied():
    """Only changed bitmaps are copied, the others stay shared, and without a loan nothing is copied."""
    bits = bits_of([(1, 0), (1, 1), (2, 0), (3, 0)])
    lent = bits.lend()
    bits.remove(PositionColumns.of([(1, 0)]))
    shared = [bits.bitmap_of(ledger) is lent.bitmap_of(ledger) for ledger in (1, 2, 3)]
    assert shared == [False, True, True]
    own = bits.bitmap_of(1)
    bits.add(PositionColumns.of([(1, 7)]))
    assert bits.bitmap_of(1) is own, "copied once"
    bits.end_loan()
    bits.remove(PositionColumns.of([(1, 7)]))
    assert bits.bitmap_of(1) is own
    assert same(bits, {Position(1, 1), Position(2, 0), Position(3, 0)})


@pytest.mark.parametrize("step", [1, 7, 500, 5_000])
def test_the_room_of_removed_entries_is_given_back(step):
    """A list of entries keeps at most as much as those that are left take."""
    entries = np.arange(0, 20_000, 5)
    bits = PositionBitmap.of(PositionColumns(np.full(len(entries), 1), entries))
    for first in range(0, len(entries) - step, step):
        gone = entries[first : first + step]
        bits.remove(PositionColumns(np.full(len(gone), 1), gone))
        left = bits.bitmap_of(1)
        assert left.copy().shrink_to_fit() == 0
        if len(left) < len(entries) // 4:
            break
    saved = bits.bitmap_of(1).shrink_to_fit()
    assert saved <= 2 * len(bits) + 8
