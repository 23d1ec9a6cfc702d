"""The recovery plan, bucket by bucket; and a tracker that continues from a plan."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effect_results import MergeFailed
from delayed_tracker.core.engine.effects import DeleteSnapshots, LoadSegments, MergeSnapshots, StoreSnapshot
from delayed_tracker.core.rules.recovery import (
    RecoverableBucket,
    RecoveryPlan,
    leading_due_groups,
    needs_metadata,
    plan_recovery,
)
from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds, cut_segments
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from tests.core.harness.shell import Shell

STEP_MS = 10


def sealed_of(rows: list[tuple[int, int, int]]) -> SealedIndexes:
    indexes = IndexColumns.of(rows).sorted()
    bounds = cut_segments(indexes.deliver_at_ms, step_ms=STEP_MS, count_max=-1)
    places = sorted(indexes.positions)
    return SealedIndexes(indexes, bounds, places[0], places[-1])


def bucket(
    bucket_id: int,
    rows: list[tuple[int, int, int]],
    *,
    consumed: tuple[tuple[int, int], ...] = (),
    by_segment: bool = True,
    first: tuple[int, int] | None = None,
    last: tuple[int, int] | None = None,
    seal_number: int | None = None,
    is_foreign: bool = False,
    each: int = 1,
) -> RecoverableBucket:
    sealed = sealed_of(rows)
    segments = [PositionBitmap.of(sealed.segment(number).positions) for number in range(len(sealed.bounds))]
    return RecoverableBucket(
        bucket_id,
        Position(*first) if first else sealed.first,
        Position(*last) if last else sealed.last,
        SegmentGroups.in_groups_of(sealed.bounds, each),
        bits=None if by_segment else PositionBitmap.of(sealed.indexes.positions),
        segment_bits=segments if by_segment else None,
        consumed=PositionBitmap.of(PositionColumns.of(consumed)),
        snapshot_bytes=100,
        seal_number=None if is_foreign else seal_number or bucket_id + 1,
        is_foreign=is_foreign,
    )


def plan(*buckets: RecoverableBucket, cutoff_ms: int = 0, mark_delete: Position = BEFORE_ALL) -> RecoveryPlan:
    return plan_recovery(buckets, mark_delete=mark_delete, cutoff_ms=cutoff_ms)


def kept(of: RecoveryPlan) -> dict[int, list[tuple[int, int]]]:
    return {one.bucket_id: [tuple(position) for position in one.bits.to_columns()] for one in of.keep}


def bounds_of(*first_and_last: tuple[int, int]) -> SegmentBounds:
    rows = [(ms, 1, 2 * number + end) for number, pair in enumerate(first_and_last) for end, ms in enumerate(pair)]
    return cut_segments(IndexColumns.of(rows).deliver_at_ms, step_ms=1_000, count_max=2)


def test_disjoint_buckets_are_kept_whole():
    """Disjoint buckets are returned in the order of their ranges, whatever the order of the catalogue."""
    found = plan(bucket(2, [(50, 2, 0)]), bucket(1, [(50, 1, 0), (60, 1, 1)]))
    assert kept(found) == {1: [(1, 0), (1, 1)], 2: [(2, 0)]}
    assert [one.bucket_id for one in found.keep] == [1, 2]
    assert (found.delete, found.due_skipped_count) == ((), 0)


def test_of_two_copies_the_newest_counts():
    """A position that was given back and sealed again counts in the newer bucket, if a crash left it in both."""
    wide = bucket(1, [(50, 1, 0), (60, 2, 0), (70, 3, 0)])
    again = bucket(2, [(90, 2, 0)])
    for found in (plan(wide, again), plan(again, wide)):
        assert kept(found) == {1: [(1, 0), (3, 0)], 2: [(2, 0)]}
        assert found.delete == ()


def test_the_bucket_frozen_last_counts_though_it_was_created_first():
    """Stores end in any order, and a repeated attempt gives the older content the higher bucket id."""
    old = bucket(9, [(50, 1, 0), (60, 2, 0)], seal_number=1)
    new = bucket(1, [(90, 2, 0)], seal_number=2)
    for found in (plan(old, new), plan(new, old)):
        assert kept(found) == {9: [(1, 0)], 1: [(2, 0)]}


def test_an_older_bucket_left_with_nothing_is_deleted():
    """An older bucket left without bits is deleted, whichever of the two ranges is wider."""
    old, new = bucket(1, [(60, 2, 0)]), bucket(9, [(50, 1, 0), (60, 2, 0), (70, 3, 0)])
    for found in (plan(new, old), plan(old, new)):
        assert kept(found) == {9: [(1, 0), (2, 0), (3, 0)]}
        assert found.delete == (1,)


def test_of_foreign_buckets_the_enclosing_one_wins_and_the_enclosed_is_deleted():
    """The enclosing foreign bucket wins, whatever the ids; a merge of Pulsar's with undeleted sources leaves this."""
    whole = bucket(1, [(50, 1, 0), (60, 2, 0), (70, 3, 0)], is_foreign=True)
    part = bucket(9, [(60, 2, 0)], is_foreign=True)
    for found in (plan(whole, part), plan(part, whole)):
        assert kept(found) == {1: [(1, 0), (2, 0), (3, 0)]}
        assert found.delete == (9,)


