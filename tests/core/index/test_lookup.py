"""The flat copy of bitmaps equals Python's own sets, and a tracker makes one when it is worth it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from delayed_tracker.core.index.membership import PositionLookup
from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import LATER_MS, Shell

ENOUGH = 2**30

ledgers = st.sampled_from([0, 1, 2, 7, 2**24, INT63_MAX])
chunks = st.sampled_from([0, 1, 2, 3, 4, 2**15, 2**16 - 1])
pieces = st.builds(
    range,
    st.sampled_from([0, 1, 2, 5_000, 65_534]),
    st.sampled_from([1, 3, 4_096, 4_097, 65_536]),
    st.sampled_from([1, 1, 2, 3, 9_999]),
)
"""Contents of one container: runs, sparse values, dense ones; ranges with a start above their end are empty."""


def lookup_of(bitmaps: dict[int, BitMap]) -> PositionLookup:
    lookup = PositionLookup.of(bitmaps.items(), bytes_max=ENOUGH)
    assert lookup is not None
    return lookup


def found(lookup: PositionLookup, ledger: int, entries: list[int]) -> list[bool]:
    return lookup.contains(PositionColumns.of([(ledger, entry) for entry in entries])).tolist()


@given(
    st.dictionaries(ledgers, st.lists(st.tuples(chunks, pieces), max_size=5), max_size=5),
    st.booleans(),
    ledgers,
    st.lists(st.integers(0, 65_535) | st.sampled_from([0, 1, 2, 4_095, 4_096, 4_097, 65_535]), max_size=8),
)
def test_a_lookup_holds_what_its_bitmaps_hold(contents, has_runs, asked_ledger, asked):
    """A lookup equals its bitmaps for all kinds of containers, empty ledgers, and entries beside the content."""
    bitmaps = {}
    for ledger, parts in contents.items():
        bitmaps[ledger] = BitMap.union(BitMap(), *(BitMap(piece).shift(chunk << 16) for chunk, piece in parts))
        if has_runs:
            bitmaps[ledger].run_optimize()
    lookup = lookup_of(bitmaps)
    assert lookup.position_count == sum(map(len, bitmaps.values()))
    for ledger in {*bitmaps, asked_ledger}:
        bitmap = bitmaps.get(ledger, BitMap())
        entries = [chunk << 16 | low for chunk in (0, 1, 4, 2**15, 2**16 - 1) for low in asked]
        assert found(lookup, ledger, entries) == [entry in bitmap for entry in entries]


def test_positions_may_be_asked_for_in_any_order():
    """Positions are found in any order, also through columns that are not contiguous."""
    rng = np.random.default_rng(0)
    bitmaps = {ledger: BitMap(rng.choice(70_000, 7_000)) for ledger in range(20)}
    ledger, entry = rng.integers(0, 25, 5_000), rng.integers(0, 70_000, 5_000)
    model = [row in bitmaps.get(bucket, ()) for bucket, row in zip(ledger.tolist(), entry.tolist(), strict=True)]
    lookup = lookup_of(bitmaps)
    assert lookup.contains(PositionColumns(ledger, entry)).tolist() == model
    assert lookup.contains(PositionColumns(ledger[::-2], entry[::-2])).tolist() == model[::-2]


@pytest.mark.parametrize("has_runs", [False, True])
@pytest.mark.parametrize("count", [2**16 - 1, 2**16])
def test_a_bitmap_may_have_every_container(has_runs, count):
    """An entry in each of the 65,536 containers is found, and its neighbour is not."""
    bitmap = BitMap(np.arange(count, dtype=np.uint32) << 16)
    if has_runs:
        bitmap.add_range(0, 100)
        bitmap.run_optimize()
    chunks = [1, 2**15, count - 1]
    assert found(lookup_of({7: bitmap}), 7, [chunk << 16 for chunk in chunks]) == [True] * 3
    assert found(lookup_of({7: bitmap}), 7, [chunk << 16 | 1 for chunk in chunks]) == [False] * 3


def test_a_lookup_of_nothing_holds_nothing():
    """A lookup of no bitmaps, or of empty ones, contains nothing."""
    for bitmaps in ({}, {3: BitMap()}):
        assert found(lookup_of(bitmaps), 3, [0, ENTRY_ID_MAX]) == [False, False]


def test_a_lookup_is_bounded_by_its_bytes():
    """A lookup is not made if the bitmaps are larger than the limit, to the byte."""
    bitmaps = {1: BitMap([1, 2, 3]), 2: BitMap(range(0, 60_000, 2))}
    size = sum(len(bitmap.serialize()) for bitmap in bitmaps.values())
    assert PositionLookup.of(bitmaps.items(), bytes_max=size - 1) is None
    lookup = PositionLookup.of(bitmaps.items(), bytes_max=size)
    assert lookup is not None
    assert size < lookup.nbytes < 2 * size


# -- in a tracker

BUCKET = 40


def looked_up(shell: Shell) -> int:
    """Test positions until there is a lookup; return its memory in bytes."""
    before = shell.core.stats().memory_bytes
    asked = PositionColumns(np.full(1_000, 1), np.arange(1_000))
    for _ in range(5):
        shell.core.contains(asked)
    return shell.core.stats().memory_bytes - before


def sealed_shell() -> Shell:
    """Return a shell with ledgers 1 and 2 in a stored bucket, ledger 3 in the mutable one, and 1:1 leased."""
    shell = Shell.with_limits(
        TrackerLimits(
            min_index_count_per_bucket=BUCKET, strict=True, prefetch_window_ms=1_000, max_step_per_segment_ms=1_000
        )
    )
    shell.add((shell.now_ms + 1, 1, 1), *[(LATER_MS + entry, 1, entry) for entry in range(2, BUCKET)])
    shell.add(*[(LATER_MS + entry, 2, entry) for entry in range(10)])
    shell.core.seal_mutable_bucket(shell.now)
    shell.perform_all()
    shell.add((LATER_MS, 3, 5))
    shell.pass_time(1)
    shell.perform_all()
    assert shell.pop_rows(lease_ms=5) == [(shell.now_ms, 1, 1)]
    return shell


def test_much_asking_makes_a_lookup_that_counts_as_memory():
    """Many tests of positions make a lookup, which counts as memory; the first test of a few positions does not."""
    shell = sealed_shell()
    before = shell.core.stats().memory_bytes
    assert shell.contains((1, 1), (1, 2)) == [True, True]
    assert shell.core.stats().memory_bytes == before
    assert looked_up(shell) > 0


CHANGES = {
    "add": lambda shell: shell.add((LATER_MS, 4, 0)),
    "add late": lambda shell: shell.add((LATER_MS, 1, BUCKET)),
    "ack": lambda shell: shell.core.ack(1, PositionColumns.of([(1, 1)]), shell.now),
    "cancel": lambda shell: shell.core.cancel(PositionColumns.of([(1, 9), (3, 5)]), shell.now),
    "advance": lambda shell: shell.core.advance_mark_delete(Position(1, 20), shell.now),
    "hand off": lambda shell: (shell.pass_time(LATER_MS), shell.perform_all(), shell.pop()),
    "nack": lambda shell: shell.core.nack(1, PositionColumns.of([(1, 1)]), shell.now, deliver_at_ms=LATER_MS),
    "lose": lambda shell: (shell.pass_time(LATER_MS - 900), shell.fail_load(lost=True)),
    "clear": lambda shell: shell.core.clear(shell.now),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_ends_the_lookup(change):
    """A change removes the lookup: later results are up to date, and its memory is freed."""
    shell = sealed_shell()
    everything = PositionColumns(np.repeat([1, 2, 3, 4], 50), np.tile(np.arange(50), 4))
    assert looked_up(shell) > 0
    before = shell.core.contains(everything)
    CHANGES[change](shell)
    shell.core.check()
    assert shell.core._state.members.lookup_bytes == 0
    after = [shell.core.contains(everything.take(slice(row, row + 1))).item() for row in range(len(everything))]
    assert shell.core.contains(everything).tolist() == after
    assert len(shell.core) == sum(after)
    assert (change == "nack") == (before.tolist() == after)


def test_one_ledger_may_have_several_buckets():
    """The bitmaps of a ledger with several buckets are tested as one."""
    shell = Shell.with_limits(TrackerLimits())
    for first in (0, 100, 200):
        shell.core.add(IndexColumns.of([(LATER_MS, 1, entry) for entry in range(first, first + 50)]), shell.now)
        shell.core.seal_mutable_bucket(shell.now)
        shell.perform_all()
    assert looked_up(shell) > 0
    assert (
        shell.contains((1, 49), (1, 50), (1, 100), (1, 249), (1, 250), (2, 0))
        == [True, False, True, True] + [False] * 2
    )


def test_too_many_ledgers_are_asked_one_by_one():
    """Too many ledgers are tested one by one: copying all their bitmaps would delay the caller too long."""
    shell = Shell.with_limits(TrackerLimits())
    shell.add(*[(LATER_MS, ledger, 0) for ledger in range(1, 1_026)])
    asked = PositionColumns(np.arange(2_000), np.zeros(2_000, np.int64))
    before = shell.core.stats().memory_bytes
    for _ in range(20):
        assert int(shell.core.contains(asked).sum()) == 1_025
    assert shell.core.stats().memory_bytes == before
