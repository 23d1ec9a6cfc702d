"""The add log as one open tracker uses it: its changes on their way to the log, and what its calls wait for."""

from collections.abc import Callable

from delayed_tracker.core.values.changes import Change
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.log_writer import LogWriter
from delayed_tracker.service.storage.tracker_log import TrackerLog


class DurableChanges:
    """The part of the add log that belongs to one tracker.

    Args:
        key: of the tracker.
        epoch: returns the epoch in force, under which the next commit is made.
        writer: of the log.
    """

    __slots__ = ("_log", "_writer")

    def __init__(self, key: TrackerKey, epoch: Callable[[], int], writer: LogWriter) -> None:
        self._log = TrackerLog(key, epoch)
        self._writer = writer

    def begin(self, last_number: int, log_bytes: int) -> None:
        """Set the last number and the size of the log, as the recovery found them."""
        self._log.begin(last_number, log_bytes)

    def rest(self) -> None:
        """Forget what only an open tracker needs; :meth:`begin` sets it anew. Every change is durable."""
        self._log.rest()

    def retire(self) -> None:
        """Give up what is not written of a tracker that is closed; what the log has of it stays counted."""
        self._writer.retire(self._log)

    @property
    def is_written(self) -> bool:
        """True if every change is durable."""
        return self._log.is_written

    @property
    def log_fails(self) -> bool:
        """True if the last commit of the log failed."""
        return self._writer.failure is not None

    @property
    def log_bytes(self) -> int:
        """Bytes of the records that are not cut."""
        return self._log.log_bytes

    @property
    def waited_number(self) -> int:
        """Number of the last change whose call may be answered only when it is durable."""
        return self._log.waited_number

    @property
    def unwritten_removed_count(self) -> int:
        """Consumed positions that wait to be written: a crash now would hand them out again."""
        return self._log.unwritten_removed_count

    def require_room(self) -> None:
        """Refuse what would make the log longer while it is full; see ``LogWriter.require_room``."""
        self._writer.require_room(self._log)

    async def wait_for_window(self) -> None:
        """Wait while too many consumed positions are unwritten; see ``LogWriter.wait_for_window``."""
        await self._writer.wait_for_window(self._log)

    @property
    def window_is_full(self) -> bool:
        """True if :meth:`wait_for_window` would wait now."""
        return self._writer.window_is_full

    def record(self, changes: list[Change], last_number: int) -> None:
        """Take the changes of one step; the last of them has the number ``last_number``."""
        self._writer.add(self._log, changes, last_number)

    def require_all(self) -> None:
        """Let the calls that wait for durable changes wait for the last one, too, whatever it is."""
        self._log.waited_number = self._log.last_number

    async def until_durable(self, number: int | None = None) -> None:
        """Return when a change, by default the last one, and all before it, are durable; see ``LogWriter``."""
        await self._writer.until_durable(self._log, self._log.last_number if number is None else number)

    def cuttable_bytes(self, through: int) -> int:
        """Return the bytes that a cut through a number would free."""
        return self._log.cuttable_bytes(through)

    async def cut(self, through: int) -> bool:
        """Remove the records up to a number, which the catalogue contains; return False if that failed."""
        return await self._writer.cut(self._log, through)