def test_an_enclosed_foreign_bucket_keeps_what_the_enclosing_one_does_not_hold():
    """Bits decide, not ranges: no position is dropped because another range encloses it."""
    whole = bucket(1, [(50, 1, 0), (70, 3, 0)], is_foreign=True)
    found = plan(whole, bucket(9, [(60, 2, 0), (60, 1, 0)], is_foreign=True))
    assert kept(found) == {1: [(1, 0), (3, 0)], 9: [(2, 0)]}
    assert found.delete == ()


def test_a_partial_overlap_of_foreign_buckets_is_resolved_bit_by_bit():
    """Pulsar drops a range that overlaps without enclosing, with all its positions; the plan keeps them."""
    later = bucket(2, [(50, 2, 0), (60, 3, 0)], is_foreign=True)
    found = plan(later, bucket(1, [(50, 1, 0), (60, 2, 0)], is_foreign=True))
    assert kept(found) == {1: [(1, 0), (2, 0)], 2: [(3, 0)]}


def test_equal_foreign_buckets_leave_the_one_with_the_lower_id():
    """The choice between equal foreign buckets is the same at each recovery."""
    found = plan(bucket(8, [(50, 1, 0)], is_foreign=True), bucket(7, [(50, 1, 0)], is_foreign=True))
    assert kept(found) == {7: [(1, 0)]}
    assert found.delete == (8,)


def test_a_bucket_of_ours_is_newer_than_the_foreign_ones_beside_it():
    """Foreign buckets existed before the first seal, so ours are newer, whatever the ids."""
    found = plan(bucket(99, [(50, 1, 0), (50, 2, 0), (50, 3, 0)], is_foreign=True), bucket(1, [(90, 2, 0)]))
    assert kept(found) == {99: [(1, 0), (3, 0)], 1: [(2, 0)]}


def test_a_position_due_in_a_newer_bucket_is_skipped_only_if_no_other_has_it():
    """A position that stays tracked is not counted as one that the replay sends."""
    new = bucket(2, [(10, 1, 0), (10, 1, 1), (90, 5, 0)])
    found = plan(bucket(1, [(80, 1, 0)]), new, cutoff_ms=50)
    assert kept(found) == {1: [(1, 0)], 2: [(5, 0)]}
    assert found.due_skipped_count == 1


def test_consumed_positions_stay_consumed():
    """Positions that a checkpoint records as consumed do not come back."""
    found = plan(bucket(1, [(50, 1, 0), (60, 1, 1)], consumed=((1, 0),)))
    assert kept(found) == {1: [(1, 1)]}
    assert plan(bucket(1, [(50, 1, 0)], consumed=((1, 0),))).delete == (1,)


def test_a_consumed_position_is_free_for_another_bucket():
    """A consumed position that was added again is in a later bucket."""
    found = plan(bucket(1, [(50, 1, 0), (50, 3, 0)], consumed=((1, 0),)), bucket(2, [(90, 1, 0)]))
    assert kept(found) == {1: [(3, 0)], 2: [(1, 0)]}


def test_positions_at_or_below_mark_delete_are_dropped():
    """The cursor has acknowledged positions at or below mark-delete; a bucket wholly below is deleted."""
    found = plan(bucket(1, [(50, 1, 0)]), bucket(2, [(50, 2, 0), (50, 2, 1)]), mark_delete=Position(2, 0))
    assert kept(found) == {2: [(2, 1)]}
    assert found.delete == (1,)


