"""The protocol of the add log: every add is on record there before it is answered.

Records are opaque bytes. Those of one tracker are numbered from 1 without gaps; one commit takes records of many
trackers. A recovery reads a tracker's records, applies them, and cuts those that the catalogue contains
(``LogMark.number``). The log is beside a snapshot storage: ``open_add_log`` takes the URL of that.

Common mistakes in backends: a commit must be on disk when it returns, a fenced tracker must not hold up the others of its
commit, a repeated part must not be stored twice, and a damaged record must not hide those behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.protocol import NO_LOG

RECORD_BYTES_MAX: Final = 256 * 1024 * 1024
"""Size up to which a record is accepted: SQLite stores values of up to a gigabyte."""
LOG_ID_CHARACTERS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class LogAppend:
    """Consecutive records of one tracker in one group commit."""

    topic: str
    """Any text."""
    cursor: str
    """Any text."""
    epoch: int
    """Present epoch that the writer has of the tracker, 1 or more."""
    first_number: int
    """Number of the first record, 1 or more; the others follow without gaps."""
    records: Sequence[bytes]
    """At least one, each of up to ``RECORD_BYTES_MAX`` bytes."""


@dataclass(frozen=True, slots=True)
class LoggedRecord:
    """One record of a tracker."""

    number: int
    record: bytes


@dataclass(frozen=True, slots=True)
class LogPage:
    """Consecutive part of a tracker's records. To continue, read after the number of its last record."""

    records: tuple[LoggedRecord, ...]
    """In ascending order of their numbers. A page that is not the last has at least one."""
    corrupt: tuple[tuple[int, int], ...]
    """Ranges (first number, last number) of records that fail their checksum or are gone, ascending.

    Count them, and replay from the ledgers.
    """
    is_last: bool
    """True if no record follows."""

    def above(self, number: int) -> "LogPage":
        """Return the part of the page with numbers above ``number``."""
        return LogPage(
            tuple(each for each in self.records if each.number > number),
            tuple((max(first, number + 1), last) for first, last in self.corrupt if last > number),
            self.is_last,
        )


@dataclass(frozen=True, slots=True)
class LogExtent:
    """Summary of the records of one tracker."""

    topic: str
    cursor: str
    epoch: int
    """Recorded epoch; 1 or more."""
    last_number: int
    """Highest number ever appended, 0 for none; cutting does not lower it."""
    record_bytes: int
    """Payload bytes that are not cut; a backend may count the rest of a partly cut row."""
    claims_void_through: int = 0
    """Claims in records with this number or a lower one are void: the storage was restored from a backup."""
    page: LogPage | None = field(default=None, compare=False, repr=False)
    """All records that are not cut, in the answer to ``take_over`` of a backend that has few and has them at hand.

    None: read them.
    """


def require_log_id(log_id: str) -> None:
    """Raise InvalidInput for an id that catalogues do not keep, or that they keep for something else."""
    if not 1 <= len(log_id) <= LOG_ID_CHARACTERS_MAX or not log_id.isascii() or log_id == NO_LOG:
        raise InvalidInput("log_id", log_id, f"give 1 to {LOG_ID_CHARACTERS_MAX} ASCII characters, not {NO_LOG!r}")


def require_epoch_number(epoch: int) -> None:
    """Raise InvalidInput for an epoch that no owner can have."""
    if not 1 <= epoch <= INT63_MAX:
        raise InvalidInput("epoch", epoch, "epochs count from 1 to 2^63 - 1")


def require_parts(parts: Sequence[LogAppend]) -> None:
    """Raise InvalidInput unless the parts of an append are well-formed. For backends, before anything is applied."""
    seen: set[tuple[str, str]] = set()
    for part in parts:
        key = (part.topic, part.cursor)
        if key in seen:
            raise InvalidInput("parts", key, "give one part for each tracker and call")
        seen.add(key)
        require_epoch_number(part.epoch)
        if not part.records:
            raise InvalidInput("records", part.records, f"give at least one record of {key}")
        if not 1 <= part.first_number <= INT63_MAX - len(part.records) + 1:
            raise InvalidInput("first_number", part.first_number, "records are numbered from 1 to 2^63 - 1")
        largest = max(map(len, part.records))
        if largest > RECORD_BYTES_MAX:
            raise InvalidInput("records", largest, f"a record has up to {RECORD_BYTES_MAX} bytes; split it")


