"""Changes of one tracker on their way to the add log, and the calls that wait for them."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.storage.errors import SnapshotConflict, StorageError, StorageUnavailable

_EMPTY: deque[tuple[int, int]] = deque()  # shared by idle trackers; never changed
STRETCH_SHARE: Final = 32
"""Commits are counted together up to this part of a tracker's log: one by one, they would take more memory than their records.

That leaves at most some hundred numbers for a log of gigabytes.
"""


class TrackerLog:
    """Numbers of one tracker's changes: made, durable, and needed no more.

    Args:
        key: of the tracker.
        epoch: returns the epoch in force, under which the next commit is made.
    """

    __slots__ = (
        "_lost",
        "_pending",
        "_removed",
        "_stored",
        "_waiters",
        "durable_number",
        "epoch",
        "key",
        "last_number",
        "log_bytes",
        "waited_number",
    )

    def __init__(self, key: TrackerKey, epoch: Callable[[], int]) -> None:
        self.key = key
        self.epoch = epoch
        self.last_number = 0
        """Number of the last change."""
        self.durable_number = 0
        """Number of the last change that no crash undoes."""
        self.waited_number = 0
        """Number of the last change whose call may be answered only when it is durable."""
        self.log_bytes = 0
        """Bytes of the records that are not cut."""
        self._pending: list[bytes] = []
        self._removed: deque[tuple[int, int]] = _EMPTY
        self._stored: deque[tuple[int, int]] = _EMPTY
        """Number of the last record of each stretch, a commit or several, and its bytes."""
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._lost = False

    def begin(self, last_number: int, log_bytes: int) -> None:
        """Set the last number and the size of the log, as the recovery found them."""
        self.last_number = self.durable_number = self.waited_number = last_number
        self.log_bytes = log_bytes
        self._stored = deque([(last_number, log_bytes)]) if log_bytes else _EMPTY

    @property
    def is_written(self) -> bool:
        """True if every change is durable."""
        return self.durable_number == self.last_number and not self._lost

    def rest(self) -> None:
        """Forget the sizes of the single records; :meth:`begin` sets them anew. Every change is durable."""
        assert self.is_written
        self._stored = _EMPTY

    def add(self, number: int, record: bytes, *, removed_count: int) -> None:
        """Take the record of the next change."""
        assert number == self.last_number + 1
        self.last_number = number
        self._pending.append(record)
        self.log_bytes += len(record)
        if removed_count:
            if self._removed is _EMPTY:
                self._removed = deque()
            self._removed.append((number, removed_count))
        else:
            self.waited_number = number

    def unwritten(self) -> tuple[int, Sequence[bytes], int]:
        """Return the number of the first record that is not known to be durable, these records, and their bytes."""
        return self.durable_number + 1, tuple(self._pending), sum(map(len, self._pending))

    def written(self, through: int) -> int:
        """Note that the records up to a number are durable; return the number of consumed positions in them."""
        count = through - self.durable_number
        record_bytes = sum(map(len, self._pending[:count]))
        del self._pending[:count]
        self.durable_number = through
        if self._stored is _EMPTY:
            self._stored = deque()
        if self._stored and self._stored[-1][1] + record_bytes <= self.log_bytes // STRETCH_SHARE:
            record_bytes += self._stored.pop()[1]
        self._stored.append((through, record_bytes))
        removed_count = 0
        while self._removed and self._removed[0][0] <= through:
            removed_count += self._removed.popleft()[1]
        self._wake(lambda number: number <= through, None)
        return removed_count

    def fail_waiters(self, error: StorageError) -> None:
        """End every wait: the commit failed, and may have been applied or not."""
        self._wake(
            lambda _: True,
            StorageUnavailable(
                f"the add log was not written ({error.message}): it is unknown whether the call took effect; repeat it"
            ),
        )

    def lose(self) -> int:
        """Give up all records that are not durable; return the number of consumed positions in them."""
        self._lost = True
        self._pending.clear()
        removed_count = self.unwritten_removed_count
        self._removed = _EMPTY
        self._wake(
            lambda _: True,
            self._lost_error(),
        )
        return removed_count

    @property
    def unwritten_removed_count(self) -> int:
        """Consumed positions of this tracker that wait to be written."""
        return sum(count for _, count in self._removed)

    @property
    def is_lost(self) -> bool:
        """True if nothing more of this tracker is written."""
        return self._lost

    def cuttable_bytes(self, through: int) -> int:
        """Return the bytes of the stretches that end at or before a number."""
        return sum(size for _, size in takewhile(lambda commit: commit[0] <= through, self._stored))

    def forget_through(self, through: int) -> int:
        """Note a cut; return the bytes that it has freed, without those of a stretch that it has reached in part."""
        freed = 0
        while self._stored and self._stored[0][0] <= through:
            freed += self._stored.popleft()[1]
        self.log_bytes -= freed
        return freed

    async def until_durable(self, number: int) -> None:
        """Return when the change with this number, and all before it, are durable.

        Raises:
            StorageUnavailable: the commit failed, and may have been applied or not.
            SnapshotConflict: another process owns the tracker.
        """
        if number <= self.durable_number:
            return
        if self._lost:
            raise self._lost_error()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((number, waiter))
        try:
            await waiter
        finally:
            self._waiters.remove((number, waiter))

    def _lost_error(self) -> SnapshotConflict:
        return SnapshotConflict(
            f"the tracker of subscription {self.key} was closed or taken over before its add log was written; open it again"
        )

    def _wake(self, chosen: Callable[[int], bool], error: StorageError | None) -> None:
        for number, waiter in self._waiters:
            if chosen(number) and not waiter.done():
                if error is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(error)
