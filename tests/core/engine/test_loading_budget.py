"""Rows that a drained bucket loads or has loaded do not count against the limit of loaded indexes."""

from dataclasses import replace

import pytest

from delayed_tracker.core.engine.effects import LoadSegments, MergeSnapshots
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import Shell, positions

LIMITS = TrackerLimits(
    strict=True,
    max_indexes_per_segment=1,
    prefetch_window_ms=1_000,
    load_indexes_max=1,
    loaded_indexes_max=1,
)
DUE_MS = 3_000
FIRST, SECOND = 1, 2
"""The ledgers of two buckets; the second is loaded when there is room for it."""


def loading_shell(limits: TrackerLimits = LIMITS) -> tuple[Shell, int]:
    """Lease one position of the first bucket and start the load of the other, which takes all the room.

    Return the lease.
    """
    shell = Shell.with_limits(limits)
    for rows in ([(DUE_MS, FIRST, 0), (DUE_MS + 20, FIRST, 1)], [(DUE_MS + 30, SECOND, 0), (DUE_MS + 31, SECOND, 1)]):
        shell.add(*rows)
        shell.core.seal_mutable_bucket(shell.now)
        shell.store()
    shell.add((DUE_MS - 1, 3, 0), (DUE_MS + 10, 3, 1))
    shell.pass_time(DUE_MS - shell.now_ms)
    # Bits are cleared together, and not before the last lease has ended.
    assert len(shell.pop(1, lease_ms=60_000).indexes) == 1
    shell.load()
    delivery = shell.pop(lease_ms=60_000)
    assert [*delivery.indexes.positions] == [(FIRST, 0)]
    (load,) = shell.asked(LoadSegments)
    assert (load.bucket_id, load.first) == (1, 1)
    return shell, delivery.lease_id


@pytest.mark.parametrize("how", ["acknowledged", "acknowledged whole"])
def test_a_load_for_a_drained_bucket_leaves_its_room_at_once(how: str) -> None:
    """The second bucket is loaded without waiting for the result of an obsolete load."""
    shell, lease_id = loading_shell()
    shell.core.cancel(positions((FIRST, 1)), shell.now)
    leased = positions((FIRST, 0)) if how == "acknowledged whole" else positions((FIRST, 0), (9, 9))
    shell.core.ack(lease_id, leased, shell.now)
    shell.core.check()
    assert shell.asked(LoadSegments)[-1].bucket_id == 2


def test_a_load_for_a_bucket_that_drains_while_it_is_merged_leaves_its_room_at_once() -> None:
    """The bucket stays until its merge has ended, and loads nothing more."""
    shell, lease_id = loading_shell(replace(LIMITS, max_num_buckets=1))
    assert len([effect for effect in shell.pending if isinstance(effect, MergeSnapshots)]) == 1
    shell.core.cancel(positions((FIRST, 1)), shell.now)
    shell.core.ack(lease_id, positions((FIRST, 0)), shell.now)
    shell.core.check()
    assert shell.asked(LoadSegments)[-1].bucket_id == 2
    assert shell.core.next_delivery_ms() == DUE_MS + 10
    shell.load()  # of the first bucket, which ignores it
    assert shell.core.stats().loaded_count == 1


def test_removed_copies_of_a_drained_bucket_leave_their_room_at_once() -> None:
    """The removed copy of a cancelled position counts only until its bucket is known to be drained."""
    shell, lease_id = loading_shell()
    shell.load()
    shell.core.cancel(positions((FIRST, 1)), shell.now)
    shell.core.ack(lease_id, positions((FIRST, 0)), shell.now)
    shell.core.check()
    assert shell.asked(LoadSegments)[-1].bucket_id == 2
