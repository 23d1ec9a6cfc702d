"""Fixed-delay detection pauses a dispatcher's reading, and several events end the pause."""

import itertools

import numpy as np
import pytest

from delayed_tracker.core.rules.fixed_delay import FixedDelayDetector
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from tests.core.harness.shell import START_MS, Shell

LOOKAHEAD = 100
TICK_MS = 10
DELAY_MS = 60_000
FIXED = TrackerLimits(kind=TrackerKind.IN_MEMORY, tick_ms=TICK_MS, strict=True, fixed_delay_lookahead=LOOKAHEAD)


def _rows(deadlines, ledger_id=1):
    return IndexColumns.of([(deliver_at_ms, ledger_id, entry) for entry, deliver_at_ms in enumerate(deadlines)])


def _filled(count=LOOKAHEAD, limits=FIXED):
    """Return a tracker of messages that all have the same delay, published a millisecond apart."""
    shell = Shell.with_limits(limits)
    shell.add(*[(START_MS + DELAY_MS + entry, 1, entry) for entry in range(count)])
    return shell


def _pauses(shell):
    shell.core.check()
    return shell.core.pause_reading(shell.now_ms)


def test_row_76_1000_messages_with_one_delay_say_paused():
    """With a lookahead of 100, the tracker returns paused from the 100th message on."""
    shell = Shell.with_limits(FIXED)
    said = []
    for entry in range(1_000):
        shell.add((START_MS + DELAY_MS + entry, 1, entry))
        said.append(shell.core.pause_reading(shell.now_ms))
    assert said == [entry >= LOOKAHEAD - 1 for entry in range(1_000)]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (TrackerLimits(kind=TrackerKind.IN_MEMORY, fixed_delay_lookahead=0), "a lookahead of 0 switches it off"),
        (TrackerLimits(kind=TrackerKind.BUCKET, fixed_delay_lookahead=1), "the bucket tracker may read it all"),
    ],
)
def test_without_a_lookahead_or_in_the_bucket_tracker_it_never_pauses(limits, reason):
    """The pause is the in-memory tracker's way to limit its memory."""
    assert not _pauses(_filled(limits=limits)), reason


def test_a_deadline_may_fall_back_by_a_tick_and_no_further():
    """Deadlines may go back by one tick: publish times of several producers are not quite in order."""
    shell = _filled()
    highest_ms = START_MS + DELAY_MS + LOOKAHEAD - 1
    shell.add((highest_ms - TICK_MS, 2, 0))
    assert _pauses(shell)
    shell.add((highest_ms - TICK_MS - 1, 2, 1))
    assert not _pauses(shell)


def test_what_is_due_on_offer_ends_it():
    """A message without a delay ends the pause: others may follow it and must not wait."""
    shell = _filled()
    shell.add((0, 2, 0))
    assert not _pauses(shell)
    shell.add(*[(START_MS + 2 * DELAY_MS + entry, 3, entry) for entry in range(LOOKAHEAD)])
    assert not _pauses(shell), "for as long as anything is tracked"


def test_offering_tracked_positions_again_changes_nothing():
    """A replay begins at the oldest message, with a deadline far below the highest, and changes nothing."""
    shell = _filled()
    shell.add(*[(START_MS + DELAY_MS + entry, 1, entry) for entry in range(LOOKAHEAD)])
    assert _pauses(shell)


def test_it_ends_when_the_first_is_due_and_when_fewer_than_the_lookahead_wait():
    """Reading continues as soon as a message can be delivered; leased messages do not wait."""
    shell = _filled(LOOKAHEAD + 1)
    shell.now_ms = START_MS + DELAY_MS - 1
    assert _pauses(shell)
    shell.now_ms += 1
    assert not _pauses(shell)
    shell.pop(1, lease_ms=1_000)
    assert _pauses(shell)
    shell.now_ms += 1
    shell.pop(1, lease_ms=1_000)
    assert not _pauses(shell)


@pytest.mark.parametrize("emptied_by", ["hand-off", "ack", "trim", "clear", "cancel"])
def test_an_emptied_tracker_begins_anew(emptied_by):
    """Every way of emptying the tracker restores the assumption, and the old highest deadline is forgotten."""
    shell = _filled()
    shell.add((0, 2, 0))
    shell.now_ms += 2 * DELAY_MS
    match emptied_by:
        case "hand-off":
            assert len(shell.pop().indexes) == LOOKAHEAD
        case "ack":
            taken = shell.pop(lease_ms=1_000)
            shell.core.ack(taken.lease_id, taken.indexes.positions, shell.now)
        case "trim":
            shell.core.advance_mark_delete(Position(2, 0), shell.now)
        case "clear":
            shell.core.clear(shell.now)
        case "cancel":
            shell.core.cancel(_rows(range(LOOKAHEAD)).positions, shell.now)
    assert not len(shell.core)
    shell.now_ms = START_MS
    shell.add(*[(START_MS + 1_000 + entry, 3, entry) for entry in range(LOOKAHEAD)])
    assert _pauses(shell)


def test_an_offer_that_empties_the_tracker_does_not_begin_anew():
    """An offer that is due was not delayed, so the messages behind it may not be delayed either."""
    shell = Shell.with_limits(FIXED)
    shell.add((START_MS + DELAY_MS, 1, 0))
    shell.add((0, 1, 0))
    shell.core.wake(shell.now)
    shell.add(*[(START_MS + DELAY_MS + entry, 2, entry) for entry in range(LOOKAHEAD)])
    assert not _pauses(shell)


def test_a_nack_to_an_earlier_deadline_ends_it_and_a_plain_one_does_not():
    """A new deadline counts like any other delay."""
    shell = _filled(LOOKAHEAD + 1)
    shell.now_ms = START_MS + DELAY_MS
    taken = shell.pop(1, lease_ms=1_000)
    shell.core.nack(taken.lease_id, taken.indexes.positions, shell.now)
    assert not _pauses(shell), "it is due"
    taken = shell.pop(1, lease_ms=1_000)
    assert _pauses(shell)
    shell.core.nack(taken.lease_id, taken.indexes.positions, shell.now, deliver_at_ms=shell.now_ms + 1)
    assert not _pauses(shell)


@pytest.mark.parametrize(("by_ms", "pauses"), [(1, True), (-TICK_MS, True), (-TICK_MS - 1, False)])
def test_a_reschedule_to_an_earlier_deadline_ends_it(by_ms, pauses):
    """A new deadline counts like any other delay."""
    shell = _filled(LOOKAHEAD + 1)
    assert _pauses(shell)
    last_ms = START_MS + DELAY_MS + LOOKAHEAD
    shell.core.reschedule(IndexColumns.of([(last_ms + by_ms, 1, LOOKAHEAD)]), shell.now)
    assert _pauses(shell) == pauses


def test_batches_say_the_same_as_single_rows():
    """Batches equal single rows, over random deadlines divided at random places."""
    random = np.random.default_rng(7)
    pauses = 0
    for _ in range(300):
        deadlines = (1_000 + np.arange(30) * 5 + random.integers(0, 18, 30)).tolist()
        cuts = [0, *sorted(random.integers(0, 30, 3).tolist()), 30]
        batched = FixedDelayDetector(lookahead=30, tick_ms=TICK_MS)
        for start, end in itertools.pairwise(cuts):
            batched.note_offered(_rows(deadlines[start:end]), any_due=False)
        in_order = all(later >= earlier - TICK_MS for n, later in enumerate(deadlines) for earlier in deadlines[:n])
        assert batched.enough_wait(30) == in_order
        pauses += in_order
    assert 30 < pauses < 270, "both answers were seen"
