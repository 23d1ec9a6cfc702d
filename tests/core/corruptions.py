"""Ways to corrupt one thing of a busy tracker; the name of each says what, and is the name of its test."""

from collections.abc import Callable

from tests.core.busy_tracker import FAR_MS, IDLE, LATE, LOADING, MUTABLE, SEALING, BusyTracker
from tracker.core.columns import IndexColumns, Position, PositionColumns
from tracker.core.homes import Home, MemoryCopies
from tracker.core.outcomes import BucketState
from tracker.core.runs import Run

Corruption = Callable[[BusyTracker], object]
CORRUPTIONS: dict[str, Corruption] = {}


def corruption(function: Corruption) -> Corruption:
    CORRUPTIONS[function.__name__] = function
    return function


def one(ledger: int, entry: int) -> PositionColumns:
    return PositionColumns.of([(ledger, entry)])


# -- bits and counters


@corruption
def a_bit_is_cleared_in_the_mutable_bucket(busy):
    busy.home(MUTABLE).bits.remove(one(MUTABLE, 2))


@corruption
def a_bit_is_cleared_in_a_stored_bucket(busy):
    busy.home(IDLE).bits.remove(one(IDLE, 2))


@corruption
def a_bit_is_cleared_behind_the_back_of_its_set(busy):
    busy.home(IDLE).bits._by_ledger[IDLE].discard(2)


@corruption
def a_bit_is_set_in_the_late_home(busy):
    busy.home(LATE).bits.add(one(LATE, 9))


@corruption
def a_bit_is_set_for_which_there_is_no_copy(busy):
    busy.home(LATE).bits.add(one(LATE, 9))
    busy.state.counters.tracked += 1
    busy.state.counters.added += 1


@corruption
def a_bit_moves_to_a_position_without_copy(busy):
    busy.home(SEALING).bits.remove(one(SEALING, 1))
    busy.home(SEALING).bits.add(one(SEALING, 9))


@corruption
def a_bit_is_in_two_homes(busy):
    busy.state.members.add(busy.home(LATE), one(IDLE, 2))
    busy.state.counters.tracked += 1
    busy.state.counters.added += 1


@corruption
def an_empty_bitmap_is_kept(busy):
    busy.home(IDLE).bits._by_ledger[99] = type(busy.home(IDLE).bits._by_ledger[IDLE])()


@corruption
def the_tracked_counter_is_off(busy):
    busy.state.counters.tracked += 1
    busy.state.counters.added += 1


def counter_is_off(name: str) -> Corruption:
    def corrupt(busy: BusyTracker) -> None:
        setattr(busy.state.counters, name, getattr(busy.state.counters, name) + 1)

    return corrupt


for counter in (
    "added",
    "recovered",
    "acked",
    "handed_off",
    "cancelled",
    "trimmed",
    "cleared",
    "refused_as_due",
    "dropped_as_corrupt",
):
    CORRUPTIONS[f"the_counter_{counter}_is_off"] = counter_is_off(counter)


@corruption
def mark_delete_rises_without_dropping_anything(busy):
    busy.state.mark_delete = Position(LATE, 0)


# -- homes, their ranges and where they are listed


@corruption
def a_range_is_missing(busy):
    del busy.state.members.ranges[busy.home(IDLE).last, busy.home(IDLE).key]


@corruption
def a_range_begins_elsewhere(busy):
    busy.state.members.ranges[busy.home(IDLE).last, busy.home(IDLE).key] = Position(0, 0)


@corruption
def a_range_belongs_to_no_home(busy):
    busy.state.members.ranges[Position(7, 7), 77] = Position(7, 0)


@corruption
def a_home_begins_after_its_lowest_bit(busy):
    home = busy.home(IDLE)
    home.first = busy.state.members.ranges[home.last, home.key] = Position(IDLE, 1)


@corruption
def a_home_ends_before_its_highest_bit(busy):
    home = busy.home(IDLE)
    del busy.state.members.ranges[home.last, home.key]
    home.last = Position(IDLE, 4)
    busy.state.members.ranges[home.last, home.key] = home.first


@corruption
def a_home_is_not_listed_under_its_ledger(busy):
    del busy.state.members._by_ledger[IDLE]


@corruption
def a_home_does_not_know_that_it_is_listed(busy):
    busy.home(IDLE).ledgers.clear()


