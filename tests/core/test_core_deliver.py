"""Handing out, leases and the cursor: what a dispatcher may rely on, one sentence a test (design 3.6)."""

import pytest

from tests.core.shell import START_MS, Shell, positions
from tracker.core.columns import BEFORE_ALL, INT63_MAX, Position
from tracker.core.effects import DeleteSnapshots, LoadSegments, StoreSnapshot
from tracker.core.errors import InvalidInput
from tracker.core.limits import TrackerLimits

STRICT = TrackerLimits(strict=True)
DUE_MS = START_MS + 100
LATER_MS = START_MS + 60_000


def due_shell(count: int = 3, limits: TrackerLimits = STRICT) -> Shell:
    """Positions (1, 0), (1, 1), ... that have just become due, and one that is not."""
    shell = Shell.with_limits(limits)
    shell.add(*[(DUE_MS, 1, entry) for entry in range(count)], (LATER_MS, 2, 0))
    shell.now_ms = limits.due_from_ms(DUE_MS)
    return shell


# -- polls


@pytest.mark.parametrize(("limits", "first_ms"), [(STRICT, DUE_MS), (TrackerLimits(tick_ms=40), DUE_MS - 40)])
def test_handed_out_at_the_cutoff_and_not_a_millisecond_before(limits, first_ms):
    """Strict: at the deadline; otherwise one tick before. The next delivery says exactly when."""
    shell = due_shell(1, limits)
    assert shell.core.next_delivery_ms() == first_ms
    shell.now_ms = first_ms - 1
    assert shell.pop_rows() == []
    shell.now_ms = first_ms
    assert shell.pop_rows() == [(DUE_MS, 1, 0)]


def test_an_answer_is_ordered_by_deadline_then_position():
    """Across buckets and memory alike."""
    shell = Shell.with_limits(STRICT)
    rows = [(DUE_MS + 2, 1, 1), (DUE_MS, 3, 0), (DUE_MS, 1, 2), (DUE_MS + 2, 1, 0), (DUE_MS + 1, 2, 0)]
    for row in rows:
        shell.add(row)
        if row[0] == DUE_MS:
            shell.core.seal_now(shell.now_ms)
            shell.perform_all()
    shell.now_ms = DUE_MS + 2
    assert shell.pop_rows() == sorted(rows)


def test_hand_off_forgets_at_once():
    """A lease of 0 ms is no lease: no id, no bit, and nothing comes back."""
    shell = due_shell()
    delivery = shell.pop(lease_ms=0)
    assert (len(delivery.indexes), delivery.lease_id, delivery.expires_at_ms) == (3, 0, 0)
    assert shell.contains((1, 0), (1, 1), (1, 2), (2, 0)) == [False, False, False, True]
    stats = shell.core.stats()
    assert (stats.handed_off_count, stats.leased_count, stats.pending_count) == (3, 0, 1)


def test_a_poll_takes_no_more_than_asked_and_the_rest_stays_due():
    """Nothing is handed out twice."""
    shell = due_shell()
    assert shell.pop_rows(2, lease_ms=50) == [(DUE_MS, 1, 0), (DUE_MS, 1, 1)]
    assert shell.core.next_delivery_ms() == DUE_MS
    assert shell.pop_rows(2, lease_ms=50) == [(DUE_MS, 1, 2)]
    assert shell.pop_rows(2, lease_ms=50) == []
    assert shell.core.next_delivery_ms() == LATER_MS


def test_nothing_due_makes_no_lease():
    """An empty answer has lease id 0."""
    shell = Shell.with_limits(STRICT)
    assert shell.pop(lease_ms=50).lease_id == 0
    assert shell.core.next_wakeup_ms() is None


@pytest.mark.parametrize(("count", "lease_ms"), [(0, 10), (-1, 10), (1, -1), (1, INT63_MAX)])
def test_a_poll_out_of_range_takes_nothing(count, lease_ms):
    """An error applies nothing, overflow of the expiry included."""
    shell = due_shell()
    with pytest.raises(InvalidInput):
        shell.pop(count, lease_ms=lease_ms)
    assert len(shell.pop_rows()) == 3