def test_leading_segments_wholly_due_are_skipped():
    """Leading segments that are wholly due are skipped: the replay from mark-delete finds them (PIP-195)."""
    found = plan(bucket(1, [(10, 1, 0), (11, 1, 1), (50, 1, 2)]), cutoff_ms=11)
    assert kept(found) == {1: [(1, 2)]}
    assert found.keep[0].first_group == 1
    assert found.due_skipped_count == 2


def test_a_segment_that_is_partly_due_is_kept_whole():
    """A segment with one deadline after the cutoff is kept whole."""
    found = plan(bucket(1, [(10, 1, 0), (15, 1, 1), (50, 1, 2)]), cutoff_ms=14)
    assert kept(found) == {1: [(1, 0), (1, 1), (1, 2)]}
    assert (found.keep[0].first_group, found.due_skipped_count) == (0, 0)


def test_a_bucket_wholly_due_is_deleted():
    """A bucket whose last deadline is at the cutoff is deleted, with or without bits for each segment."""
    for by_segment in (True, False):
        found = plan(bucket(1, [(10, 1, 0), (50, 1, 1)], by_segment=by_segment), cutoff_ms=50)
        assert (kept(found), found.delete, found.due_skipped_count) == ({}, (1,), 2)


def test_due_positions_that_were_consumed_or_trimmed_are_not_counted_as_skipped():
    """Consumed and trimmed positions are not counted as skipped: the replay does not bring them."""
    found = plan(
        bucket(1, [(10, 1, 0), (10, 1, 1), (10, 1, 2)], consumed=((1, 1),)), cutoff_ms=50, mark_delete=Position(1, 0)
    )
    assert found.due_skipped_count == 1


def test_a_range_narrower_than_the_bits_is_widened():
    """A foreign range is only a hint: it must not exclude bits outside it."""
    found = plan(bucket(1, [(50, 1, 0), (50, 9, 9)], first=(2, 0), last=(3, 0)))
    assert (found.keep[0].first, found.keep[0].last) == (Position(1, 0), Position(9, 9))


def test_no_buckets_give_an_empty_plan():
    """A new subscription gives an empty plan."""
    assert plan() == RecoveryPlan()


def test_metadata_is_needed_only_when_some_but_not_all_leading_segments_are_due():
    """Metadata is needed only if some but not all leading segments are due; otherwise recovery reads no snapshot."""
    bounds = bounds_of((10, 20), (30, 40))
    assert [needs_metadata(SegmentGroups.of(bounds), cutoff_ms) for cutoff_ms in (0, 19, 20, 39, 40, 99)] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]


positions = st.tuples(st.integers(0, 3), st.integers(0, 3))
contents = st.dictionaries(positions, st.integers(0, 40), min_size=1, max_size=8)


