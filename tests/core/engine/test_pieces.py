"""A bucket that is stored in pieces becomes a bucket for each piece, with the positions of its range."""

import pytest

from delayed_tracker.core.engine.effect_results import PiecesStored, StoredPiece
from delayed_tracker.core.engine.effects import DeleteSnapshots, StoreSnapshot
from delayed_tracker.core.rules.seal import SealedIndexes, in_halves, seal
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import START_MS, Shell, positions

LIMITS = TrackerLimits(strict=True, max_indexes_per_segment=3, prefetch_window_ms=50, late_ack_ms=1)
ROWS = [(START_MS + 100 + 37 * (entry % 7), 1 + entry // 8, entry % 8) for entry in range(20)]
"""Positions (1, 0) to (3, 3), with deadlines in another order."""


def halved(sealed: SealedIndexes, times: int) -> list[SealedIndexes]:
    if not times:
        return [sealed]
    halves = in_halves(sealed, step_ms=LIMITS.max_step_per_segment_ms, count_max=LIMITS.max_indexes_per_segment)
    return [piece for half in halves for piece in halved(half, times - 1)]


def filled_shell() -> Shell:
    """Return a tracker whose bucket of 20 positions is being stored."""
    shell = Shell.with_limits(LIMITS)
    shell.add(*ROWS)
    shell.core.seal_mutable_bucket(shell.now)
    return shell


def store_pieces(shell: Shell, times: int = 2) -> bool:
    """Answer the store with the pieces of a bucket that was halved so often."""
    effect = shell.next(StoreSnapshot)
    pieces = []
    for sealed in halved(seal(effect.frozen), times):
        shell.last_bucket_id += 1
        shell.snapshots[shell.last_bucket_id] = sealed
        pieces.append(StoredPiece(shell.last_bucket_id, sealed, snapshot_bytes=100))
    known = shell.core.apply(PiecesStored(effect.effect_id, tuple(pieces)), shell.now)
    shell.core.check()
    return known


def test_halves_have_all_rows_in_delivery_order():
    """Each half has the positions of its range, ascending by deadline, and segments within the limits."""
    shell = filled_shell()
    whole = seal(shell.next(StoreSnapshot).frozen)
    lower, upper = halved(whole, 1)
    assert (lower.first, lower.last, upper.first, upper.last) == ((1, 0), (2, 1), (2, 2), (3, 3))
    for half in (lower, upper):
        assert half.indexes.ascend()
        assert half.bounds.count.sum() == len(half.indexes) == 10
        assert half.bounds.count.max() <= LIMITS.max_indexes_per_segment
        assert all(half.first <= (ledger, entry) <= half.last for _, ledger, entry in half.indexes)
    assert sorted([*lower.indexes, *upper.indexes]) == sorted(ROWS)


@pytest.mark.parametrize("times", [1, 2, 4])
def test_pieces_deliver_what_the_bucket_had(times):
    """Every position comes out once, at its deadline, whatever the number of pieces."""
    shell = filled_shell()
    assert store_pieces(shell, times)
    assert shell.core.stats().bucket_count == len(shell.snapshots)
    assert shell.drain() == sorted(ROWS)
    shell.pass_time(1_000)  # the bits of what was taken are cleared
    shell.perform_all()
    assert not shell.snapshots


def test_what_was_consumed_meanwhile_stays_consumed():
    """A piece without positions is deleted at once; leased positions stay leased, and rows that are near in memory."""
    shell = filled_shell()
    shell.core.cancel(positions(*[(1, entry) for entry in range(5)]), shell.now)
    shell.pass_time(100)
    lease = shell.pop(2, lease_ms=1_000)
    assert store_pieces(shell)
    assert [effect.bucket_ids for effect in shell.asked(DeleteSnapshots)] == [(1,)]
    assert shell.core.stats().loaded_count
    shell.core.ack(lease.lease_id, lease.indexes.positions, shell.now)
    shell.core.check()
    taken = {(1, entry) for entry in range(5)}.union(lease.indexes.positions)
    assert shell.drain() == sorted(row for row in ROWS if row[1:] not in taken)


def test_pieces_of_a_bucket_that_was_cleared_are_not_known():
    """The owner removes them again."""
    shell = filled_shell()
    shell.asked(StoreSnapshot)
    shell.core.clear(shell.now)
    assert not store_pieces(shell)
    assert not len(shell.core)
