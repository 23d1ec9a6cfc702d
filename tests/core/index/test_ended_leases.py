"""The memory of ended leases equals a dictionary, forgets the oldest first, and is bounded."""

import numpy as np
import pytest

from delayed_tracker.core.index.ended_leases import EndedLeases
from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap

KEPT_MS = 160
NOBODY = PositionBitmap()


def run_of(count, *, ledger_id=1, first=0):
    return PositionColumns(np.full(count, ledger_id), np.arange(first, first + count))


def remembers(ended, lease_id, positions, elapsed_ms=0):
    return int(ended.handed_out_by(lease_id, positions, elapsed_ms).sum())


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(6, 20))])
def test_it_equals_a_dictionary(seed):
    """It equals a dictionary for any order of remembering, forgetting and asking."""
    draw = np.random.default_rng(seed)
    ended, expected = EndedLeases(kept_ms=KEPT_MS, positions_max=10_000), {}
    elapsed_ms = lease_id = 0
    for _ in range(300):
        elapsed_ms += int(draw.integers(0, 8))
        rows = sorted({(int(draw.integers(4)), int(draw.integers(40))) for _ in range(int(draw.integers(1, 9)))})
        positions = PositionColumns.of(rows)
        match draw.integers(6):
            case 0 | 1 | 2:
                lease_id += 1
                ended.forget(positions)
                ended.remember(lease_id, positions, elapsed_ms)
                expected |= dict.fromkeys(positions, (lease_id, elapsed_ms))
            case 3:
                ended.forget(positions)
                expected = {position: held for position, held in expected.items() if position not in set(positions)}
            case 4 if draw.integers(5) == 0:
                ended.forget_through(Position(*rows[0]))
                expected = {position: held for position, held in expected.items() if position > rows[0]}
            case _:
                ended.sweep(elapsed_ms)
        ended.check(NOBODY)
        everything = PositionColumns.of([(ledger, entry) for ledger in range(4) for entry in range(40)])
        for asked in (lease_id, lease_id - 1, lease_id - 3):
            held = [expected.get(position, (0, 0)) for position in everything]
            answer = [asked > 0 and lease == asked and at_ms > elapsed_ms - KEPT_MS for lease, at_ms in held]
            assert ended.handed_out_by(asked, everything, elapsed_ms).tolist() == answer


def test_the_oldest_are_forgotten_first():
    """At the bound the positions whose lease ended first go, at most a sixteenth more than needed."""
    ended = EndedLeases(kept_ms=KEPT_MS, positions_max=160)
    for lease_id in range(1, 40):
        ended.remember(lease_id, run_of(10, first=10 * lease_id), ended_ms=lease_id)
        ended.check(NOBODY)
        assert len(ended) <= 160
        assert lease_id < 16 or len(ended) >= 150
    kept = [remembers(ended, lease_id, run_of(10, first=10 * lease_id)) for lease_id in range(1, 40)]
    assert kept == sorted(kept)
    assert kept[-15:] == [10] * 15


def test_one_lease_may_be_larger_than_the_bound():
    """Positions of a lease that is larger than the bound are remembered up to the bound."""
    ended = EndedLeases(kept_ms=KEPT_MS, positions_max=100)
    ended.remember(1, run_of(1_000), ended_ms=0)
    ended.check(NOBODY)
    assert 90 <= remembers(ended, 1, run_of(1_000)) == len(ended) <= 100


def test_it_is_over_after_its_time_to_the_millisecond():
    """A result does not depend on the time at which rows are dropped; they are dropped soon after their time."""
    ended = EndedLeases(kept_ms=KEPT_MS, positions_max=100)
    ended.remember(1, run_of(3), ended_ms=1_000)
    ended.remember(2, run_of(3, ledger_id=2), ended_ms=1_005)
    assert remembers(ended, 1, run_of(3), 1_000 + KEPT_MS - 1) == 3
    assert remembers(ended, 1, run_of(3), 1_000 + KEPT_MS) == 0
    sweep_ms = ended.next_sweep_ms()
    assert sweep_ms == 1_000 + KEPT_MS + KEPT_MS // 16
    ended.sweep(sweep_ms - 1)
    assert len(ended) == 6
    ended.sweep(sweep_ms)
    assert (len(ended), ended.nbytes, ended.next_sweep_ms()) == (0, 0, None)


@pytest.mark.parametrize("lease_size", [1, 40])
def test_its_memory_follows_what_is_remembered(lease_size):
    """Memory stays at 48 bytes for each position and some slack, for leases of any size and repeated leases."""
    ended = EndedLeases(kept_ms=600_000, positions_max=1_000_000)
    count = 400 * lease_size
    for round_ in range(6):
        for number in range(400):
            part = run_of(lease_size, first=lease_size * number)
            ended.forget(part)
            ended.remember(400 * round_ + number + 1, part, ended_ms=round_)
    ended.check(NOBODY)
    assert len(ended) == count
    assert ended.nbytes <= 50 * count + 1_000
    ended.forget(run_of(count - 1))
    assert ended.nbytes <= 1_000
    ended.forget(run_of(count))
    assert ended.nbytes == 0
