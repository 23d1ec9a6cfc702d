"""Rows of Pulsar's defects about sealing, loading and adding. Test names contain the row; see README.md."""

import itertools

import numpy as np
import pytest

from delayed_tracker.core.engine.effects import LoadSegments, StoreSnapshot
from delayed_tracker.core.rules.seal import seal
from delayed_tracker.core.values.columns import IndexColumns, Position, index_columns
from delayed_tracker.core.values.verb_results import BucketState
from tests.scenarios.desk import CREATE, LOAD, Desk

FAR = 3_600_000


def fill(desk: Desk, ledger_id: int, count: int, in_ms: int = FAR, step_ms: int = 1) -> None:
    desk.add([(ledger_id, entry_id, in_ms + entry_id * step_ms) for entry_id in range(count)])


def test_row_03_refusing_a_tracked_position_as_due_clears_it() -> None:
    """A tracked position that is offered again when due is no longer counted or handed out: the dispatcher sends it."""
    desk = Desk()
    desk.A(1, 0, 5_000)
    desk.now_ms += 6_000
    assert desk.A(1, 0, -1_000).due.tolist() == [0]
    assert desk.count == 0
    assert desk.due() == []


def test_row_04_due_is_checked_before_duplicate() -> None:
    """A position of a skipped segment is answered "due", not "tracked", because no other path would send it."""
    desk = Desk(seal_at=5, seg=10)
    fill(desk, 1, 5, in_ms=1_000)
    desk.A(2, 0, FAR)
    desk.now_ms += 2_000
    desk.restart()
    assert desk.A(1, 0, -1_000).due.tolist() == [0]


def test_row_04_due_is_checked_before_duplicate_while_a_load_hangs() -> None:
    """A position tracked in a segment that never arrives is answered "due", too."""
    desk = Desk(seal_at=5, seg=10)
    fill(desk, 1, 5, in_ms=1_000)
    desk.A(2, 0, FAR)
    desk.held.add(LOAD)
    desk.sleep(2_000)
    assert desk.tracked((1, 0)) == [True]
    assert desk.A(1, 0, -1_000).due.tolist() == [0]
    assert desk.tracked((1, 0)) == [False]


def test_row_07_segments_are_cut_at_the_configured_width() -> None:
    """A step of 300 s puts 0 s and 299 s together, and 300 s and 301 s into the next segment."""
    desk = Desk(seal_at=4, seg=-1, max_step_per_segment_ms=300_000)
    desk.add([(1, entry_id, FAR + seconds * 1_000) for entry_id, seconds in enumerate((0, 299, 300, 301))])
    desk.A(2, 0, FAR)
    (sealed,) = desk.snapshots.values()
    entries = [sealed.segment(number).entry_id.tolist() for number in range(len(sealed.bounds))]
    assert entries == [[0, 1], [2, 3]]


def test_row_09_a_segment_has_a_hard_upper_size() -> None:
    """50,000 positions with one deadline become 10 segments of 5,000."""
    desk = Desk(seal_at=50_000, seg=5_000)
    fill(desk, 1, 50_000, step_ms=0)
    desk.A(2, 0, FAR)
    (sealed,) = desk.snapshots.values()
    assert sealed.bounds.count.tolist() == [5_000] * 10


@pytest.mark.long
def test_row_12_a_negative_limit_never_merges() -> None:
    """With a negative limit, 200 sealed buckets stay 200 and nothing is rewritten."""
    desk = Desk(seal_at=1)
    for ledger_id in range(201):
        desk.A(ledger_id, 0, FAR)
    assert len(desk.catalogue) == 200
    assert [type(effect) for effect in desk.performed] == [StoreSnapshot] * 200


def test_row_16_delivery_resumes_when_a_blocked_segment_arrives() -> None:
    """A poll that waits for a segment in flight gets it on arrival, without an outside event."""
    desk = Desk(seal_at=4, seg=2)
    fill(desk, 1, 4, in_ms=1_000)
    desk.A(2, 0, FAR)
    desk.held.add(LOAD)
    desk.sleep(2_000)
    assert desk.due() == []
    assert desk.core.next_delivery_ms() is not None
    desk.release(LOAD)
    assert desk.due() == [Position(1, entry_id) for entry_id in range(4)]


