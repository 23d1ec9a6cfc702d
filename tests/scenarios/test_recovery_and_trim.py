"""Rows of Pulsar's defects about recovery, trimming, clearing and closing. Test names contain the row."""

import pytest

from delayed_tracker.core.engine.effects import DeleteSnapshots, LoadSegments
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.verb_results import BucketState
from tests.scenarios.desk import CREATE, DELETE, LOAD, Desk

FAR = 3_600_000


def seal_buckets(desk: Desk, count: int, in_ms: int = FAR) -> None:
    """Seal ``count`` buckets of three positions, ledgers 1 to ``count``, and add one position to the mutable bucket."""
    for ledger_id in range(1, count + 1):
        desk.add([(ledger_id, entry_id, in_ms + ledger_id * 10 + entry_id) for entry_id in range(3)])
    desk.A(count + 1, 0, FAR)


def test_row_30_trimmed_buckets_are_deleted() -> None:
    """A mark-delete position past 90 of 100 buckets leaves at most 10, in memory and in storage."""
    desk = Desk(seal_at=3)
    seal_buckets(desk, 100)
    assert desk.mark_delete(90, 2) == 270
    assert len(desk.catalogue) == len(desk.snapshots) == 10
    assert desk.count == 31


def test_row_32_trim_does_not_wait_for_what_was_never_created() -> None:
    """A trim drops a bucket whose create failed without a deletion, and deletes the others."""
    desk = Desk(seal_at=3)
    seal_buckets(desk, 1)
    desk.failing.add(CREATE)
    desk.add([(2, 1, FAR), (2, 2, FAR)])
    desk.A(3, 0, FAR)
    desk.failing.clear()
    assert desk.mark_delete(2, 2) == 6
    assert desk.catalogue == []
    desk.sleep(1_000)
    assert desk.count == 1
    assert desk.catalogue == []


def test_row_33_a_pointer_without_snapshot_is_dropped() -> None:
    """After a crash between the two steps of a deletion, the pointer is dropped and the rest is recovered."""
    desk = Desk(seal_at=3)
    seal_buckets(desk, 3)
    del desk.snapshots[desk.catalogue[1]]
    desk.restart()
    assert len(desk.catalogue) == 2
    assert desk.tracked((1, 0), (2, 0), (3, 0)) == [True, False, True]


def test_row_L1_one_missing_snapshot_does_not_fail_recovery() -> None:
    """If one of five buckets is gone, four are recovered."""
    desk = Desk(seal_at=3)
    seal_buckets(desk, 5)
    del desk.snapshots[desk.catalogue[0]]
    desk.restart()
    assert desk.count == 12
    assert len(desk.catalogue) == 4
    desk.rescan()
    assert len(set(desk.drain())) == 16


def test_row_34_a_create_that_failed_late_is_undone() -> None:
    """A snapshot whose store failed late is not recovered twice: the positions stay in memory."""
    desk = Desk(seal_at=3)
    desk.failing.add(CREATE)
    seal_buckets(desk, 1)
    (bucket, mutable) = desk.core.buckets()
    assert bucket.state is BucketState.SEALING
    assert mutable.state is BucketState.MUTABLE
    assert desk.tracked((1, 0), (1, 1), (1, 2)) == [True] * 3
    desk.failing.clear()
    desk.sleep(1_000)
    assert len(desk.catalogue) == 1


def test_row_36_deleting_a_subscription_deletes_its_snapshots() -> None:
    """Deleting a tracker with three sealed buckets empties the storage."""
    desk = Desk(seal_at=3)
    seal_buckets(desk, 3)
    desk.restart()
    assert desk.core.delete(desk.now) == 9
    desk.perform()
    assert (desk.catalogue, desk.snapshots) == ([], {})


def test_row_38_consumers_coming_and_going_change_nothing() -> None:
    """Ten new owners in turn delete no snapshot and add no duplicates after the rewind."""
    desk = Desk(seal_at=3)
    seal_buckets(desk, 3)
    for _ in range(10):
        desk.core.begin_epoch(desk.core.epoch + 1, desk.now)
        assert desk.rescan() == []
    assert len(desk.catalogue) == 3
    assert not any(isinstance(effect, DeleteSnapshots) for effect in desk.performed)
    assert sorted(desk.drain()) == sorted({*desk.unacked})


def test_row_39_clear_leaves_nothing() -> None:
    """A clear with mutable positions or a bucket being created leaves count 0, no copies and an empty storage."""
    desk = Desk(seal_at=3)
    desk.add([(1, 0, FAR), (1, 1, FAR)])
    assert desk.core.clear(desk.now) == 2
    desk.held.add(CREATE)
    seal_buckets(desk, 2)
    assert desk.core.clear(desk.now) == 7
    desk.release(CREATE)
    assert (desk.count, desk.core.stats().loaded_count, desk.next_wakeup_ms()) == (0, 0, None)
    assert (desk.catalogue, desk.snapshots) == ([], {})
    desk.restart()
    assert desk.count == 0


