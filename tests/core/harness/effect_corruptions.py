"""Corruptions of effects and wake-ups."""

from tests.core.harness.busy_tracker import FAR_MS, IDLE, LOADING, SEALING
from tests.core.harness.corruption import Corruptions

CORRUPTIONS = Corruptions()
corruption = CORRUPTIONS.add


@corruption
def a_load_in_flight_is_forgotten(busy):
    busy.lifecycle.loads._in_flight.clear()


@corruption
def a_load_in_flight_is_for_other_segments(busy):
    busy.snapshot(LOADING).load_first -= 1
    busy.state.segments.update(busy.bucket(LOADING))


@corruption
def the_rows_that_are_loading_are_miscounted(busy):
    busy.lifecycle.loads._row_count += 1


@corruption
def a_segment_is_skipped(busy):
    busy.snapshot(IDLE).next_group += 1
    busy.state.segments.update(busy.bucket(IDLE))


@corruption
def a_segment_number_is_beyond_the_last(busy):
    busy.snapshot(IDLE).next_group = 9


@corruption
def a_store_in_flight_is_forgotten(busy):
    busy.lifecycle._stores.clear()


@corruption
def a_store_is_in_flight_twice(busy):
    busy.lifecycle._stores[77] = busy.bucket(SEALING)


@corruption
def a_stored_bucket_is_being_stored_again(busy):
    busy.lifecycle._stores[77] = busy.bucket(IDLE)


@corruption
def a_failed_store_is_not_tried_again(busy):
    busy.lifecycle._retries.clear()


@corruption
def a_bucket_loses_its_place_in_the_segment_queue(busy):
    busy.state.segments.remove(busy.bucket(IDLE).key)


@corruption
def a_bucket_has_a_wrong_place_in_the_segment_queue(busy):
    busy.state.segments._place[busy.bucket(IDLE).key] += 1


@corruption
def an_idle_bucket_is_not_queued_for_loading(busy):
    busy.state.segments._idle.clear()


@corruption
def a_loading_bucket_is_queued_for_loading(busy):
    busy.state.segments._idle[busy.snapshot(LOADING).next_min_ms, busy.bucket(LOADING).key] = None


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