def test_row_17_results_after_close_are_taken_quietly() -> None:
    """The core applies a store that ends after close, so that its snapshot is kept for the next open."""
    desk = Desk(seal_at=2)
    desk.held.add(CREATE)
    fill(desk, 1, 2)
    desk.A(2, 0, FAR)
    desk.core.close(desk.now)
    desk.release(CREATE)
    assert len(desk.catalogue) == len(desk.snapshots) == 1
    desk.restart()
    assert desk.tracked((1, 0), (1, 1)) == [True, True]


def test_row_19_any_order_of_ledgers_is_legal() -> None:
    """A ledger inside or below the mutable bucket's range is accepted."""
    desk = Desk(seal_at=2)
    for ledger_id in (5, 9, 7, 12, 1, 9, 8):
        desk.A(ledger_id, 0, FAR)
    assert desk.count == 6
    assert [bucket.state for bucket in desk.core.buckets()] == [
        BucketState.LATE,
        BucketState.SEALED,
        BucketState.MUTABLE,
    ]
    assert [bucket.sealed_count for bucket in desk.core.buckets()] == [0, 3, 0]
    assert sorted(desk.drain()) == [(1, 0), (5, 0), (7, 0), (8, 0), (9, 0), (12, 0)]


def test_row_20_a_failed_load_is_tried_again_from_the_same_segment() -> None:
    """Two failed loads and a good one deliver the segment once."""
    desk = Desk(seal_at=4, seg=2)
    fill(desk, 1, 4, in_ms=1_000)
    desk.A(2, 0, FAR)
    desk.failing.add(LOAD)
    desk.sleep(1_020)
    assert sum(isinstance(effect, LoadSegments) for effect in desk.performed) >= 2
    desk.failing.clear()
    desk.sleep(20)
    assert desk.due() == [Position(1, entry_id) for entry_id in range(4)]
    assert desk.due() == []


def test_row_20_a_failed_create_leaves_everything_in_memory() -> None:
    """With a storage that never works, every position is still delivered."""
    desk = Desk(seal_at=3)
    desk.failing.add(CREATE)
    for ledger_id in range(1, 5):
        fill(desk, ledger_id, 3, in_ms=ledger_id * 1_000)
    assert desk.count == 12
    assert len(desk.drain()) == 12
    assert desk.count == 0