@given(st.lists(contents, max_size=4), positions, st.integers(-1, 45), st.data())
def test_no_position_is_lost_or_kept_twice(tables, mark_delete, cutoff_ms, data):
    """A position survives in exactly one bucket if any bucket still holds it."""
    buckets, alive = [], set()
    for number, table in enumerate(tables):
        consumed = data.draw(st.sets(st.sampled_from(sorted(table))))
        rows = [(ms, *position) for position, ms in table.items()]
        each = data.draw(st.integers(1, 3))
        buckets.append(bucket(number, rows, consumed=tuple(consumed), each=each))
        sealed, reached = sealed_of(rows), False
        groups = SegmentGroups.in_groups_of(sealed.bounds, each).bounds
        for segment in range(len(sealed.bounds)):
            reached = reached or int(groups.max_deliver_at_ms[segment // each]) > cutoff_ms
            alive |= {tuple(p) for p in sealed.segment(segment).positions if reached} - consumed
    found = plan(*buckets, cutoff_ms=cutoff_ms, mark_delete=Position(*mark_delete))
    survivors = [position for places in kept(found).values() for position in places]
    assert sorted(survivors) == sorted(position for position in alive if position > mark_delete)
    assert sorted([*kept(found), *found.delete]) == list(range(len(tables)))


def test_a_recovered_tracker_delivers_what_the_plan_kept():
    """Each position is delivered once, at its deadline, and the rest of the catalogue is deleted."""
    rows = [(2_000 + 7 * number, 1, number) for number in range(30)]
    limits = TrackerLimits(strict=True, max_step_per_segment_ms=STEP_MS, prefetch_window_ms=50)
    found = plan(bucket(4, rows), bucket(5, [(500, 0, 0)]), cutoff_ms=1_000)
    core = TrackerCore.recovered(
        limits, found, epoch=3, mark_delete=BEFORE_ALL, now=Instant(1_000, 0), lost_bucket_ids=(6,)
    )
    shell = Shell(core, snapshots={4: sealed_of(rows)})
    core.check()
    (deletion,) = shell.asked(DeleteSnapshots)
    assert (deletion.epoch, deletion.bucket_ids) == (3, (5, 6))
    assert shell.asked(LoadSegments) == []
    assert core.stats().recovered_count == len(core) == 30
    assert core.next_delivery_ms() == 2_000
    assert shell.drain() == rows
    core.check()


def test_the_replay_answers_for_segments_wholly_due_when_the_tracker_is_opened():
    """Segments wholly due are not delivered, their positions are due when offered, and later segments are delivered."""
    rows = [(900, 1, 0), (901, 1, 1), (5_000, 1, 2)]
    found = plan(bucket(4, rows), cutoff_ms=1_000)
    core = TrackerCore.recovered(TrackerLimits(), found, epoch=3, mark_delete=BEFORE_ALL, now=Instant(1_000, 0))
    shell = Shell(core, snapshots={4: sealed_of(rows)})

    assert shell.pop_rows() == []
    replayed = shell.add(*rows)
    assert (replayed.added_count, replayed.due.tolist(), replayed.duplicate.tolist()) == (0, [0, 1], [2])
    assert shell.drain() == rows[2:]


def test_a_recovered_tracker_asks_at_once_for_what_is_nearly_due():
    """The tracker requests nearly due segments at once: the first answer must not wait for a wake-up."""
    limits = TrackerLimits(strict=True, prefetch_window_ms=50)
    found = plan(bucket(4, [(1_040, 1, 0), (9_000, 1, 1)]), cutoff_ms=1_000)
    core = TrackerCore.recovered(limits, found, epoch=1, mark_delete=BEFORE_ALL, now=Instant(1_000, 0))
    (load,) = core.take_effects()
    assert isinstance(load, LoadSegments)
    assert (load.bucket_id, load.first, load.last) == (4, 0, 0)


def test_seal_numbers_go_on_above_the_catalogues_highest():
    """The first bucket frozen after a restart has a number above all earlier ones, and a clear does not reset it."""
    shell = Shell(
        TrackerCore.recovered(
            TrackerLimits(),
            plan(bucket(4, [(9_000, 5, 0)])),
            epoch=1,
            mark_delete=BEFORE_ALL,
            now=Instant(1_000, 0),
            last_seal_number=41,
        )
    )
    for number in (42, 43):
        shell.add((9_000, 6, number))
        shell.core.seal_mutable_bucket(shell.now)
        assert shell.next(StoreSnapshot).seal_number == number
        shell.core.clear(shell.now)


def test_positions_below_a_recovered_bucket_are_late():
    """The sealed frontier is recovered, so a replay does not reopen old ranges."""
    found = plan(bucket(4, [(9_000, 5, 0)]))
    core = TrackerCore.recovered(TrackerLimits(), found, epoch=1, mark_delete=BEFORE_ALL, now=Instant(1_000, 0))
    core.add(IndexColumns.of([(9_000, 4, 0), (9_000, 5, 0), (9_000, 5, 1)]), Instant(1_000, 0))
    assert (core.stats().late_count, core.stats().mutable_count, core.stats().duplicate_count) == (1, 1, 1)


def test_leases_of_before_a_restart_are_known_and_are_nobody_elses():
    """A late ack of a lease from before the restart is no error and changes nothing."""
    found = plan(bucket(4, [(1_000, 1, 0), (1_000, 1, 1), (9_000, 1, 2)], by_segment=False))
    shell = Shell(TrackerCore.recovered(TrackerLimits(), found, epoch=1, mark_delete=BEFORE_ALL, now=Instant(0, 0)))
    shell.snapshots[4] = sealed_of([(1_000, 1, 0), (1_000, 1, 1), (9_000, 1, 2)])
    shell.perform_all()
    before = shell.pop(2, lease_ms=100)
    shell.core = TrackerCore.recovered(TrackerLimits(), found, epoch=2, mark_delete=BEFORE_ALL, now=Instant(0, 0))
    shell.perform_all()
    again = shell.pop(1, lease_ms=100)
    assert next(iter(before.indexes.positions)) == next(iter(again.indexes.positions)) == Position(1, 0)
    assert again.lease_id != before.lease_id
    outcome = shell.core.ack(before.lease_id, before.indexes.positions, shell.now)
    assert (outcome.changed_count, outcome.stale.tolist()) == (0, [0, 1])


def test_a_foreign_segment_without_rows_is_loaded_like_any_other():
    """A foreign segment without rows is loaded, and the segments behind it are delivered."""
    empty = SegmentBounds(np.array([0]), np.array([2_000]), np.array([2_000]))
    one = sealed_of([(2_000, 1, 0)])
    bounds = SegmentBounds(
        np.concatenate([empty.count, one.bounds.count]),
        np.concatenate([empty.min_deliver_at_ms, one.bounds.min_deliver_at_ms]),
        np.concatenate([empty.max_deliver_at_ms, one.bounds.max_deliver_at_ms]),
    )
    foreign = RecoverableBucket(
        4,
        one.first,
        one.last,
        SegmentGroups.of(bounds),
        segment_bits=[PositionBitmap(), PositionBitmap.of(one.indexes.positions)],
    )
    limits = TrackerLimits(strict=True, prefetch_window_ms=0, load_indexes_max=1)
    core = TrackerCore.recovered(limits, plan(foreign), epoch=1, mark_delete=BEFORE_ALL, now=Instant(1_000, 0))
    shell = Shell(core, snapshots={4: SealedIndexes(one.indexes, bounds, one.first, one.last)})
    assert shell.drain() == [(2_000, 1, 0)]
    core.check()


def foreign_shell(snapshot: SealedIndexes, *segment_bits: list[tuple[int, int]], **limits: int) -> Shell:
    """Return a tracker recovered from one bucket of Pulsar's, at 1,000, with nothing to prefetch."""
    bits = [PositionBitmap.of(PositionColumns.of(positions)) for positions in segment_bits]
    everything = RecoverableBucket(
        4, snapshot.first, snapshot.last, SegmentGroups.of(snapshot.bounds), segment_bits=bits, is_foreign=True
    )
    tracker_limits = TrackerLimits(strict=True, prefetch_window_ms=0, **limits)
    core = TrackerCore.recovered(
        tracker_limits, plan(everything), epoch=1, mark_delete=BEFORE_ALL, now=Instant(1_000, 0)
    )
    return Shell(core, snapshots={4: snapshot})


def test_foreign_bits_without_a_row_go_when_the_last_segment_has_come():
    """Bits without a row are dropped after the last segment, counted as corrupt, and a replay is requested."""
    rows = [(2_000, 1, 0), (2_000, 1, 1), (9_000, 1, 2)]
    shell = foreign_shell(sealed_of(rows), [(1, 0), (1, 1), (1, 7)], [(1, 2), (8, 8)])
    shell.core.check()
    shell.pass_time(1_000)
    shell.perform_all()
    assert shell.contains((1, 7), (8, 8)) == [True, True], "another segment may have them"
    assert len(shell.pop(1, lease_ms=100_000).indexes) == 1
    shell.pass_time(7_000)
    shell.perform_all()
    assert shell.contains((1, 0), (1, 1), (1, 2), (1, 7), (8, 8)) == [True, True, True, False, False]
    stats = shell.core.stats()
    assert (stats.recovered_count, stats.pending_count, stats.leased_count) == (5, 2, 1)
    assert stats.dropped_as_corrupt_count == 2
    assert shell.core.replay_required
    shell.core.check()


def test_a_foreign_bit_without_a_row_does_not_hide_a_removed_copy():
    """A count of copies equal to that of positions proves nothing while some positions may have no row."""
    shell = foreign_shell(sealed_of([(2_000, 1, 0), (2_000, 1, 1), (9_000, 1, 2)]), [(1, 0), (1, 1), (1, 7)], [(1, 2)])
    shell.pass_time(1_000)
    shell.load()
    assert shell.core.cancel(PositionColumns.of([(1, 0)]), shell.now).cancelled_count == 1
    assert shell.pop_rows() == [(2_000, 1, 1)]
    shell.core.check()


def test_a_foreign_bucket_with_nothing_but_bits_without_a_row_is_deleted():
    """The bucket is empty as soon as the missing rows are known."""
    shell = foreign_shell(sealed_of([(2_000, 1, 0)]), [(1, 5)])
    shell.pass_time(1_000)
    shell.load()
    (deletion,) = shell.asked(DeleteSnapshots)
    assert deletion.bucket_ids == (4,)
    assert (len(shell.core), shell.core.stats().dropped_as_corrupt_count) == (0, 1)
    shell.core.check()


def test_foreign_bits_that_all_have_rows_need_no_replay():
    """A foreign bucket whose bits all have rows needs no replay."""
    shell = foreign_shell(sealed_of([(2_000, 1, 0), (9_000, 1, 1)]), [(1, 0)], [(1, 1)])
    assert shell.drain() == [(2_000, 1, 0), (9_000, 1, 1)]
    assert not shell.core.replay_required


def test_foreign_segments_out_of_time_order_come_in_time():
    """Segments are loaded in order: an earlier deadline behind them makes the segments before it load early."""
    rows = IndexColumns.of([(5_000, 1, 0), (9_000, 1, 1), (2_000, 1, 2), (7_000, 1, 3)])
    deadlines = rows.deliver_at_ms
    bounds = SegmentBounds(np.ones(4, np.int64), deadlines, deadlines)
    snapshot = SealedIndexes(rows, bounds, Position(1, 0), Position(1, 3))
    for load_indexes_max in (1, 2, 100):
        shell = foreign_shell(snapshot, [(1, 0)], [(1, 1)], [(1, 2)], [(1, 3)], load_indexes_max=load_indexes_max)
        assert shell.core.next_delivery_ms() == 2_000
        shell.pass_time(999)
        assert shell.asked(LoadSegments) == []
        shell.pass_time(1)
        shell.perform_all()
        assert shell.pop_rows() == [(2_000, 1, 2)]
        assert shell.core.next_delivery_ms() == 5_000
        shell.core.check()
        assert shell.drain() == [(5_000, 1, 0), (7_000, 1, 3), (9_000, 1, 1)]
        assert not shell.core.replay_required


def test_a_partly_due_bucket_with_one_bitmap_needs_the_positions_that_are_due():
    """The positions of due segments leave the bitmap of all, as they do where each segment has its own."""
    by_segment = bucket(1, [(1_000, 1, 0), (1_001, 1, 4), (9_000, 1, 1), (20_000, 1, 2)])
    cutoff_ms = 9_500
    due = PositionBitmap()
    for bits in by_segment.segment_bits[: leading_due_groups(by_segment.groups, cutoff_ms)]:
        due.update(bits)
    as_one = replace(by_segment, segment_bits=None, bits=bucket_bits(by_segment), due_bits=due)
    assert due
    plans = [plan(one, cutoff_ms=cutoff_ms) for one in (by_segment, as_one)]
    assert kept(plans[0]) == kept(plans[1]) == {1: [(1, 2)]}
    assert plans[0].due_skipped_count == plans[1].due_skipped_count == 3


def bucket_bits(one: RecoverableBucket) -> PositionBitmap:
    bits = PositionBitmap()
    for segment in one.segment_bits or ():
        bits.update(segment)
    return bits


def test_a_foreign_bucket_that_cannot_be_merged_stays_with_its_positions():
    """The merge is told which source is foreign; what cannot be merged is left out, and comes when it is due."""
    snapshot = sealed_of([(2_000, 1, 0), (9_000, 1, 1)])
    shell = foreign_shell(snapshot, [(1, 0)], [(1, 1)], max_num_buckets=1, min_index_count_per_bucket=1)
    shell.add((50_000, 2, 0), (60_000, 3, 0))
    shell.store()
    (merge,) = shell.asked(MergeSnapshots)
    assert [source.is_foreign for source in merge.sources] == [True, False]
    assert shell.core.apply(MergeFailed(merge.effect_id, (), too_large=True), shell.now)
    assert shell.drain() == [(2_000, 1, 0), (9_000, 1, 1), (50_000, 2, 0), (60_000, 3, 0)]
    assert not shell.core.replay_required