@corruption
def a_home_is_listed_twice_under_its_ledger(busy):
    busy.state.members._by_ledger[IDLE] *= 2


@corruption
def a_home_that_is_gone_is_still_listed(busy):
    busy.state.members._by_ledger[77] = [Home(77, BucketState.LATE)]


@corruption
def a_home_is_filed_under_another_key(busy):
    busy.home(IDLE).key = 77


@corruption
def a_sealed_home_claims_to_be_open(busy):
    busy.home(IDLE).state = BucketState.LATE


@corruption
def a_home_has_neither_copies_nor_snapshot(busy):
    busy.home(IDLE).snapshot = None


@corruption
def a_home_has_copies_and_a_snapshot(busy):
    busy.home(IDLE).memory = MemoryCopies()


@corruption
def adds_go_to_a_home_that_nobody_knows(busy):
    busy.state.mutable = Home(77, BucketState.MUTABLE)


@corruption
def a_drained_bucket_is_kept(busy):
    home = busy.home(IDLE)
    busy.state.counters.acked += len(home.bits)
    busy.state.counters.tracked -= home.bits.clear()


@corruption
def a_home_forgets_its_highest_ledger(busy):
    busy.memory(MUTABLE).last_ledger_id = SEALING


@corruption
def a_bucket_announces_another_first_deadline(busy):
    busy.home(IDLE).min_deliver_at_ms += 1


@corruption
def a_bucket_forgets_how_many_it_was_sealed_with(busy):
    busy.home(IDLE).sealed_count -= 1


@corruption
def the_snapshot_bytes_are_off(busy):
    busy.state.snapshot_bytes += 1


@corruption
def the_membership_bytes_are_off(busy):
    busy.state.membership_bytes += 1


@corruption
def the_membership_bytes_of_a_home_are_off(busy):
    busy.state.membership_bytes += 1
    busy.home(IDLE).membership_bytes += 1


@corruption
def the_segment_bytes_are_off(busy):
    busy.state.segments_bytes -= 1


@corruption
def a_lookup_outlives_the_bits_it_was_made_of(busy):
    while not busy.state.members.lookup_bytes:
        busy.core.contains(one(IDLE, 2))
    outlived = busy.state.members._lookup
    busy.core.cancel(one(IDLE, 2), 0)
    busy.state.members._lookup = outlived


@corruption
def the_bytes_of_the_runs_are_off(busy):
    busy.state.heap.nbytes += 1


@corruption
def the_bytes_of_the_leases_are_off(busy):
    busy.state.leases._parts_bytes += 1


@corruption
def the_places_in_the_ledger_index_are_miscounted(busy):
    busy.state.members.listed_count += 1


# -- copies in memory


def reverse(run: Run) -> None:
    run.sort()
    run._rows = run.rows.take(slice(None, None, -1))
    run.min_deliver_at_ms = int(run.rows.deliver_at_ms.min())


@corruption
def a_run_is_out_of_order(busy):
    reverse(busy.run(MUTABLE))


@corruption
def equal_deadlines_in_a_run_are_out_of_position_order(busy):
    reverse(busy.run(LATE))


@corruption
def a_run_announces_a_later_deadline(busy):
    run = busy.run(LATE)
    run.min_deliver_at_ms += 1
    busy.state.heap._push(run)


@corruption
def the_head_of_a_run_is_not_on_the_heap(busy):
    run = busy.run(LATE)
    busy.state.heap._heap = [item for item in busy.state.heap._heap if item[1] != run.run_id]


@corruption
def the_heap_is_empty(busy):
    busy.state.heap._heap.clear()


@corruption
def a_run_is_lost(busy):
    busy.state.heap.drop(busy.run(LATE))


@corruption
def a_run_is_not_found_under_its_home(busy):
    busy.state.heap._by_home.clear()


@corruption
def a_run_names_a_home_that_is_gone(busy):
    busy.state.heap.new_run(77, IndexColumns.of([(FAR_MS, 77, 0)]))


@corruption
def a_run_miscounts_its_unsorted_copies(busy):
    busy.run(LATE)._pending += 1
    busy.state.heap.loaded_count += 1


@corruption
def the_loaded_count_is_off(busy):
    busy.state.heap.loaded_count -= 1


@corruption
def the_deadline_of_a_copy_changes(busy):
    busy.memory(MUTABLE).redated[Position(MUTABLE, 1)] += 1