def test_row_21_exactly_the_wanted_segment_is_loaded() -> None:
    """However late a load completes, only the segment that is due is read, and none twice."""
    desk = Desk(seal_at=6, seg=2, max_step_per_segment_ms=10_000, load_indexes_max=1)
    desk.add([(1, entry_id, 1_000 + 60_000 * (entry_id // 2)) for entry_id in range(6)])
    desk.A(2, 0, FAR)
    desk.held.add(LOAD)
    desk.sleep(1_500)
    desk.sleep(20_000)
    desk.release(LOAD)
    loads = [(effect.first, effect.last) for effect in desk.performed if isinstance(effect, LoadSegments)]
    assert loads == [(0, 0)]
    assert len(desk.due()) == 2


def test_row_22_sealing_a_million_costs_the_caller_nothing() -> None:
    """The add that triggers the seal neither sorts nor copies the million; all of it stays visible meanwhile."""
    desk = Desk(seal_at=1_000, mutable_indexes_max=2_000_000)
    desk.held.add(CREATE)
    entries = np.arange(1_000_000)
    deadlines = desk.now_ms + FAR + entries[::-1] % 604_800_000
    for part in np.array_split(entries, 100):
        desk.core.add(index_columns(deadlines[part], np.full(len(part), 1), part), desk.now)
    copied_before = [chunk.deliver_at_ms for run in desk.core._state.heap for chunk in run.chunks()]

    desk.core.add(IndexColumns.of([(desk.now_ms + FAR, 2, 0)]), desk.now)

    (effect,) = desk.core.take_effects()
    assert isinstance(effect, StoreSnapshot)
    frozen = [chunk.deliver_at_ms for chunk in effect.frozen.chunks]
    assert [column.ctypes.data for column in frozen] == [column.ctypes.data for column in copied_before]
    assert desk.tracked((1, 0), (1, 999_999), (2, 0)) == [True, True, True]


def test_row_23_adds_during_seals_go_to_the_new_bucket() -> None:
    """During 100 seals with held stores nothing is lost or doubled, and ranges are disjoint."""
    desk = Desk(seal_at=3)
    desk.held.add(CREATE)
    for ledger_id in range(101):
        fill(desk, ledger_id, 3)
    sealing = [bucket for bucket in desk.core.buckets() if bucket.state is BucketState.SEALING]
    assert len(sealing) == 100
    assert all(left.last < right.first for left, right in itertools.pairwise(sealing))
    desk.release(CREATE)
    assert desk.count == 303
    assert len(set(desk.drain())) == 303


def test_row_25_the_next_deadline_counts_unloaded_segments() -> None:
    """If only removed copies are loaded, the next delivery is the first deadline that is not loaded."""
    desk = Desk(seal_at=4, seg=2, max_step_per_segment_ms=1_000)
    desk.add([(1, 0, 1_000), (1, 1, 1_000), (1, 2, 50_000), (1, 3, 50_000)])
    desk.A(2, 0, FAR)
    start_ms = desk.now_ms
    desk.sleep(1_000)
    desk.mark_delete(1, 1)
    assert desk.count == 3
    assert desk.core.next_delivery_ms() == start_ms + 50_000
    assert Desk().core.next_delivery_ms() is None


def test_row_L5_late_positions_are_bounded_in_memory() -> None:
    """Late positions beyond the limit become their own buckets, and survive a restart."""
    desk = Desk(seal_at=10, late_indexes_max=100)
    fill(desk, 1_000, 10)
    desk.A(1_001, 0, FAR)
    for ledger_id in range(500, 510):
        fill(desk, ledger_id, 100)
    assert desk.core.stats().late_count < 100
    assert desk.core.stats().loaded_count < 102
    desk.restart()
    assert desk.count == 1_010
    desk.rescan()
    assert len(set(desk.drain())) == 1_011


def test_row_R1_one_ledger_of_many_indexes_is_sealed_in_pieces() -> None:
    """A ledger that never rolls over does not grow memory without bound."""
    desk = Desk(mutable_indexes_max=10_000)
    for start in range(0, 100_000, 1_000):
        desk.add([(1, entry_id, FAR + entry_id) for entry_id in range(start, start + 1_000)])
    assert len(desk.catalogue) == 10
    assert desk.core.stats().loaded_count == 0
    desk.restart()
    assert desk.count == 100_000


def test_row_R2_descending_ledgers_are_sealed_too() -> None:
    """With 20 ledgers in descending order memory is bounded and everything is recovered."""
    desk = Desk(mutable_indexes_max=2_000, late_indexes_max=2_000)
    for ledger_id in range(20, 0, -1):
        fill(desk, ledger_id, 500)
    assert desk.core.stats().loaded_count < 2_000
    desk.restart()
    assert desk.count == 10_000


@pytest.mark.parametrize("segments_per_load", [pytest.param(1, marks=pytest.mark.long), 40])
def test_row_R3_polls_stay_full_over_many_small_segments(segments_per_load: int) -> None:
    """Many small due segments are read at a time, so a poll of 1,000 is full once loads have begun."""
    desk = Desk(seal_at=10_800, seg=27, load_indexes_max=27 * segments_per_load)
    desk.add([(1, entry_id, 1_000) for entry_id in range(10_800)])
    desk.A(2, 0, FAR)
    desk.sleep(60_000)
    sizes = [len(desk.due(1_000)) for _ in range(11)]
    assert sizes == [1_000] * 10 + [800]
    loads = sum(isinstance(effect, LoadSegments) for effect in desk.performed)
    assert loads == 400 // segments_per_load


def test_sealing_drops_removed_copies() -> None:
    """A position that was sent and added again is sealed only under its new deadline."""
    desk = Desk(seal_at=2)
    desk.held.add(CREATE)
    desk.add([(1, 0, FAR), (1, 1, FAR + 10)])
    desk.offer(IndexColumns.of([(0, 1, 1)]))
    desk.A(1, 1, 2 * FAR)
    desk.A(2, 0, FAR)
    (effect,) = desk.waiting
    assert isinstance(effect, StoreSnapshot)
    assert list(seal(effect.frozen).indexes) == [(desk.now_ms + FAR, 1, 0), (desk.now_ms + 2 * FAR, 1, 1)]
