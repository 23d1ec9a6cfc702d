"""Adoptions that are taken back: a run that ends at any operation is completed by the next one."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from delayed_tracker.cluster.adoption_undo import AdoptedTracker, take_adoption_back
from delayed_tracker.storage.maintenance.opening import opened_storage
from tests.snapshot_storage.shared.maintenance.stores import KEY, add_bucket, at_once

EPOCH = 3
OPERATIONS = ("list", "forget", "list snapshots", "delete one", "delete the other")


class Killed(Exception):
    """The end of a run."""


def killed_at(number: int, *, after: bool) -> Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]:
    """Return an attempt whose nth operation ends the run, before or after it is performed."""
    count = 0

    async def attempt(operation: Callable[[], Awaitable[object]]) -> object:
        nonlocal count
        count += 1
        if count == number and not after:
            raise Killed
        answer = await operation()
        if count == number:
            raise Killed
        return answer

    return attempt


@pytest.fixture(params=["sqlite:{}/tracker.db", "file://{}/tracker"])
async def adopted(request, tmp_path: Path) -> AdoptedTracker:
    """Return a tracker with two adopted buckets."""
    url = request.param.format(tmp_path)
    async with opened_storage("--to", url, creates=True) as storage:
        for ledger in (1, 2):
            await add_bucket(storage.snapshots, ledger, epoch=EPOCH, seal=ledger)
    return AdoptedTracker(url, *KEY, EPOCH)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, len(OPERATIONS) + 1))
async def test_a_run_that_was_killed_is_completed_by_the_next_one(adopted: AdoptedTracker, number: int, after: bool):
    """Entries and snapshots are gone, whatever the first run had done; a third one finds nothing."""
    with pytest.raises(Killed):
        await take_adoption_back(adopted, attempt=killed_at(number, after=after))
    is_complete = after and number == len(OPERATIONS)
    assert await take_adoption_back(adopted, attempt=at_once) is not is_complete
    assert not await take_adoption_back(adopted, attempt=at_once)
    async with opened_storage("FILE", adopted.storage) as storage:
        state = await storage.snapshots.list(*KEY)
        assert (state.entries, state.corrupt, state.epoch) == ((), (), EPOCH + 1)
        assert await storage.snapshots.list_bucket_snapshots(*KEY) == []


async def test_an_owner_that_has_removed_the_buckets_keeps_its_snapshots(adopted: AdoptedTracker):
    """Its next write may restore what it has removed. Its epoch is the one that a run would have taken."""
    async with opened_storage("--to", adopted.storage) as storage:
        ids = [entry.bucket_id for entry in (await storage.snapshots.list(*KEY)).entries]
        await storage.snapshots.replace(*KEY, remove=ids, add=(), epoch=EPOCH + 1, writer="owner")
    assert not await take_adoption_back(adopted, attempt=at_once)
    async with opened_storage("--to", adopted.storage) as storage:
        assert {stored.bucket_id for stored in await storage.snapshots.list_bucket_snapshots(*KEY)} == set(ids)
