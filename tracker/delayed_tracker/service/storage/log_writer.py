"""Writes the changes of all trackers to the add log: one commit after the other, each for every tracker that waits.

While a commit is being written, the next one fills. A change that a caller waits for is written at once. Consumed
positions, for which nobody waits, are written with it, or when the consumption window is half over or half full.

If a commit fails, its outcome is unknown: the callers get StorageUnavailable and repeat their calls, and the same
records are written again, after a pause, until they are durable. After a failed fsync nothing is written any more.
"""

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from typing import Final

from delayed_tracker.core.values.changes import Change, Removed
from delayed_tracker.service.clock import Clock, Timer
from delayed_tracker.service.errors import Overloaded, TrackerKey
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.tracker_log import TrackerLog
from delayed_tracker.service.telemetry.storage_log import AddLogEvents
from delayed_tracker.storage.add_log import AddLog, LogAppend
from delayed_tracker.storage.codec.log_records import encode_change
from delayed_tracker.storage.errors import LogBroken, StorageError, StorageUnavailable

_COMMIT_BYTES_MAX: Final = 8 * 2**20
"""A commit takes no further tracker from this size on, so that none waits long for its commit."""
_BACKOFF_MAX_MS: Final = 5_000
_CONSUMPTION_SHARE: Final = 1.25
"""Consumed positions are accepted until the log has this multiple of its limit: they are what makes it shorter."""
_ALONE_SHARE: Final = 2
"""A tracker adds until it has this multiple of what is left for all others."""