def test_what_is_loaded_does_not_wait_for_what_is_loading():
    """A slow storage delays its own segments only."""
    limits = TrackerLimits(strict=True, max_indexes_per_segment=2, load_indexes_max=2, retry_backoff_ms=5)
    shell = due_shell(4, limits)
    shell.core.seal_now(shell.now_ms)
    shell.store()
    assert shell.asked(LoadSegments) != []
    assert shell.pop_rows() == [(DUE_MS, 1, 0), (DUE_MS, 1, 1)]
    assert shell.core.next_delivery_ms() == DUE_MS, "the rest is due, and announced"
    shell.load()
    assert shell.pop_rows() == [(DUE_MS, 1, 2), (DUE_MS, 1, 3)]


def test_a_failed_load_is_tried_again_and_delivers_once():
    """The load pointer moves only after a success."""
    limits = TrackerLimits(strict=True, prefetch_window_ms=10, retry_backoff_ms=5)
    shell = due_shell(2, limits)
    shell.now_ms = START_MS
    shell.core.seal_now(shell.now_ms)
    shell.store()
    assert shell.core.next_wakeup_ms() == DUE_MS - 10
    shell.pass_time(90)
    for _ in range(2):
        shell.fail_load()
        shell.core.check()
        shell.pass_time(5)
    shell.load()
    assert shell.pop_rows() == [(DUE_MS, 1, 0), (DUE_MS, 1, 1)]
    assert shell.core.stats().effects_failed_count == 2


def test_a_lost_snapshot_drops_its_positions_and_asks_for_a_replay():
    """Bits that no copy can fill would suppress the dispatcher's replay; a new owner starts with a clean sheet."""
    limits = TrackerLimits(strict=True, prefetch_window_ms=0, max_indexes_per_segment=2)
    shell = due_shell(2, limits)
    shell.now_ms = START_MS
    shell.core.seal_now(shell.now_ms)
    shell.store()
    shell.pass_time(100)
    shell.fail_load(lost=True)
    assert shell.core.replay_required
    assert shell.contains((1, 0), (1, 1), (2, 0)) == [False, False, False]
    assert shell.core.stats().dropped_as_corrupt_count == 3
    assert len(shell.asked(DeleteSnapshots)) == 1
    shell.core.begin_epoch(2, shell.now_ms)
    assert not shell.core.replay_required


def test_loaded_rows_that_contradict_the_bounds_are_a_lost_snapshot():
    """Rows of another bucket must not be delivered under this one's bits."""
    limits = TrackerLimits(strict=True, prefetch_window_ms=0)
    shell = due_shell(2, limits)
    shell.now_ms = START_MS
    shell.core.seal_now(shell.now_ms)
    shell.store()
    shell.pass_time(100)
    effect = shell.next(LoadSegments)
    rows = shell.segments(effect)
    assert shell.core.segments_loaded(effect.effect_id, rows.take(slice(0, 1)), shell.now_ms)
    assert shell.core.replay_required
    shell.core.check()


def test_results_of_forgotten_effects_are_ignored():
    """Each answers False and changes nothing."""
    shell = due_shell()
    rows = shell.pop(lease_ms=50).indexes
    assert not shell.core.snapshot_failed(99, shell.now_ms)
    assert not shell.core.segments_loaded(99, rows, shell.now_ms)
    assert not shell.core.segment_load_failed(99, shell.now_ms, lost=True)
    assert not shell.core.snapshots_deleted(99)
    assert not shell.core.delete_failed(99, shell.now_ms)
    assert shell.core.stats().effects_failed_count == 0
    shell.core.check()


# -- leases


def test_a_leased_position_answers_tracked_and_is_not_handed_out():
    """It keeps its bit until it is acknowledged."""
    shell = due_shell()
    shell.pop(lease_ms=50)
    assert shell.contains((1, 0)) == [True]
    assert shell.pop_rows() == []
    assert shell.core.stats().leased_count == 3


def test_an_unacknowledged_lease_returns_at_its_expiry():
    """A lost answer loses no message; the moment is a wake-up."""
    shell = due_shell()
    delivery = shell.pop(lease_ms=50)
    assert delivery.expires_at_ms == DUE_MS + 50 == shell.core.next_wakeup_ms()
    shell.pass_time(49)
    assert shell.pop_rows() == []
    shell.now_ms += 1
    assert shell.pop_rows() == list(delivery.indexes), "the poll itself takes back what has run out"
    assert shell.core.stats().lease_expired_count == 3


