"""``TrackerCore.check`` finds each corruption of one part of a busy tracker."""

import pytest

from delayed_tracker.core.inspect.invariants import check_invariants
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.instant import Wakeup
from delayed_tracker.core.values.verb_results import BucketState
from tests.core.harness import bucket_corruptions, copy_corruptions, effect_corruptions
from tests.core.harness.busy_tracker import FAR_MS, LIMITS, NEAR_MS, BusyTracker
from tests.core.harness.shell import Shell

CORRUPTIONS = bucket_corruptions.CORRUPTIONS | copy_corruptions.CORRUPTIONS | effect_corruptions.CORRUPTIONS


def test_untouched_tracker_passes():
    """The tracker is sound before it is corrupted, and has the parts that are corrupted."""
    busy = BusyTracker()
    busy.core.check()
    states = {bucket.state for bucket in busy.state.members.buckets.values()}
    assert states == set(BucketState)
    assert busy.core.stats().leased_count == 2


def test_a_second_copy_of_what_was_just_taken_is_no_contradiction():
    """A load may bring another copy of a row whose bit waits to be cleared; the check passes it, and counts anew."""
    shell = Shell.with_limits(LIMITS)
    shell.add(*((NEAR_MS, 1, entry) for entry in range(3)))
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    shell.now_ms = NEAR_MS
    shell.perform_all()
    assert shell.pop_rows(1) == [(NEAR_MS, 1, 0)]
    state = shell.core._state
    bucket = next(bucket for bucket in state.members.buckets.values() if bucket.snapshot is not None)
    assert state.gone_count == 1
    state.heap.new_run(bucket.key, IndexColumns.of([(NEAR_MS, 1, 0)]), is_stored=True)
    shell.core.check()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_check_finds(name):
    """Every contradiction is found."""
    busy = BusyTracker()
    CORRUPTIONS[name](busy)
    with pytest.raises(InvariantViolation):
        busy.core.check()


@pytest.mark.parametrize("shift_ms", [None, -1, 1])
def test_check_finds_that_the_next_delivery_is_wrong(shift_ms):
    """The next delivery is exact: neither missing nor early nor late."""
    core = BusyTracker().core
    next_delivery_ms, next_wakeup = core.next_delivery_ms(), core.next_wakeup()
    assert next_delivery_ms is not None
    wrong_ms = None if shift_ms is None else next_delivery_ms + shift_ms
    with pytest.raises(InvariantViolation, match="next delivery"):
        check_invariants(core._state, core._lifecycle, wrong_ms, next_wakeup)


@pytest.mark.parametrize("clock", ["wall_ms", "elapsed_ms"])
@pytest.mark.parametrize("late", [False, True], ids=["lost", "late"])
def test_check_finds_that_a_wake_up_is_lost(clock, late):
    """A wake-up on either clock may come early, but never late or not at all."""
    core = BusyTracker().core
    wakeup = core.next_wakeup()
    wrong = wakeup._replace(**{clock: FAR_MS + 1_000_000 if late else None})
    check_invariants(core._state, core._lifecycle, core.next_delivery_ms(), wakeup)
    with pytest.raises(InvariantViolation, match="wake"):
        check_invariants(core._state, core._lifecycle, core.next_delivery_ms(), wrong)


def test_check_finds_that_nobody_wakes_up_for_a_lease():
    """The expiry of a lease needs a wake-up even if no other position is tracked."""
    shell = Shell.with_limits(LIMITS)
    shell.add((NEAR_MS, 1, 0))
    shell.now_ms = NEAR_MS
    shell.pop(lease_ms=20)
    expiry_ms = shell.now.elapsed_ms + 20
    check_invariants(shell.core._state, shell.core._lifecycle, None, Wakeup(None, expiry_ms))
    with pytest.raises(InvariantViolation, match="wake"):
        check_invariants(shell.core._state, shell.core._lifecycle, None, Wakeup(None, expiry_ms + 1))


def test_check_finds_that_nobody_wakes_up_for_a_retry():
    """A failed store needs a wake-up before any of its rows is due."""
    shell = Shell.with_limits(LIMITS)
    shell.add((FAR_MS, 1, 0))
    shell.core.seal_mutable_bucket(shell.now)
    shell.fail_store()
    retry_ms = shell.now_ms + LIMITS.retry_backoff_ms
    assert shell.next_wakeup_ms() == retry_ms
    with pytest.raises(InvariantViolation, match="wake"):
        check_invariants(
            shell.core._state, shell.core._lifecycle, FAR_MS, Wakeup(FAR_MS, retry_ms - shell.ahead_ms + 1)
        )