@corruption
def a_copy_with_an_older_deadline_counts_again(busy):
    busy.memory(MUTABLE).redated.clear()


@corruption
def a_copy_without_a_bit_would_count_if_it_came_again(busy):
    busy.memory(MUTABLE).ghosts.remove(one(MUTABLE, 0))


@corruption
def dead_copies_are_not_counted(busy):
    busy.memory(MUTABLE).dead_count = 0


@corruption
def a_run_with_dead_copies_is_not_suspect(busy):
    busy.run(MUTABLE).suspect = False


# -- leases


@corruption
def the_expiry_of_a_lease_is_lost(busy):
    busy.state.leases._expiries.pop_first()


@corruption
def a_lease_expires_at_another_moment(busy):
    busy.lease().expires_at_ms += 1


@corruption
def a_leased_bit_is_missing_from_the_union(busy):
    busy.state.leases.bits.subtract(busy.lease().bits)


@corruption
def a_position_is_leased_by_no_lease(busy):
    busy.state.leases.bits.add(one(LATE, 0))


@corruption
def a_lease_holds_nothing(busy):
    busy.state.leases.bits.subtract(busy.lease().bits)
    busy.lease().bits.clear()


@corruption
def a_position_is_in_two_leases(busy):
    (first,), (second,) = busy.state.leases._leases.values()
    second.bits.update(first.bits)
    second.indexes = IndexColumns.concat([first.indexes, second.indexes])


@corruption
def a_lease_has_lost_its_rows(busy):
    busy.lease().indexes = IndexColumns.empty()


@corruption
def a_leased_position_is_not_tracked(busy):
    busy.home(LOADING).bits.subtract(busy.lease().bits)
    busy.state.counters.tracked -= 1
    busy.state.counters.acked += 1


@corruption
def a_lease_is_forgotten_with_its_positions(busy):
    lease = busy.lease()
    busy.state.leases.bits.subtract(lease.bits)
    busy.state.leases._end(lease)


@corruption
def lease_ids_start_again(busy):
    busy.state.leases._last_id = 0


# -- effects and wake-ups


@corruption
def a_load_in_flight_is_forgotten(busy):
    busy.lifecycle._loads.clear()


@corruption
def a_load_in_flight_is_for_other_segments(busy):
    busy.snapshot(LOADING).load_first -= 1
    busy.state.segments.update(busy.home(LOADING))


@corruption
def the_rows_that_are_loading_are_miscounted(busy):
    busy.lifecycle._loading_count += 1


@corruption
def a_segment_is_skipped(busy):
    busy.snapshot(IDLE).next_segment += 1
    busy.state.segments.update(busy.home(IDLE))


@corruption
def a_segment_number_is_beyond_the_last(busy):
    busy.snapshot(IDLE).next_segment = 9


@corruption
def a_store_in_flight_is_forgotten(busy):
    busy.lifecycle._stores.clear()


@corruption
def a_store_is_in_flight_twice(busy):
    busy.lifecycle._stores[77] = busy.home(SEALING)


@corruption
def a_stored_bucket_is_being_stored_again(busy):
    busy.lifecycle._stores[77] = busy.home(IDLE)


@corruption
def a_failed_store_is_not_tried_again(busy):
    busy.lifecycle._retries.clear()


@corruption
def a_bucket_loses_its_place_in_the_segment_queue(busy):
    busy.state.segments.remove(busy.home(IDLE).key)


@corruption
def a_bucket_has_a_wrong_place_in_the_segment_queue(busy):
    busy.state.segments._place[busy.home(IDLE).key] += 1


@corruption
def an_idle_bucket_is_not_queued_for_loading(busy):
    busy.state.segments._idle.clear()


@corruption
def a_loading_bucket_is_queued_for_loading(busy):
    busy.state.segments._idle[busy.snapshot(LOADING).next_min_ms, busy.home(LOADING).key] = None


@corruption
def a_bucket_that_is_gone_is_queued_for_loading(busy):
    busy.state.segments._idle[FAR_MS, 77] = None


@corruption
def a_failed_load_is_not_tried_again(busy):
    busy.state.segments._retry_at.clear()
    busy.state.segments._retry_order.clear()


@corruption
def a_failed_load_has_no_moment_to_be_tried_again(busy):
    busy.state.segments._retry_order.clear()
