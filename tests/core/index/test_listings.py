"""Ledgers that an open bucket has drained are forgotten, so that a topic may roll its ledgers over for ever."""

import pytest

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.columns import IndexColumns, PositionColumns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits

LISTINGS_MAX = 200
ROUNDS = 1_000


@pytest.mark.parametrize("kind", TrackerKind)
def test_drained_ledgers_are_not_listed(kind: TrackerKind):
    """A bucket that is never sealed has one ledger at a time; one that stays is found all along."""
    core = TrackerCore(TrackerLimits(kind=kind), epoch=1)
    core.add(IndexColumns.of([(10**12, 1, 0)]), Instant(0, 0))
    empty_bytes = core.stats().memory_bytes
    for ledger in range(2, ROUNDS):
        now_ms = ledger * 10_000
        core.add(IndexColumns.of([(now_ms + 5_000, ledger, entry) for entry in range(3)]), Instant(now_ms, now_ms))
        later = Instant(now_ms + 5_000, now_ms + 5_000)
        assert len(core.pop_due(10, later, lease_ms=0).indexes) == 3
        core.wake(Instant(now_ms + 9_000, now_ms + 9_000))
        core.take_effects()
    members = core._state.members
    assert members.listed_count <= LISTINGS_MAX
    assert core.stats().memory_bytes < empty_bytes + 100 * LISTINGS_MAX
    assert core.contains(PositionColumns.of([(1, 0), (2, 0), (ROUNDS - 1, 2)])).tolist() == [True, False, False]
    core.check()


def test_a_ledger_that_was_forgotten_is_listed_again():
    """Late positions of it are found, and leave it again."""
    core = TrackerCore(TrackerLimits(kind=TrackerKind.IN_MEMORY), epoch=1)
    now = Instant(0, 0)
    for ledger in range(1, LISTINGS_MAX):
        core.add(IndexColumns.of([(9_000, ledger, 0)]), now)
        core.cancel(PositionColumns.of([(ledger, 0)]), now)
    assert core._state.members.listed_count < LISTINGS_MAX - 1
    core.add(IndexColumns.of([(9_000, 1, 0)]), now)
    assert core.contains(PositionColumns.of([(1, 0)])).tolist() == [True]
    core.check()