def test_row_08_clear_does_not_wait_for_a_pending_create() -> None:
    """Clear is a barrier: it answers at once, and the create that ends afterwards changes nothing."""
    desk = Desk(seal_at=3)
    desk.held |= {CREATE, DELETE}
    seal_buckets(desk, 1)
    epoch = desk.core.epoch
    assert desk.core.clear(desk.now) == 4
    assert desk.core.epoch == epoch + 1
    desk.A(1, 0, 2 * FAR)
    desk.release(CREATE)
    desk.release(DELETE)
    assert desk.count == 1
    assert desk.catalogue == []
    assert desk.drain() == [Position(1, 0)]


def test_row_42_close_does_not_wait_for_a_create() -> None:
    """Close returns at once while a create is blocked; the store may end later."""
    desk = Desk(seal_at=3)
    desk.held.add(CREATE)
    seal_buckets(desk, 1)
    desk.core.close(desk.now)
    desk.release(CREATE)
    assert len(desk.catalogue) == 1


def test_row_43_contains_is_true_for_whatever_is_accepted_and_not_handed_out() -> None:
    """Through seal, store, load and lease a position is tracked until it is acknowledged."""
    desk = Desk(seal_at=3, seg=2)
    desk.held.add(CREATE)
    seal_buckets(desk, 1, in_ms=1_000)
    everything = [(1, 0), (1, 1), (1, 2), (2, 0)]
    assert desk.tracked(*everything) == [True] * 4
    desk.release(CREATE)
    assert desk.tracked(*everything) == [True] * 4
    desk.held.add(LOAD)
    desk.sleep(2_000)
    assert desk.tracked(*everything) == [True] * 4
    desk.release(LOAD)
    delivery = desk.core.pop_due(10, desk.now, lease_ms=50)
    assert desk.tracked(*everything) == [True] * 4
    desk.core.ack(delivery.lease_id, delivery.indexes.positions, desk.now)
    desk.perform()
    assert desk.tracked(*everything) == [False, False, False, True]
    assert desk.catalogue == []


def test_row_46_entry_ids_fit_32_bits_or_are_refused() -> None:
    """Entry ids 2^31 and 2^32-1 survive seal, restart and delivery."""
    desk = Desk(seal_at=2)
    desk.add([(1, 2**31, 1_000), (1, 2**32 - 1, 1_000)])
    desk.A(2, 0, FAR)
    desk.restart()
    assert desk.tracked((1, 2**31), (1, 2**32 - 1), (1, 0)) == [True, True, False]
    desk.sleep(1_000)
    assert desk.due() == [Position(1, 2**31), Position(1, 2**32 - 1)]
    with pytest.raises(InvalidInput, match="entry_id: 4294967296"):
        desk.A(1, 2**32, FAR)
    assert desk.count == 0


def test_row_L10_due_segments_are_skipped_and_the_rest_recovered() -> None:
    """With due and undue segments, each position comes exactly once after a restart and a rescan."""
    desk = Desk(seal_at=6, seg=2, max_step_per_segment_ms=1_000)
    desk.add([(1, entry_id, 1_000 + 10_000 * (entry_id // 2)) for entry_id in range(6)])
    desk.A(2, 0, FAR)
    desk.now_ms += 5_000
    desk.restart()
    assert desk.count == 4
    sent_at_once = desk.rescan()
    assert sent_at_once == [Position(1, 0), Position(1, 1)]
    assert sorted([*sent_at_once, *desk.drain()]) == sorted(desk.unacked)


def test_recovery_reads_only_what_is_near_due() -> None:
    """A restart with 100,000 positions far in the future reads no segment."""
    desk = Desk(seal_at=10_000, seg=100, prefetch_window_ms=1_000)
    for ledger_id in range(1, 12):
        desk.offer(
            IndexColumns.of(
                [(desk.now_ms + FAR + 60_000 * (entry_id // 100), ledger_id, entry_id) for entry_id in range(10_000)]
            )
        )
    desk.restart()
    assert desk.count == 100_000
    assert desk.rows_read == 0
    assert desk.core.stats().loaded_count == 0
    desk.sleep(FAR)
    assert 0 < desk.core.stats().loaded_count <= 10 * 200
    assert desk.rows_read == desk.core.stats().loaded_count


def test_a_lost_snapshot_asks_for_a_replay() -> None:
    """A snapshot that turns out missing when it is loaded is counted, dropped, and replayed."""
    desk = Desk(seal_at=3)
    seal_buckets(desk, 1, in_ms=1_000)
    desk.snapshots.clear()
    desk.sleep(2_000)
    assert any(isinstance(effect, LoadSegments) for effect in desk.performed)
    assert desk.core.replay_required
    assert desk.core.stats().dropped_as_corrupt_count == 3
    assert desk.rescan() == [Position(1, 0), Position(1, 1), Position(1, 2)]


def test_acks_below_mark_delete_are_no_ops() -> None:
    """A lease that the mark-delete position has passed can still be acknowledged."""
    desk = Desk()
    desk.A(1, 0, 5)
    desk.now_ms += 10
    delivery = desk.core.pop_due(1, desk.now, lease_ms=1_000)
    desk.mark_delete(1, 0)
    outcome = desk.core.ack(delivery.lease_id, PositionColumns.of([(1, 0)]), desk.now)
    assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (0, [], [0])