def test_ack_forgets_positions():
    """And answers unknown for what is not tracked."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    outcome = shell.core.ack(lease_id, positions((1, 1), (7, 7), (1, 0)), shell.now_ms)
    assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (2, [], [1])
    assert shell.contains((1, 0), (1, 1), (1, 2)) == [False, False, True]
    again = shell.core.ack(lease_id, positions((1, 0)), shell.now_ms)
    assert (again.changed_count, again.unknown.tolist()) == (0, [0])


def test_ack_of_a_position_repeated_in_the_call_counts_once():
    """The repeat succeeds with it: it is neither stale nor unknown."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    outcome = shell.core.ack(lease_id, positions((1, 0), (1, 0)), shell.now_ms)
    assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (1, [], [])


def test_ack_of_an_expired_lease_succeeds():
    """The work was done, only late; the position is not handed out again."""
    shell = due_shell(1)
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.pass_time(50)
    assert shell.core.ack(lease_id, positions((1, 0)), shell.now_ms).changed_count == 1
    assert shell.pop_rows() == []
    shell.core.check()


def test_ack_of_an_expired_lease_is_stale_once_leased_again():
    """The later holder decides."""
    shell = due_shell(1)
    first = shell.pop(lease_ms=50).lease_id
    shell.pass_time(50)
    second = shell.pop(lease_ms=50).lease_id
    outcome = shell.core.ack(first, positions((1, 0)), shell.now_ms)
    assert (outcome.changed_count, outcome.stale.tolist()) == (0, [0])
    assert shell.contains((1, 0)) == [True]
    assert shell.core.ack(second, positions((1, 0)), shell.now_ms).changed_count == 1


@pytest.mark.parametrize("verb", ["ack", "nack"])
def test_a_lease_id_never_given_out_is_refused(verb):
    """And nothing is changed."""
    shell = due_shell()
    shell.pop(lease_ms=50)
    for lease_id in (0, 2, -1):
        with pytest.raises(InvalidInput, match="lease_id"):
            getattr(shell.core, verb)(lease_id, positions((1, 0)), shell.now_ms)
    assert shell.core.stats().leased_count == 3


def test_nack_returns_at_once():
    """Due again with its own deadline; the others stay leased."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    assert shell.core.nack(lease_id, positions((1, 1)), shell.now_ms).changed_count == 1
    assert shell.pop_rows() == [(DUE_MS, 1, 1)]
    assert shell.core.stats().leased_count == 2


@pytest.mark.parametrize("sealed", [False, True], ids=["in memory", "from a snapshot"])
def test_nack_with_a_deadline_replaces_it(sealed):
    """Also when the snapshot says otherwise; it comes out once, at the new deadline."""
    shell = due_shell()
    if sealed:
        shell.core.seal_now(shell.now_ms)
        shell.perform_all()
    lease_id = shell.pop(lease_ms=50).lease_id
    outcome = shell.core.nack(lease_id, positions((1, 0)), shell.now_ms, deliver_at_ms=DUE_MS + 7)
    assert outcome.changed_count == 1
    assert shell.core.next_delivery_ms() == DUE_MS + 7
    shell.core.check()
    shell.core.ack(lease_id, positions((1, 1), (1, 2)), shell.now_ms)
    shell.now_ms += 6
    assert shell.pop_rows() == []
    shell.now_ms += 1
    assert shell.pop_rows() == [(DUE_MS + 7, 1, 0)]


def test_nack_of_what_is_not_leased_is_stale_or_unknown():
    """Ended, leased by another, or never tracked: unchanged."""
    shell = due_shell(2)
    first = shell.pop(1, lease_ms=50).lease_id
    second = shell.pop(1, lease_ms=500).lease_id
    shell.pass_time(50)
    outcome = shell.core.nack(first, positions((1, 0), (1, 1), (7, 7)), shell.now_ms, deliver_at_ms=LATER_MS)
    assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (0, [0, 1], [2])
    assert shell.pop_rows() == [(DUE_MS, 1, 0)]
    assert second == 2


@pytest.mark.parametrize("deliver_at_ms", [-1, 2**63])
def test_nack_to_a_deadline_out_of_range_changes_nothing(deliver_at_ms):
    """An error applies nothing."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    with pytest.raises(InvalidInput, match="deliver_at_ms"):
        shell.core.nack(lease_id, positions((1, 0)), shell.now_ms, deliver_at_ms=deliver_at_ms)
    assert shell.core.stats().leased_count == 3


