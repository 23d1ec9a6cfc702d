"""Corruptions of bits and counters, and of buckets, their ranges and their index entries."""

from delayed_tracker.core.index.buckets import Bucket, MemoryCopies
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.verb_results import BucketState
from tests.core.harness.busy_tracker import IDLE, LATE, MUTABLE, SEALING, BusyTracker
from tests.core.harness.corruption import Corruption, Corruptions, one

CORRUPTIONS = Corruptions()
corruption = CORRUPTIONS.add


@corruption
def a_bit_is_cleared_in_the_mutable_bucket(busy):
    busy.bucket(MUTABLE).bits.remove(one(MUTABLE, 2))


@corruption
def a_bit_is_cleared_in_a_stored_bucket(busy):
    busy.bucket(IDLE).bits.remove(one(IDLE, 2))


@corruption
def a_bit_is_cleared_behind_the_back_of_its_set(busy):
    busy.bucket(IDLE).bits._by_ledger[IDLE].discard(2)


@corruption
def a_bit_is_set_in_the_late_home(busy):
    busy.bucket(LATE).bits.add(one(LATE, 9))


@corruption
def a_bit_is_set_for_which_there_is_no_copy(busy):
    busy.bucket(LATE).bits.add(one(LATE, 9))
    busy.state.counters.tracked += 1
    busy.state.counters.added += 1


@corruption
def a_bit_moves_to_a_position_without_copy(busy):
    busy.bucket(SEALING).bits.remove(one(SEALING, 1))
    busy.bucket(SEALING).bits.add(one(SEALING, 9))


@corruption
def a_bit_is_in_two_buckets(busy):
    busy.state.members.add(busy.bucket(LATE), one(IDLE, 2))
    busy.state.counters.tracked += 1
    busy.state.counters.added += 1


@corruption
def an_empty_bitmap_is_kept(busy):
    busy.bucket(IDLE).bits._by_ledger[99] = type(busy.bucket(IDLE).bits._by_ledger[IDLE])()


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


@corruption
def a_range_is_missing(busy):
    del busy.state.members.ranges[busy.bucket(IDLE).last, busy.bucket(IDLE).key]


@corruption
def a_range_begins_elsewhere(busy):
    busy.state.members.ranges[busy.bucket(IDLE).last, busy.bucket(IDLE).key] = Position(0, 0)


@corruption
def a_range_belongs_to_no_home(busy):
    busy.state.members.ranges[Position(7, 7), 77] = Position(7, 0)


@corruption
def a_bucket_begins_after_its_lowest_bit(busy):
    bucket = busy.bucket(IDLE)
    bucket.first = busy.state.members.ranges[bucket.last, bucket.key] = Position(IDLE, 1)


@corruption
def a_bucket_ends_before_its_highest_bit(busy):
    bucket = busy.bucket(IDLE)
    del busy.state.members.ranges[bucket.last, bucket.key]
    bucket.last = Position(IDLE, 4)
    busy.state.members.ranges[bucket.last, bucket.key] = bucket.first


@corruption
def a_bucket_is_not_listed_under_its_ledger(busy):
    del busy.state.members._by_ledger[IDLE]


@corruption
def a_bucket_does_not_know_that_it_is_listed(busy):
    busy.bucket(IDLE).ledgers.clear()


@corruption
def a_bucket_is_listed_twice_under_its_ledger(busy):
    busy.state.members._by_ledger[IDLE] *= 2


@corruption
def a_bucket_that_is_gone_is_still_listed(busy):
    busy.state.members._by_ledger[77] = [Bucket(77, BucketState.LATE)]


@corruption
def a_bucket_is_filed_under_another_key(busy):
    busy.bucket(IDLE).key = 77


@corruption
def a_sealed_bucket_claims_to_be_open(busy):
    busy.bucket(IDLE).state = BucketState.LATE


@corruption
def a_bucket_has_neither_copies_nor_snapshot(busy):
    busy.bucket(IDLE).snapshot = None


@corruption
def a_bucket_has_copies_and_a_snapshot(busy):
    busy.bucket(IDLE).memory = MemoryCopies()


@corruption
def adds_go_to_a_bucket_that_nobody_knows(busy):
    busy.state.mutable = Bucket(77, BucketState.MUTABLE)


@corruption
def a_drained_bucket_is_kept(busy):
    bucket = busy.bucket(IDLE)
    busy.state.counters.acked += len(bucket.bits)
    busy.state.counters.tracked -= bucket.bits.clear()


@corruption
def a_bucket_forgets_its_highest_ledger(busy):
    busy.memory(MUTABLE).last_ledger_id = SEALING


@corruption
def a_bucket_announces_another_first_deadline(busy):
    busy.bucket(IDLE).min_deliver_at_ms += 1


@corruption
def a_bucket_forgets_how_many_it_was_sealed_with(busy):
    busy.bucket(IDLE).sealed_count -= 1


@corruption
def the_snapshot_bytes_are_off(busy):
    busy.state.snapshot_bytes += 1


@corruption
def the_membership_bytes_are_off(busy):
    busy.state.membership_bytes += 1


@corruption
def the_membership_bytes_of_a_bucket_are_off(busy):
    busy.state.membership_bytes += 1
    busy.bucket(IDLE).membership_bytes += 1


@corruption
def the_segment_bytes_are_off(busy):
    busy.state.segments_bytes -= 1


@corruption
def a_lookup_outlives_the_bits_it_was_made_of(busy):
    while not busy.state.members.lookup_bytes:
        busy.core.contains(one(IDLE, 2))
    outlived = busy.state.members._lookup
    busy.core.cancel(one(IDLE, 2), Instant(0, 0))
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
