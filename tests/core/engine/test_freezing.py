"""Content frozen for a seal or a merge stays as it was, whatever happens to its positions later."""

from collections.abc import Callable

import pytest

from delayed_tracker.core.engine.effect_results import MergeFailed
from delayed_tracker.core.engine.effects import MergeSnapshots, StoreSnapshot
from delayed_tracker.core.rules.seal import seal
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import LATER_MS, Shell, positions

DUE_MS = 1_500
ROWS = [(DUE_MS if ledger < 3 else LATER_MS, ledger, entry) for ledger in range(1, 6) for entry in range(4)]

MEANWHILE: dict[str, Callable[[Shell], object]] = {
    "cancel": lambda shell: shell.core.cancel(positions((1, 0), (3, 1), (5, 3)), shell.now),
    "hand off": lambda shell: (shell.pass_time(1_000), shell.pop(5)),
    "ack": lambda shell: (
        shell.pass_time(1_000),
        shell.core.ack(shell.pop(5, lease_ms=10).lease_id, FEW, shell.now),
    ),
    "offer as due": lambda shell: shell.add((0, 2, 2), (0, 4, 2)),
    "trim": lambda shell: shell.core.advance_mark_delete(Position(3, 1), shell.now),
    "clear": lambda shell: shell.core.clear(shell.now),
}
FEW = positions((1, 0), (1, 3), (4, 1))
ALL = positions(*[row[1:] for row in ROWS])


def sealing_shell() -> Shell:
    shell = Shell.with_limits(
        TrackerLimits(strict=True, max_num_buckets=1, prefetch_window_ms=1_000, retry_backoff_ms=9_000)
    )
    shell.add(*ROWS)
    shell.core.seal_mutable_bucket(shell.now)
    return shell


def test_freezing_copies_no_bitmap():
    """Freezing copies no bitmap: 50,000 copies would take 40 ms of the caller's time."""
    shell = sealing_shell()
    frozen = shell.asked(StoreSnapshot)[0].frozen
    bucket = shell.core._state.members.buckets[frozen.bucket_number]
    assert all(bucket.bits.bitmap_of(ledger) is frozen.live.bitmap_of(ledger) for ledger in range(1, 6))


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_is_being_sealed_stays_as_it_was_frozen(meanwhile):
    """Frozen content stays the same until its result, and removed positions do not come back afterwards."""
    shell = sealing_shell()
    effect = shell.asked(StoreSnapshot)[0]
    MEANWHILE[meanwhile](shell)
    left = shell.core.contains(ALL)
    assert not left.all()
    assert list(seal(effect.frozen).indexes) == sorted(ROWS)
    shell.store()
    shell.core.check()
    assert (shell.core.contains(ALL) == left).all()
    assert len(shell.drain()) == left.sum()


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_store_that_is_tried_again_holds_what_is_left_by_then(meanwhile):
    """The first attempt's loan ends with its failure; the second attempt has its own, with the rest of the content."""
    shell = sealing_shell()
    shell.fail_store()
    MEANWHILE[meanwhile](shell)
    left = sorted(tuple(position) for position in ALL.take(shell.core.contains(ALL)))
    shell.pass_time(10_000)
    for effect in shell.asked(StoreSnapshot):
        shell.core.cancel(positions((5, 0)), shell.now)
        assert sorted(row[1:] for row in seal(effect.frozen).indexes) == left
        shell.store()
    shell.core.check()
    assert len(shell.drain()) == sum(position != (5, 0) for position in left)


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_is_being_merged_stays_as_it_was(meanwhile):
    """The sources of a merge are read twice and give the same content both times."""
    shell = sealing_shell()
    shell.store()
    shell.add((LATER_MS, 9, 0))
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    (merge,) = [effect for effect in shell.core.take_effects() if isinstance(effect, MergeSnapshots)]
    MEANWHILE[meanwhile](shell)
    merged = sorted(tuple(position) for source in merge.sources for position in source.live.to_columns())
    assert merged == sorted([*(tuple(position) for position in ALL), (9, 0)])
    assert shell.core.apply(MergeFailed(merge.effect_id), shell.now) == (meanwhile != "clear")
    shell.core.check()
