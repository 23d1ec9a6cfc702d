"""The changes of one tracker: which are durable, which can be cut, and what becomes of those that wait."""

import asyncio

import pytest

from delayed_tracker.service.storage.tracker_log import STRETCH_SHARE, TrackerLog
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from tests.service.harness.shell import KEY, settle


@pytest.fixture
def log():
    return TrackerLog(KEY, lambda: 1)


def filled(log, *sizes, removed_count=0):
    """Add a record of each size."""
    for size in sizes:
        log.add(log.last_number + 1, b"x" * size, removed_count=removed_count)
    return log


def test_only_what_a_caller_waits_for_is_waited_for(log):
    """Consumed positions do not move the number that an add waits for."""
    filled(log, 5)
    filled(log, 3, removed_count=4)
    assert (log.last_number, log.waited_number, log.unwritten_removed_count) == (2, 1, 4)
    assert log.unwritten() == (1, (b"xxxxx", b"xxx"), 8)


def test_what_is_written_no_longer_waits(log):
    """A commit may contain only the first records; the others keep their numbers."""
    filled(log, 5)
    filled(log, 3, 2, removed_count=4)
    assert log.written(2) == 4
    assert log.unwritten() == (3, (b"xx",), 2)
    assert (log.durable_number, log.unwritten_removed_count, log.log_bytes) == (2, 4, 10)
    assert log.written(3) == 4
    assert log.unwritten() == (4, (), 0)


def test_the_memory_for_sizes_is_bounded(log):
    """Commits are counted together: a cut then frees a thirty-second part too little at most, and everything in the end."""
    commits = 100_000
    for _ in range(commits):
        filled(log, 39, removed_count=1).written(log.last_number)
    assert len(log._stored) < 400
    assert log.log_bytes == log.cuttable_bytes(commits) == 39 * commits
    for through in range(0, commits, 7_777):
        assert 39 * (through - commits / STRETCH_SHARE) <= log.cuttable_bytes(through) <= 39 * through
    freed = log.forget_through(commits // 2)
    assert log.log_bytes == 39 * commits - freed
    assert log.forget_through(commits) == 39 * commits - freed
    assert log.log_bytes == 0


def test_a_cut_frees_whole_commits(log):
    """A commit that ends above the cut is counted until a later cut has all of it."""
    for sizes in ((5, 5), (7,), (1, 1)):
        filled(log, *sizes)
        log.written(log.last_number)
    assert [log.cuttable_bytes(through) for through in range(6)] == [0, 0, 10, 17, 17, 19]
    assert log.forget_through(4) == 17
    assert (log.log_bytes, log.cuttable_bytes(5)) == (2, 2)
    assert log.forget_through(4) == 0


def test_what_a_recovery_found_is_cut_as_one(log):
    """The numbers go on from it."""
    log.begin(7, 100)
    filled(log, 5)
    assert log.unwritten()[0] == 8
    assert (log.log_bytes, log.cuttable_bytes(6), log.cuttable_bytes(7)) == (105, 0, 100)
    assert log.forget_through(7) == 100


async def test_a_wait_ends_with_the_commit_that_has_its_number(log):
    """Not with an earlier one; what is durable already waits for nothing."""
    filled(log, 1, 1)
    first, second = (asyncio.create_task(log.until_durable(number)) for number in (1, 2))
    await settle()
    log.written(1)
    await first
    assert not second.done()
    log.written(2)
    await second
    await log.until_durable(2)


async def test_a_failed_commit_ends_every_wait_and_keeps_the_records(log):
    """The outcome is unknown to the callers; the records are written again."""
    filled(log, 1, 1)
    waits = [asyncio.create_task(log.until_durable(number)) for number in (1, 2)]
    await settle()
    log.fail_waiters(StorageUnavailable("disk full"))
    for error in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(error, StorageUnavailable)
        assert "disk full" in error.message
    assert len(log.unwritten()[1]) == 2


async def test_a_tracker_that_is_given_up_ends_its_waits(log):
    """Also later ones; what it consumed is subtracted from the window."""
    filled(log, 1)
    filled(log, 1, removed_count=4)
    waiting = asyncio.create_task(log.until_durable(1))
    await settle()
    assert log.lose() == 4
    assert (log.unwritten_removed_count, log.is_lost) == (0, True)
    for refused in (waiting, log.until_durable(2)):
        with pytest.raises(SnapshotConflict, match="closed or taken over"):
            await refused


async def test_a_caller_that_goes_away_leaves_no_wait(log):
    """A cancelled wait disturbs no commit."""
    filled(log, 1)
    waiting = asyncio.create_task(log.until_durable(1))
    await settle()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not log._waiters
    log.written(1)
    assert log.durable_number == 1