class LogWriter:
    """The add log of one process, and what waits to be written to it.

    Args:
        log: started by the owner of this object.
        limits: bounds of the log, of what waits, and of the consumption window.
        clock: for pauses and the window.
        rng: for the jitter of pauses.
        writer: name of this process, as in catalogues.
        fenced: called when another process has taken over a tracker.
    """

    def __init__(
        self,
        log: AddLog,
        limits: ServiceLimits,
        *,
        clock: Clock,
        rng: random.Random,
        writer: str,
        fenced: Callable[[TrackerKey], None],
    ) -> None:
        self.log = log
        self.name = writer
        self.limits = limits
        self.failure: StorageError | None = None
        """Error of the last commit, if it failed: the log is not being written."""
        self.pending_bytes = 0
        """Bytes that wait to be written."""
        self.log_bytes = 0
        """Bytes of the records that the log has, and of those that wait."""
        self.unwritten_removed_count = 0
        """Consumed positions that wait to be written: a crash now would hand them out again."""
        self.commit_count = 0
        self.record_count = 0
        self.failed_count = 0
        """Commits that failed."""
        self._clock = clock
        self._rng = rng
        self._fenced = fenced
        self._events = AddLogEvents(clock)
        self._waiting: dict[TrackerLog, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._window_timer: Timer | None = None
        self._window_begun_ms: float | None = None
        """Time of the first consumed position that waits for the next commit."""
        self._commit_window_begun_ms: float | None = None
        """The same of the commit that is being written."""
        self._window_waiters: list[asyncio.Future[None]] = []
        self._closing = False
        self._try_again = asyncio.Event()
        """Set when the pause after a failed commit is over."""
        self.committed: Callable[[TrackerLog], None] = lambda _log: None
        """Called for each tracker whose records became durable."""

    @property
    def is_broken(self) -> bool:
        """True if nothing is written until the service is restarted."""
        return isinstance(self.failure, LogBroken)

    def _require_unbroken(self) -> None:
        if isinstance(self.failure, LogBroken):
            raise self.failure

    # -- bounds ------------------------------------------------------------------------------------------------------

    def require_room(self, tracker: TrackerLog) -> None:
        """Refuse what would make the log longer while it is full, or while too much waits to be written.

        A tracker is refused alone once it has twice as many bytes as are left for all others: one whose snapshots cannot be
        stored has two thirds of the log at most, and however many there are, they leave room. One that is alone has some
        room between a half, from which on it is sealed and cut, and what it may have.

        Raises:
            LogBroken: nothing is written any more.
            Overloaded: nothing was applied.
        """
        self._require_unbroken()
        if self.log_bytes >= self.limits.add_log_bytes_max:
            raise self._refusal(f"the add log has {self.log_bytes} bytes (addLogBytesMax)")
        left_bytes = self.limits.add_log_bytes_max - self.log_bytes
        if tracker.log_bytes >= _ALONE_SHARE * left_bytes:
            raise self._refusal(
                f"the add log has {tracker.log_bytes} bytes of this tracker that are not in stored snapshots, and {left_bytes} are "
                "left for all others (addLogBytesMax)"
            )
        if self.pending_bytes >= self.limits.add_log_pending_bytes_max:
            raise self._refusal(f"{self.pending_bytes} bytes wait to be written to the add log (addLogPendingBytesMax)")

    def _refusal(self, said: str) -> Overloaded:
        return Overloaded(f"{said}, and nothing was applied", retry_after_ms=self.limits.retry_after_ms)

    @property
    def window_is_full(self) -> bool:
        """True if as many consumed positions are unwritten, or for as long, as a crash may hand out again."""
        if self.log_bytes >= _CONSUMPTION_SHARE * self.limits.add_log_bytes_max:
            return True
        if self.unwritten_removed_count >= self.limits.consumption_window_positions:
            return True
        begun_ms = self._window_begun_ms if self._commit_window_begun_ms is None else self._commit_window_begun_ms
        return begun_ms is not None and self._clock.elapsed_ms() - begun_ms >= self.limits.consumption_window_ms

    async def wait_for_window(self, tracker: TrackerLog) -> None:
        """Wait while :attr:`window_is_full`, or until the tracker is closed.

        Raises:
            LogBroken: nothing is written any more.
        """
        while self.window_is_full and not tracker.is_lost:
            self._require_unbroken()
            self.write_now()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._window_waiters.append(waiter)
            try:
                await waiter
            finally:
                self._window_waiters.remove(waiter)

    # -- records -----------------------------------------------------------------------------------------------------

    def add(self, tracker: TrackerLog, changes: list[Change], last_number: int) -> None:
        """Take the changes of one step of a tracker; the last of them has the number ``last_number``."""
        if tracker.is_lost:
            return
        for number, change in enumerate(changes, last_number - len(changes) + 1):
            record = encode_change(change)
            removed_count = len(change.positions) if isinstance(change, Removed) else 0
            tracker.add(number, record, removed_count=removed_count)
            self.pending_bytes += len(record)
            self.log_bytes += len(record)
            if removed_count:
                self.unwritten_removed_count += removed_count
                self._begin_window()
        self._waiting[tracker] = None
        if 2 * self.unwritten_removed_count >= self.limits.consumption_window_positions:
            # Acknowledgements fill the other half meanwhile, and seldom wait.
            self.write_now()

    def _begin_window(self) -> None:
        if self._window_begun_ms is None:
            self._window_begun_ms = self._clock.elapsed_ms()
            if self._task is None:
                self._window_timer = self._clock.call_later(self.limits.consumption_window_ms / 2, self.write_now)

    def write_now(self) -> None:
        """Begin a commit, if none is being written and something waits."""
        if self._window_timer is not None:
            self._window_timer.cancel()
            self._window_timer = None
        if self._task is None and self._waiting and not self.is_broken:
            # An empty context: the commit does not belong to the call that begins it.
            self._task = asyncio.get_running_loop().create_task(self._write(), context=Context())
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._task is task:  # cancelled before it ran
            self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "the writer of the add log failed", "exception": error})
            if not self._closing:  # after a pause, since a bug may come again at once
                self._clock.call_later(_BACKOFF_MAX_MS, self.write_now)

    async def _write(self) -> None:
        try:
            await self._write_all()
        finally:
            # In the same step as the last look at what waits: what comes later must begin a commit of its own.
            self._task = None

    async def _write_all(self) -> None:
        backoff_ms = float(self.limits.storage_backoff_ms)
        while self._waiting:
            batch, parts = self._batch()
            trackers = [tracker for tracker, _, _ in batch]
            self._commit_window_begun_ms = self._window_begun_ms
            if not self._waiting:  # else consumed positions may be among what this commit leaves
                self._window_begun_ms = None
            try:
                refused = await self.log.append(parts, writer=self.name)
            except StorageError as error:
                self._failed(error, trackers)
                if isinstance(error, LogBroken) or self._closing:
                    return
                await self._pause(backoff_ms * (0.5 + self._rng.random() / 2))
                backoff_ms = min(2 * backoff_ms, _BACKOFF_MAX_MS)
                continue
            except Exception as error:
                self._put_back(trackers, StorageUnavailable(f"an internal error: {error}"))
                raise
            backoff_ms = float(self.limits.storage_backoff_ms)
            self._succeeded(batch, set(refused))

    async def _pause(self, delay_ms: float) -> None:
        """Return after a delay, or when the writer is closed."""
        self._try_again.clear()
        timer = self._clock.call_later(delay_ms, self._try_again.set)
        try:
            await self._try_again.wait()
        finally:
            timer.cancel()

    def _batch(self) -> tuple[list[tuple[TrackerLog, int, int]], list[LogAppend]]:
        batch: list[tuple[TrackerLog, int, int]] = []
        parts: list[LogAppend] = []
        size = 0
        while self._waiting and size < _COMMIT_BYTES_MAX:
            tracker = next(iter(self._waiting))
            del self._waiting[tracker]
            first_number, records, record_bytes = tracker.unwritten()
            size += record_bytes
            batch.append((tracker, first_number + len(records) - 1, record_bytes))
            parts.append(LogAppend(*tracker.key, tracker.epoch(), first_number, records))
        return batch, parts

    def _failed(self, error: StorageError, trackers: list[TrackerLog]) -> None:
        if isinstance(error, LogBroken):
            self._events.broken(error)
        elif self.failure is None:
            self._events.not_written(error)
        self.failure = error
        self.failed_count += 1
        self._put_back(trackers, error)
        if isinstance(error, LogBroken):
            self.call_window_waiters()

    def _put_back(self, trackers: list[TrackerLog], error: StorageError) -> None:
        """Let what was to be written wait again, and end the waits for it. A tracker may have been closed meanwhile."""
        self._waiting = dict.fromkeys(tracker for tracker in trackers if not tracker.is_lost) | self._waiting
        if self._commit_window_begun_ms is not None:  # a failed commit does not begin the window anew
            self._window_begun_ms, self._commit_window_begun_ms = self._commit_window_begun_ms, None
        self._end_empty_window()
        for tracker in list(self._waiting):
            tracker.fail_waiters(error)

    def _succeeded(self, batch: list[tuple[TrackerLog, int, int]], refused: set[tuple[str, str]]) -> None:
        if self.failure is not None:
            self._events.works_again(self.failed_count)
        self.failure = self._commit_window_begun_ms = None
        self.commit_count += 1
        written: list[TrackerLog] = []
        for tracker, last_number, record_bytes in batch:
            if tracker.is_lost:
                continue
            if tracker.key in refused:
                self.retire(tracker)
                self._fenced(tracker.key)
                continue
            self.record_count += last_number - tracker.durable_number
            self.pending_bytes -= record_bytes
            self.unwritten_removed_count -= tracker.written(last_number)
            written.append(tracker)
        self.call_window_waiters()
        for tracker in written:  # all callers have their answers: this may begin to seal
            self.committed(tracker)

    def call_window_waiters(self) -> None:
        """Let those look again who wait for the window: the log has become shorter, or its limit higher."""
        for waiter in self._window_waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- cutting -----------------------------------------------------------------------------------------------------

    async def cut(self, tracker: TrackerLog, through: int) -> bool:
        """Remove records that the catalogue contains. Return False if that failed, which leaves them for the next cut."""
        try:
            await self.log.cut([(*tracker.key, through)])
        except StorageError as error:
            self._events.not_cut(tracker.key, error)
            return False
        self.log_bytes -= tracker.forget_through(through)
        self.call_window_waiters()
        return True

    async def until_durable(self, tracker: TrackerLog, number: int) -> None:
        """Return when a change of a tracker, and all before it, are durable; begin a commit if none is being written.

        Raises:
            StorageUnavailable: the commit failed, and may have been applied or not.
            LogBroken: nothing is written any more.
            SnapshotConflict: another process owns the tracker.
        """
        if number <= tracker.durable_number:
            return
        self._require_unbroken()
        self.write_now()
        await tracker.until_durable(number)

    def retire(self, tracker: TrackerLog) -> None:
        """Give up what is not written of a tracker that is closed; what the log has of it stays counted."""
        self._waiting.pop(tracker, None)
        _, _, record_bytes = tracker.unwritten()
        self.pending_bytes -= record_bytes
        self.unwritten_removed_count -= tracker.lose()
        self._end_empty_window()
        self.call_window_waiters()

    def _end_empty_window(self) -> None:
        """Forget when the window began once nothing is in it: no commit would do so."""
        if not self.unwritten_removed_count:
            self._window_begun_ms = self._commit_window_begun_ms = None

    async def close(self) -> None:
        """Write what waits, without a pause, and return. What could not be written stays unwritten."""
        self._closing = True
        self._try_again.set()
        self.write_now()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._window_timer is not None:
            self._window_timer.cancel()