def require_no_gap(part: LogAppend, last_number: int) -> None:
    """Raise InvalidInput if a part begins above the next number of a known tracker."""
    if part.first_number > last_number + 1:
        raise InvalidInput(
            "first_number",
            part.first_number,
            f"the log of {part.topic!r}, {part.cursor!r} ends at {last_number}; go on with {last_number + 1}",
        )


def require_page(after: int, bytes_max: int) -> None:
    """Raise InvalidInput unless a read has a bound and begins at a number."""
    if not 0 <= after <= INT63_MAX:
        raise InvalidInput("after", after, "give the number of a record, or 0 for the beginning")
    if bytes_max < 1:
        raise InvalidInput("bytes_max", bytes_max, "give 1 or more")


def require_cuts(cuts: Sequence[tuple[str, str, int]]) -> None:
    """Raise InvalidInput unless each cut ends at a number."""
    for _, _, through in cuts:
        if not 0 <= through <= INT63_MAX:
            raise InvalidInput("through", through, "give the number of a record, or 0 for none")


class AddLog(Protocol):
    """Durable records of adds that the catalogue does not contain yet.

    All operations may run concurrently. Each may raise StorageUnavailable, and does so before ``start`` and after
    ``close``.
    """

    async def start(self) -> None:
        """Open the log and verify that it is usable; called once, before any other operation.

        Raises:
            StorageInUse: it is open already.
            StorageFormatUnsupported: it was written by a newer version, or by another program.
        """
        ...

    async def close(self) -> None:
        """Finish the accepted operations and release all resources; closing twice is harmless."""
        ...

    async def log_id(self) -> str:
        """Return the id of the log's content: the same after each start, and never that of another log.

        Processes that share the content, one after the other, share the id. Catalogues of a storage that has no log of its
        own record it (``LogMark.log``), so that a process with another log does not take its own records for the missing
        ones. See :func:`require_log_id`.
        """
        ...

    async def append(self, parts: Sequence[LogAppend], *, writer: str) -> list[tuple[str, str]]:
        """Make all records durable in one commit, and record the epochs and ``writer``.

        Repeating a part is harmless: numbers that are on record are skipped, so a part may begin at or below the last
        number and go on above it. A tracker that the log does not know may begin at any number.

        Args:
            parts: one for each tracker.
            writer: unique name of the writing process; empty for an anonymous writer, as in ``require_epoch``.
        Returns:
            (topic, cursor) of the trackers whose part was refused, because another writer took them over: with a newer
            epoch, or with the same one. The records of all others are durable.
        Raises:
            InvalidInput: a part is malformed, or begins above the next number of its tracker; nothing is applied.
            LogBroken: the log cannot be written any more.
        """
        ...

    async def take_over(self, topic: str, cursor: str, *, epoch: int, writer: str) -> LogExtent:
        """Fence a tracker durably, and return what the log has of it.

        From now on appends of older epochs, and of other writers of this epoch, are refused. A tracker that the log does
        not know is recorded, without records: its first number is 1.

        Raises:
            InvalidInput: the epoch is below 1.
            SnapshotConflict: the log has a newer epoch, or this one by another writer; nothing was changed.
            LogBroken: the log cannot be written any more.
        """
        ...

    async def read(self, topic: str, cursor: str, *, after: int, bytes_max: int) -> LogPage:
        """Return records with numbers above ``after`` that are not cut, in order.

        Args:
            topic: any text.
            cursor: any text; an unknown tracker has no records.
            after: number of a record, or 0.
            bytes_max: payload bytes of the page, 1 or more. The first record is returned whatever its size.
        Raises:
            InvalidInput: ``after`` or ``bytes_max`` is out of its range.
        """
        ...

    async def cut(self, cuts: Sequence[tuple[str, str, int]]) -> None:
        """Remove records with numbers up to ``through``, for each (topic, cursor, through).

        Unknown trackers are ignored, and a repeated cut is harmless. A number above the last one cuts all.

        Raises:
            InvalidInput: a number is below 0.
            LogBroken: the log cannot be written any more.
        """
        ...

    async def extents(self) -> list[LogExtent]:
        """Return every tracker with ``record_bytes`` above 0, in ascending order of (topic, cursor).

        A log that several live instances share leaves out those whose records another one has.
        """
        ...

    async def size_bytes(self) -> int:
        """Return the bytes that the log's files take."""
        ...
