"""Catalogue, snapshots and log records of one tracker that is not loaded, as the storage has them.

Shared by its recovery and its removal. Nothing else in this process writes to the tracker meanwhile.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import Fenced, TrackerKey, TrackerNotOpen
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.storage.add_log import LogExtent
from delayed_tracker.storage.concurrent import all_answers
from delayed_tracker.storage.errors import SnapshotConflict, StorageError
from delayed_tracker.storage.maintenance.claiming import CLAIM_ATTEMPTS_MAX
from delayed_tracker.storage.protocol import NO_LOG, CatalogueState, LogMark

Answer = TypeVar("Answer")

OPERATIONS_AT_ONCE_MAX: Final = 8
"""Operations of one tracker that are under way at the same time."""
_FIRST_EPOCH: Final = 1


class StoredTracker:
    """A tracker in the storage.

    Args:
        key: of the tracker.
        access: to the storage and its log.
        counters: retries and deletions are counted here.
    """

    def __init__(self, key: TrackerKey, access: StorageAccess, counters: EffectCounters) -> None:
        self._key = key
        self._access = access
        self._storage = access.storage
        self._counters = counters

    async def attempt(self, operation: Callable[[], Awaitable[Answer]]) -> Answer:
        """Perform an idempotent operation as :meth:`StorageAccess.attempt`, with the counters of this tracker."""
        return await self._access.attempt(operation, self._counters)

    async def state(self) -> CatalogueState:
        """Return what the catalogue has.

        Raises:
            StorageUnavailable: try again.
        """
        return await self.attempt(lambda: self._storage.list(*self._key))

    async def state_at(self, epoch: int) -> CatalogueState:
        """Return what the catalogue has, for the owner of the last epoch.

        Raises:
            TrackerNotOpen: the tracker was never opened.
            Fenced: the catalogue has another epoch.
            StorageUnavailable: try again.
        """
        state = await self.state()
        if not state.epoch:
            raise TrackerNotOpen(self._key, stored=False)
        if epoch != state.epoch:
            raise self.fenced(epoch, state)
        return state

    def fenced(self, epoch: int, state: CatalogueState) -> Fenced:
        """Return the error of a caller with another epoch than the catalogue's."""
        return Fenced(self._key, given_epoch=epoch, epoch=state.epoch, owner="")

    async def take_over(self, epoch: int) -> LogExtent | None:
        """Fence the add log, so that no earlier owner can append, and return what it has; None if there is none."""
        log = self._access.log
        if log is None:
            return None
        return await self.attempt(lambda: log.take_over(*self._key, epoch=epoch, writer=self._access.writer))

    async def take_over_above(self, state: CatalogueState) -> tuple[int, LogExtent | None]:
        """Fence the add log under the epoch after the catalogue's, before the catalogue has it.

        A process that has done the same, and has died before it wrote to the catalogue, has left its epoch in the log: then
        the next one is taken, as long as the catalogue shows that nobody has opened the tracker.

        Returns:
            the epoch, and what the log has; None if there is none.
        Raises:
            Fenced: the catalogue has another epoch now.
            SnapshotConflict: other processes keep writing newer epochs.
            StorageUnavailable: try again.
        """
        epoch = state.epoch + 1
        for attempts_left in reversed(range(CLAIM_ATTEMPTS_MAX)):
            try:
                return epoch, await self.take_over(epoch)
            except SnapshotConflict as error:
                if error.epoch is None or not attempts_left:
                    raise
                epoch = error.epoch + 1
            if (now := await self.state()).epoch != state.epoch:
                raise self.fenced(state.epoch, now)
        raise AssertionError("the last attempt returns or raises")

    def void_mark(self, state: CatalogueState, extent: LogExtent | None) -> LogMark:
        """Return the mark under which no record and no claim counts, of this log or of another."""
        if extent is None:
            return state.log_mark if state.log_mark in {LogMark(), LogMark(log=NO_LOG)} else LogMark(log=NO_LOG)
        is_own = state.log_mark.log == self._access.log_id
        return LogMark(
            max(extent.last_number, state.log_mark.number if is_own else 0),
            log=self._access.log_id,
        )

    async def record_mark(self, state: CatalogueState, mark: LogMark) -> None:
        """Record what the catalogue contains of the add log."""
        record = partial(
            self._storage.replace,
            *self._key,
            remove=(),
            add=(),
            epoch=state.epoch,
            writer=self._access.writer,
            mark=mark,
        )
        await self.attempt(record)

    async def delete_all(
        self, state: CatalogueState, extent: LogExtent | None, *, epoch: int, mark_delete: Position
    ) -> None:
        """Empty the catalogue and make the log's records void, in one step; then delete the snapshots and the records.

        After a crash between the two, the next recovery sweeps the orphans.
        """
        ids = [*(entry.bucket_id for entry in state.entries), *state.corrupt]
        void = self.void_mark(state, extent)
        if ids or epoch > state.epoch or void != state.log_mark:
            await self.attempt(
                lambda: self._storage.replace(
                    *self._key,
                    remove=ids,
                    add=(),
                    epoch=epoch,
                    writer=self._access.writer,
                    mark_delete=mark_delete,
                    mark=void,
                )
            )
        if (log := self._access.log) is not None and void.number:
            await self.attempt(lambda: log.cut([(*self._key, void.number)]))
        await self.delete_snapshots(epoch)

    async def delete_snapshots(self, own_epoch: int) -> None:
        """Delete every snapshot of an older epoch than the one that this process has recorded."""
        older = await self._snapshots_before(own_epoch)
        await all_answers([partial(self._delete, bucket_id) for bucket_id in older], at_once=OPERATIONS_AT_ONCE_MAX)
        self._counters.snapshots_deleted += len(older)

    async def sweep(self, state: CatalogueState) -> None:
        """Delete the snapshots of older epochs that no catalogue entry names, which a crash left.

        The next recovery retries failed deletions.
        """
        if state.epoch == _FIRST_EPOCH:
            return  # nobody had the tracker before
        referenced = {entry.bucket_id for entry in state.entries}.union(state.corrupt)
        orphans = [bucket_id for bucket_id in await self._snapshots_before(state.epoch) if bucket_id not in referenced]
        swept = await all_answers(
            [partial(self._try_to_delete, bucket_id) for bucket_id in orphans], at_once=OPERATIONS_AT_ONCE_MAX
        )
        self._counters.orphans_swept += swept.count(True)
        self._counters.orphans_left += swept.count(False)

    async def _snapshots_before(self, epoch: int) -> list[int]:
        """Return the snapshots that no writer can commit any more, since ``epoch`` is recorded.

        Those of newer epochs belong to an owner that has taken the tracker over meanwhile.
        """
        stored = await self.attempt(lambda: self._storage.list_bucket_snapshots(*self._key))
        return [snapshot.bucket_id for snapshot in stored if snapshot.epoch < epoch]

    async def _try_to_delete(self, bucket_id: int) -> bool:
        try:
            await self._delete(bucket_id)
        except StorageError:
            return False
        return True

    async def _delete(self, bucket_id: int) -> None:
        await self.attempt(lambda: self._storage.delete_bucket_snapshot(bucket_id))
