"""Corruptions of copies in memory, and of leases."""

import numpy as np

from delayed_tracker.core.index.runs import Run
from delayed_tracker.core.values.columns import IndexColumns
from tests.core.harness.busy_tracker import FAR_MS, LATE, LOADING, MUTABLE
from tests.core.harness.corruption import Corruptions, one

CORRUPTIONS = Corruptions()
corruption = CORRUPTIONS.add


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
    busy.state.heap._by_bucket.clear()


@corruption
def a_run_names_a_bucket_that_is_gone(busy):
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
    busy.memory(MUTABLE).rescheduled.put(IndexColumns.of([(FAR_MS + 99, MUTABLE, 1)]))


@corruption
def a_copy_with_an_older_deadline_counts_again(busy):
    busy.memory(MUTABLE).rescheduled = None


@corruption
def a_copy_without_a_bit_would_count_if_it_came_again(busy):
    busy.memory(MUTABLE).removed.remove(one(MUTABLE, 0))


@corruption
def a_rescheduled_position_is_not_among_the_removed(busy):
    busy.memory(MUTABLE).removed.remove(one(MUTABLE, 1))


@corruption
def removed_copies_are_not_counted(busy):
    busy.memory(MUTABLE).removed_count = 0


@corruption
def a_run_with_removed_copies_is_not_suspect(busy):
    busy.run(MUTABLE).suspect = False


@corruption
def the_expiry_of_a_lease_is_lost(busy):
    busy.state.leases._expiries.pop_first()


@corruption
def a_lease_expires_at_another_moment(busy):
    busy.lease().expires_at_ms += 1


@corruption
def a_joined_part_of_a_lease_announces_another_expiry(busy):
    part = busy.lease()
    part.ends_ms = np.full(len(part.indexes), part.expires_at_ms + 1)


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
    busy.bucket(LOADING).bits.subtract(busy.lease().bits)
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
