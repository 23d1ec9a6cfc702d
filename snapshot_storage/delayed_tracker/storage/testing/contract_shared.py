"""Contract of a storage that several processes share, beyond that of every storage.

One call runs all checks. The factory gets the faults of the storage that it opens, and puts them between the storage and
its store; two storages of one name are two processes that have the same content::

    async def test_shared_contract():
        stores = defaultdict(MemoryObjects)
        await check_shared_storage(lambda name, faults: ObjectStorage(FaultyObjects(stores[name], faults)))
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.protocol import CatalogueState, SnapshotStore, StoredSnapshot
from delayed_tracker.storage.testing.contract_tools import (
    ContractViolation,
    create,
    entry_of,
    expect,
    require_equal,
    started,
)
from delayed_tracker.storage.testing.shared_faults import SharedFaults

SharedFactory = Callable[[str, SharedFaults], SnapshotStore]
"""Returns the storage of a name, not started, with faults before its store. A name may be open more than once."""

SharedCheck = Callable[[SharedFactory], Awaitable[None]]
"""Returns, or raises ContractViolation."""

LARGE: Final = bytes(range(256)) * 8
"""A value that is too large for the document itself."""


class _Process:
    """One of the processes that share a storage."""

    def __init__(self, store: SnapshotStore, faults: SharedFaults, name: str) -> None:
        self.store = store
        self.faults = faults
        self._name = name

    async def claim(self, epoch: int) -> None:
        """Record an epoch, as an owner that opens the tracker."""
        await self.add(epoch=epoch)

    async def add(self, *bucket_ids: int, epoch: int, summary: bytes = b"summary") -> None:
        """Add entries that depend only on their ids."""
        entries = [replace(entry_of(bucket_id), summary=summary) for bucket_id in bucket_ids]
        await self.store.replace("topic", "cursor", remove=[], add=entries, epoch=epoch, writer=self._name)

    async def require(self, epoch: int, *bucket_ids: int, summary: bytes = b"summary") -> None:
        """Require that the catalogue has this epoch and these entries."""
        entries = tuple(replace(entry_of(bucket_id), summary=summary) for bucket_id in bucket_ids)
        state = await self.store.list("topic", "cursor")
        require_equal(state, CatalogueState(epoch, entries), f"the catalogue as {self._name} sees it")


@contextlib.asynccontextmanager
async def _two(factory: SharedFactory, name: str) -> AsyncIterator[tuple[_Process, _Process]]:
    """Open a storage twice."""
    faults = SharedFaults(), SharedFaults()
    async with (
        started(lambda asked: factory(asked, faults[0]), name) as first,
        started(lambda asked: factory(asked, faults[1]), name) as second,
    ):
        yield _Process(first, faults[0], "first"), _Process(second, faults[1], "second")


async def both_processes_see_a_commit(factory: SharedFactory) -> None:
    """Each process reads at once what the other has committed, large values and snapshots included."""
    async with _two(factory, "seen") as (first, second):
        bucket_id = await create(first.store, [b"1", LARGE])
        await first.add(bucket_id, epoch=1, summary=LARGE)
        await second.require(1, bucket_id, summary=LARGE)
        require_equal(await second.store.get_bucket_snapshot_segments(bucket_id, 1, 2), [b"1", LARGE], "segments")
        await second.store.replace("topic", "cursor", remove=[bucket_id], add=[], epoch=2, mark_delete=Position(1, 2))
        state = await first.store.list("topic", "cursor")
        require_equal(state, CatalogueState(2, mark_delete=Position(1, 2)), "catalogue")


async def the_last_opener_owns_a_tracker(factory: SharedFactory) -> None:
    """A process that has written before does not write any more when another one has recorded a newer epoch."""
    async with _two(factory, "owners") as (first, second):
        await first.add(1, epoch=1)
        await second.claim(2)
        with expect(SnapshotConflict, "a write of the former owner"):
            await first.add(2, epoch=1)
        with expect(SnapshotConflict, "a claim of an epoch that another process has"):
            await first.claim(2)
        await first.claim(3)
        with expect(SnapshotConflict, "a write of the second owner"):
            await second.store.forget("topic", "cursor", epoch=2, writer="second")
        await second.require(3, 1)


async def a_fenced_writers_late_write_changes_nothing(factory: SharedFactory) -> None:
    """A writer that stands between reading and writing while another one takes over is refused."""
    async with _two(factory, "late-writer") as (first, second):
        await first.add(1, epoch=1)
        hold = first.faults.hold("write")
        writing = asyncio.create_task(first.add(2, epoch=1, summary=LARGE))
        await hold.reached.wait()
        await second.add(3, epoch=2)
        hold.go_on.set()
        with expect(SnapshotConflict, "a write of the former owner"):
            await writing
        await second.require(2, 1, 3)


async def a_lost_reply_of_a_commit_is_a_success(factory: SharedFactory) -> None:
    """A commit whose reply is lost is read back, and counts once."""
    async with _two(factory, "lost-reply") as (first, second):
        for number in (1, 2):
            first.faults.drop_reply("write")
            await first.add(number, epoch=number)
        await second.require(2, 1, 2)
        await first.add(3, epoch=2)
        await second.require(2, 1, 2, 3)


async def a_lost_reply_then_anothers_commit_is_a_success(factory: SharedFactory) -> None:
    """A commit whose reply is lost counts, even if a newer owner has committed before it is read back."""
    async with _two(factory, "lost-reply-then") as (first, second):
        await first.claim(1)
        first.faults.drop_reply("write")
        hold = first.faults.hold("read")
        writing = asyncio.create_task(first.add(1, epoch=1))
        await hold.reached.wait()
        await second.add(2, epoch=2)
        await second.add(3, epoch=2)
        hold.go_on.set()
        await writing
        await second.require(2, 1, 2, 3)


async def a_stale_put_is_refused(factory: SharedFactory) -> None:
    """Two writes that began from the same version both count: the second is applied to what the first has left."""
    async with _two(factory, "stale") as (first, second):
        await first.add(1, epoch=1)
        await second.store.list("topic", "cursor")
        hold = first.faults.hold("write")
        writing = asyncio.create_task(first.store.replace("topic", "cursor", remove=[1], add=[entry_of(2)], epoch=1))
        await hold.reached.wait()
        await second.store.replace("topic", "cursor", remove=[], add=[entry_of(3)], epoch=1)
        hold.go_on.set()
        await writing
        await second.require(1, 2, 3)


async def a_new_tracker_belongs_to_one_process(factory: SharedFactory) -> None:
    """Two processes that open a tracker for the first time do not both get the first epoch."""
    async with _two(factory, "new") as (first, second):
        hold = first.faults.hold("write")
        claiming = asyncio.create_task(first.claim(1))
        await hold.reached.wait()
        await second.claim(1)
        hold.go_on.set()
        with expect(SnapshotConflict, "a claim that came second"):
            await claiming
        await second.add(1, epoch=1)
        await first.require(1, 1)


async def a_late_write_of_a_failed_call_changes_nothing_newer(factory: SharedFactory) -> None:
    """A write that reaches the store after its call has failed does not undo what was written meanwhile."""
    async with _two(factory, "late-write") as (first, second):
        await first.add(1, epoch=1)
        hold = first.faults.deliver_late("write")
        with expect(StorageUnavailable, "a write that is on its way for too long"):
            await first.add(2, epoch=1)
        await second.add(3, epoch=2)
        hold.go_on.set()
        await first.faults.late_operations()
        await second.require(2, 1, 3)


async def a_late_write_and_its_repetition_count_once(factory: SharedFactory) -> None:
    """A write that reaches the store before its repetition is repeated, and the result is the same."""
    async with _two(factory, "repeated") as (first, second):
        await first.add(1, epoch=1)
        hold = first.faults.deliver_late("write")
        with expect(StorageUnavailable, "a write that is on its way for too long"):
            await first.add(2, epoch=1, summary=LARGE)
        hold.go_on.set()
        await first.faults.late_operations()
        await first.store.replace("topic", "cursor", remove=[1, 2], add=[entry_of(2)], epoch=1, writer="first")
        await second.require(1, 2)


async def a_failure_at_any_step_leaves_all_or_nothing(factory: SharedFactory) -> None:
    """Whichever operation of a commit fails, before or after it was done, the catalogue has all of the commit or none."""
    async with _two(factory, "steps") as (first, second):
        await first.add(1, epoch=1, summary=LARGE)
        present: tuple[int, ...] = (1,)
        plans = [(kind, plan) for kind in ("read", "put", "write") for plan in ("fail_before", "drop_reply")]
        for number, (kind, plan) in enumerate(plans, 2):
            # Another process has written, so that the commit must read first.
            await second.store.replace("topic", "cursor", remove=[], add=[], epoch=number, mark_delete=None)
            getattr(first.faults, plan)(kind)
            try:
                await first.add(number, epoch=number, summary=LARGE)
            except StorageUnavailable:
                await second.require(number, *present, summary=LARGE)
                await first.add(number, epoch=number, summary=LARGE)
            present = (*present, number)
            await second.require(number, *present, summary=LARGE)


async def a_reader_sees_one_version(factory: SharedFactory) -> None:
    """A catalogue that is replaced while its large values are read is read anew."""
    async with _two(factory, "reader") as (first, second):
        await first.add(1, epoch=1, summary=LARGE)
        hold = second.faults.hold("get")
        reading = asyncio.create_task(second.store.list("topic", "cursor"))
        await hold.reached.wait()
        await first.store.replace("topic", "cursor", remove=[1], add=[entry_of(2)], epoch=1)
        await first.store.close()
        hold.go_on.set()
        require_equal(await reading, CatalogueState(1, (entry_of(2),)), "catalogue")


async def commits_of_two_processes_all_count(factory: SharedFactory) -> None:
    """No commit of a process undoes one of another process that ran at the same time."""
    async with _two(factory, "concurrent") as (first, second):
        for batch in range(5):
            ids = [batch * 8 + number for number in range(1, 9)]
            await asyncio.gather(
                *(
                    (first, second)[bucket_id % 2].store.replace(
                        "topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=1
                    )
                    for bucket_id in ids
                )
            )
        await first.require(1, *range(1, 41))
        await second.require(1, *range(1, 41))


async def trackers_of_all_processes_are_listed(factory: SharedFactory) -> None:
    """Trackers are listed by every process, and not by any once one has forgotten them."""
    async with _two(factory, "trackers") as (first, second):
        for number, process in enumerate((first, second, first)):
            await process.store.replace(f"topic {number}", "x" * 300, remove=[], add=[], epoch=1)
        await second.store.forget("topic 0", "x" * 300, epoch=2)
        listed = [("topic 1", "x" * 300), ("topic 2", "x" * 300)]
        for process in (first, second):
            require_equal(await process.store.trackers(), listed, "trackers")
        await first.store.replace("topic 0", "x" * 300, remove=[], add=[], epoch=3)
        require_equal(await second.store.trackers(), [("topic 0", "x" * 300), *listed], "trackers")


async def a_listing_that_lags_loses_nothing(factory: SharedFactory) -> None:
    """A process whose listings lag reads all that is in the catalogue; it sweeps less, and nothing that it should not."""
    async with _two(factory, "lag") as (first, second):
        older = await create(first.store, [b"older"])
        require_equal(
            await second.store.list_bucket_snapshots("topic", "cursor"), [StoredSnapshot(older, 1)], "listing"
        )
        second.faults.lag()
        bucket_id = await create(first.store, [b"1"], epoch=2)
        await first.add(bucket_id, epoch=2, summary=LARGE)
        await second.require(2, bucket_id, summary=LARGE)
        require_equal(await second.store.get_bucket_snapshot_segments(bucket_id, 1, 1), [b"1"], "segments")
        await second.claim(3)
        await first.require(3, bucket_id, summary=LARGE)
        await second.store.delete_bucket_snapshot(older)
        require_equal(await second.store.list_bucket_snapshots("topic", "cursor"), [], "listing after a delete")


async def a_create_in_flight_is_spared(factory: SharedFactory) -> None:
    """A commit of the same epoch deletes nothing of one that is under way, nor does a listing show its snapshot."""
    async with _two(factory, "in-flight") as (first, second):
        await first.claim(1)
        creating_hold = first.faults.hold("put")
        creating = asyncio.create_task(create(first.store, [b"1"]))
        await creating_hold.reached.wait()
        require_equal(await second.store.list_bucket_snapshots("topic", "cursor"), [], "listing meanwhile")
        creating_hold.go_on.set()
        bucket_id = await creating
        hold = first.faults.hold("write")
        adding = asyncio.create_task(first.add(bucket_id, epoch=1, summary=LARGE))
        await hold.reached.wait()
        await second.store.replace("topic", "cursor", remove=[bucket_id], add=[], epoch=1)
        hold.go_on.set()
        await adding
        await second.require(1, bucket_id, summary=LARGE)


async def a_create_whose_reply_is_lost_is_whole_or_absent(factory: SharedFactory) -> None:
    """A snapshot that is listed after a failed create is whole, and carries the epoch of the create."""
    async with _two(factory, "lost-create") as (first, second):
        for epoch, plan in enumerate((first.faults.fail_before, first.faults.drop_reply), 1):
            plan("put")
            with expect(StorageUnavailable, "a create without a reply"):
                await create(first.store, [b"1", b"2"], epoch=epoch)
            for stored in await second.store.list_bucket_snapshots("topic", "cursor"):
                require_equal(stored.epoch, epoch, "epoch")
                segments = await second.store.get_bucket_snapshot_segments(stored.bucket_id, 1, 2)
                require_equal(segments, [b"1", b"2"], "segments")


SHARED_CHECKS: Final[tuple[SharedCheck, ...]] = (
    both_processes_see_a_commit,
    the_last_opener_owns_a_tracker,
    a_fenced_writers_late_write_changes_nothing,
    a_lost_reply_of_a_commit_is_a_success,
    a_lost_reply_then_anothers_commit_is_a_success,
    a_stale_put_is_refused,
    a_new_tracker_belongs_to_one_process,
    a_late_write_of_a_failed_call_changes_nothing_newer,
    a_late_write_and_its_repetition_count_once,
    a_failure_at_any_step_leaves_all_or_nothing,
    a_reader_sees_one_version,
    commits_of_two_processes_all_count,
    trackers_of_all_processes_are_listed,
    a_listing_that_lags_loses_nothing,
    a_create_in_flight_is_spared,
    a_create_whose_reply_is_lost_is_whole_or_absent,
)
"""Every check of a shared storage, named after its requirement."""


async def check_shared_storage(factory: SharedFactory) -> None:
    """Run every check, one after the other.

    Raises:
        ContractViolation: by the first check that fails; the message begins with its name.
    """
    for check in SHARED_CHECKS:
        try:
            await check(factory)
        except ContractViolation as violation:
            raise ContractViolation(f"{check.__name__}: {violation}") from violation