def test_leased_positions_are_sealed_with_the_rest():
    """What has a bit must be in the snapshot, or a crash would lose it."""
    shell = due_shell()
    shell.pop(2, lease_ms=500)
    shell.core.seal_now(shell.now_ms)
    (effect,) = shell.asked(StoreSnapshot)
    assert len(effect.frozen) == 4
    shell.perform_all()
    shell.core.check()
    shell.pass_time(500)
    assert len(shell.pop_rows()) == 3


# -- the cursor and the owner


def test_mark_delete_drops_bits_and_leases_at_or_below():
    """What is acknowledged in the cursor is neither pending nor leased."""
    shell = due_shell()
    shell.pop(2, lease_ms=50)
    outcome = shell.core.advance_mark_delete(Position(1, 0), shell.now_ms)
    assert (outcome.mark_delete, outcome.trimmed_count) == (Position(1, 0), 1)
    assert shell.contains((1, 0), (1, 1)) == [False, True]
    assert shell.core.stats().leased_count == 1
    assert shell.core.advance_mark_delete(Position(2, 0), shell.now_ms).trimmed_count == 3
    assert shell.core.next_wakeup_ms() is None
    shell.core.check()


def test_a_lower_mark_delete_is_ignored_and_the_current_one_answered():
    """Calls may overtake each other."""
    shell = due_shell()
    shell.core.advance_mark_delete(Position(1, 1), shell.now_ms)
    for lower in (Position(1, 0), Position(1, 1), Position(0, 99)):
        outcome = shell.core.advance_mark_delete(lower, shell.now_ms)
        assert (outcome.mark_delete, outcome.trimmed_count) == (Position(1, 1), 0)
    assert shell.core.mark_delete == Position(1, 1)


def test_later_acks_below_mark_delete_succeed_without_effect():
    """They are no-ops, answered unknown."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.core.advance_mark_delete(Position(1, 1), shell.now_ms)
    outcome = shell.core.ack(lease_id, positions((1, 0), (1, 1), (1, 2)), shell.now_ms)
    assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (1, [], [0, 1])


@pytest.mark.parametrize("position", [Position(-1, 0), Position(0, -2), BEFORE_ALL])
def test_a_mark_delete_that_is_no_position_is_refused(position):
    """Entry -1 of a ledger is legal, a negative ledger is not."""
    shell = due_shell()
    with pytest.raises(InvalidInput, match="mark_delete"):
        shell.core.advance_mark_delete(position, shell.now_ms)
    assert len(shell.core) == 4


def test_a_bucket_wholly_below_mark_delete_is_deleted():
    """From the catalogue and the storage, also while one of its segments is loading."""
    shell = due_shell()
    shell.core.seal_now(shell.now_ms)
    bucket_id = shell.store()
    shell.core.advance_mark_delete(Position(2, 0), shell.now_ms)
    (effect,) = shell.asked(DeleteSnapshots)
    assert effect.bucket_ids == (bucket_id,)
    assert shell.core.buckets() == []
    shell.core.check()


def test_a_failed_deletion_is_tried_again():
    """Until it is reported done, with the same bucket."""
    shell = due_shell(limits=TrackerLimits(strict=True, retry_backoff_ms=5))
    shell.core.seal_now(shell.now_ms)
    bucket_id = shell.store()
    shell.core.advance_mark_delete(Position(2, 0), shell.now_ms)
    assert shell.core.delete_failed(shell.next(DeleteSnapshots).effect_id, shell.now_ms)
    assert shell.core.next_wakeup_ms() == shell.now_ms + 5
    shell.pass_time(5)
    again = shell.next(DeleteSnapshots)
    assert again.bucket_ids == (bucket_id,)
    assert shell.core.snapshots_deleted(again.effect_id)
    assert shell.core.next_wakeup_ms() is None


def test_clear_forgets_everything_and_answers_how_much():
    """Pending and leased alike; snapshots are asked to be deleted under a new epoch."""
    shell = due_shell()
    shell.core.seal_now(shell.now_ms)
    bucket_id = shell.store()
    shell.pop(2, lease_ms=50)
    shell.add((LATER_MS, 3, 0))
    assert shell.core.clear(shell.now_ms) == 5
    assert (len(shell.core), shell.core.epoch, shell.core.next_wakeup_ms()) == (0, 2, None)
    (effect,) = shell.asked(DeleteSnapshots)
    assert (effect.epoch, effect.bucket_ids) == (2, (bucket_id,))
    assert shell.core.buckets() == []
    shell.core.check()


def test_clear_is_legal_when_there_is_nothing_and_with_only_mutable_ones():
    """In any state; it still fences older writers."""
    shell = Shell.with_limits(STRICT)
    assert shell.core.clear(shell.now_ms) == 0
    assert [effect.bucket_ids for effect in shell.asked(DeleteSnapshots)] == [()]
    shell.add((LATER_MS, 1, 0))
    assert shell.core.clear(shell.now_ms) == 1
    shell.core.check()


def test_results_of_effects_from_before_a_clear_are_ignored():
    """A store that ends after the barrier must be removed by its runner; the answer says so."""
    shell = due_shell()
    shell.core.seal_now(shell.now_ms)
    shell.asked(StoreSnapshot)
    shell.core.clear(shell.now_ms)
    effect = shell.next(StoreSnapshot)
    assert not shell.core.snapshot_failed(effect.effect_id, shell.now_ms)
    shell.pending.insert(0, effect)
    shell.store()
    assert (len(shell.core), shell.core.buckets()) == (0, [])


def test_a_new_epoch_returns_all_leases_at_once():
    """The new owner gets what the old one held; effects in flight stay valid."""
    shell = due_shell()
    shell.core.seal_now(shell.now_ms)
    rows = shell.pop_rows(lease_ms=50_000)
    shell.core.begin_epoch(2, shell.now_ms)
    assert shell.core.stats().leased_count == 0
    assert shell.pop_rows(lease_ms=50) == rows
    shell.store()
    assert [view.bucket_id for view in shell.core.buckets()] == [1]
    shell.core.check()


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_must_rise(epoch):
    """Two owners of one epoch could not be told apart."""
    shell = due_shell()
    shell.pop(lease_ms=50)
    with pytest.raises(InvalidInput, match="epoch"):
        shell.core.begin_epoch(epoch, shell.now_ms)
    assert shell.core.stats().leased_count == 3


# -- memory


def test_positions_dated_anew_many_times_leave_a_bounded_number_of_copies():
    """Dead copies are swept: what stays is of the order of what is tracked."""
    shell = Shell.with_limits(STRICT)
    for round_ in range(100):
        rows = [(LATER_MS + round_, 1, entry) for entry in range(200)]
        shell.add(*rows)
        if round_ < 99:
            shell.add(*[(0, 1, entry) for entry in range(200)])
    shell.core.check()
    assert shell.core.stats().loaded_count <= 2 * 200 + 1_024
    assert shell.drain() == rows


def test_cancelled_positions_leave_a_bounded_number_of_copies():
    """Each new position is refused as due soon after: none is tracked at the end, few copies are."""
    shell = Shell.with_limits(STRICT)
    for start in range(0, 20_000, 200):
        shell.add(*[(LATER_MS, 1, start + entry) for entry in range(200)])
        shell.add(*[(0, 1, start + entry) for entry in range(200)])
    shell.core.check()
    assert len(shell.core) == 0
    assert shell.core.stats().loaded_count <= 1_024
    memory = shell.core._state.mutable.memory
    assert memory is not None
    assert len(memory.ghosts) <= 1_024
    assert shell.core.next_wakeup_ms() is None


def test_leases_that_run_out_again_and_again_leave_one_copy_of_each():
    """Returned rows are merged into runs whose number stays logarithmic."""
    shell = due_shell(300)
    for _ in range(50):
        while shell.pop_rows(7, lease_ms=10):
            pass
        shell.pass_time(10)
        shell.core.check()
    assert shell.core.stats().loaded_count == 301
    assert len(shell.core._state.heap) <= 10
    assert len(shell.pop_rows()) == 300


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_drained_trackers_hold_nothing(count):
    """No copy, no lease, no bucket, no wake-up."""
    shell = due_shell(count, TrackerLimits(strict=True, min_index_count_per_bucket=3, max_indexes_per_segment=2))
    shell.core.seal_now(shell.now_ms)
    assert len(shell.drain()) == count + 1
    shell.perform_all()
    stats = shell.core.stats()
    assert (stats.pending_count, stats.loaded_count, stats.bucket_count, stats.snapshot_bytes) == (0, 0, 0, 0)
    assert stats.membership_bytes == 0
    assert shell.core.next_wakeup_ms() is None
    assert not shell.snapshots
