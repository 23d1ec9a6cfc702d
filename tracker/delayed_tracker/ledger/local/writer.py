"""The writer of a topic: appends entries, makes them durable, begins new ledgers. A topic has at most one.

    writer = open_writer(directory, topic, now_ms=...)
    positions = writer.append_many(payloads, now_ms=...)     # in the log, may still be lost
    writer.flush()                                           # durable, and visible to readers

One sync makes all earlier appends durable, so many appends should share one
(:mod:`delayed_tracker.ledger.local.group_commit` does this for threads). A writer never continues a ledger of an
earlier writer; the first append after opening begins a new one, as in a broker. Not thread-safe.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import numpy as np

from delayed_tracker.core.values.columns import Int64Array, Position, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput, InvariantViolation
from delayed_tracker.files.lock_file import LockFile
from delayed_tracker.ledger.entry.interceptors import BrokerEntryMetadataInterceptor, intercept_all
from delayed_tracker.ledger.local.errors import AppendFailed, TopicTerminated, WriterClosed
from delayed_tracker.ledger.local.files.confirmed_file import ConfirmedFile
from delayed_tracker.ledger.local.files.disk import Disk
from delayed_tracker.ledger.local.files.layout import LedgerDirectory, TopicDirectory
from delayed_tracker.ledger.local.files.records import ENTRY_BYTES_MAX, Frames, Payloads
from delayed_tracker.ledger.local.ledger_ids import take_ledger_id
from delayed_tracker.ledger.local.metadata import TopicMetadata
from delayed_tracker.ledger.local.open_ledger import OpenLedger
from delayed_tracker.ledger.local.recovery import RecoveredLedger
from delayed_tracker.ledger.local.rollover import RolloverLimits


class TopicWriter:
    """Writer of one topic, made by :func:`delayed_tracker.ledger.local.opening.open_writer`.

    As a context manager, it closes on exit.
    """

    def __init__(
        self,
        directory: LedgerDirectory,
        metadata: TopicMetadata,
        *,
        lock: LockFile,
        interceptors: Sequence[BrokerEntryMetadataInterceptor],
        limits: RolloverLimits,
        recovered: RecoveredLedger | None,
        disk: Disk,
    ) -> None:
        self.metadata = metadata
        """Metadata of the topic. The ends of its ledgers are in the file now, or will be with the next ledger."""
        self.recovered = recovered
        """End of the ledger that the previous writer left open; None if it left none."""
        self._directory = directory
        self._files: TopicDirectory = directory.topic(metadata.topic)
        self._lock: LockFile | None = lock
        self._interceptors = tuple(interceptors)
        self._limits = limits
        self._disk = disk
        self._ledger: OpenLedger | None = None
        self._confirmed: ConfirmedFile | None = None
        self._unflushed: list[Int64Array] = []
        """Number of messages of each entry that went through the interceptors and is not durable yet."""
        self._stored: TopicMetadata | None = metadata
        """Content of the metadata file; None if it is not known."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def last(self) -> Position | None:
        """Position of the last durable entry; None if there is none."""
        ledger = self._ledger
        if ledger is not None and ledger.durable.entry_id >= 0:
            return Position(ledger.ledger_id, ledger.durable.entry_id)
        ended = [ledger for ledger in self.metadata.ledgers if ledger.entry_count]
        return Position(ended[-1].ledger_id, (ended[-1].entry_count or 0) - 1) if ended else None

    def append_many(
        self, payloads: Sequence[bytes], *, now_ms: int, num_messages: Sequence[int] | Int64Array | None = None
    ) -> PositionColumns:
        """Append entries to the topic, in this order; the next :meth:`flush` makes them durable.

        A call may begin new ledgers; it makes all entries of the ledgers before durable.

        Args:
            payloads: entries as clients sent them: checksum, metadata, payload. Stored unchanged behind the broker's
                metadata.
            now_ms: the time, milliseconds since 1970-01-01 UTC.
            num_messages: for each entry, the number in its SEND command; None for 1 each. An entry with 0 or less gets
                no broker metadata and is not counted.
        Returns: the positions of the entries.
        Raises:
            AppendFailed: the disk rejected them. All entries that were not durable are lost, of this call and of
                earlier ones. The topic accepts appends again as soon as the disk does.
            InvalidInput: a payload is too large, or the columns differ in length; nothing is appended.
            TopicTerminated, WriterClosed: no entry can be appended any more.
        Cost: O(bytes); no sync unless a ledger is full.
        """
        self._check_writable()
        batch = Payloads.of(payloads)
        messages = _message_counts(batch, num_messages)
        placed: list[PositionColumns] = []
        row = 0
        try:
            while row < len(batch):
                ledger = self._ledger_with_room(now_ms)
                rest = batch.take(slice(row, None))
                count = self._limits.room(rest, entry_count=ledger.entry_count, payload_bytes=ledger.client_bytes)
                entry_ids = self._write(ledger, rest.take(slice(count)), messages[row : row + count], now_ms)
                placed.append(PositionColumns(np.full(count, ledger.ledger_id, np.int64), entry_ids))
                row += count
        except OSError as error:
            self._abandon(now_ms)
            raise self._failed(error, placed) from error
        except BaseException:
            self._abandon(now_ms)
            raise
        return _concatenated(placed)

    def flush(self) -> Position | None:
        """Make all appended entries durable and visible to readers.

        Returns: the position of the topic's last entry; None if it has none.
        Raises:
            AppendFailed: the disk rejected them; as :meth:`append_many`.
            WriterClosed: the writer is closed.
        Cost: one sync of the log; none if nothing was appended.
        """
        self._check_open()
        ledger = self._ledger
        if ledger is not None:
            try:
                self._sync(ledger)
            except OSError as error:
                self._abandon(ledger.created_ms)
                raise self._failed(error, []) from error
        return self.last

    def roll_over(self, *, now_ms: int) -> None:
        """Close the current ledger if it has entries; the next append begins another.

        Raises:
            AppendFailed: appended entries cannot be made durable.
            OSError: the ledger's end cannot be recorded now; it is recorded with the next ledger.
        """
        self.flush()
        self._end_ledger(now_ms)
        self._store()

    def terminate(self, *, now_ms: int) -> Position | None:
        """Terminate the topic: it accepts no more entries, permanently.

        Returns: the position of its last entry; None if it has none.
        Raises: as :meth:`roll_over`; the termination is then not stored.
        """
        self.flush()
        if self.metadata.terminated_at is None:
            self._end_ledger(now_ms)
            self.store(self.metadata.with_termination(self.last or Position(-1, -1)))
        return self.last

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the managed ledger, durably; other properties stay.

        Raises:
            AppendFailed: appended entries cannot be made durable.
            OSError: the properties cannot be stored, and none of them is set.
        """
        self.flush()
        self.store(self.metadata.with_properties(properties))

    def store(self, metadata: TopicMetadata) -> None:
        """Replace the topic's metadata, durably, for callers that add whole ledgers. All entries must be durable.

        Raises:
            OSError: the metadata cannot be stored; the writer continues with the previous metadata.
        """
        self._check_open()
        before = self.metadata
        self.metadata = metadata
        try:
            self._store()
        except BaseException:
            self.metadata = before
            raise

    def close(self, *, now_ms: int | None = None) -> None:
        """Make all entries durable, record the end of the ledger, and release the lock. Closing twice is safe.

        Args:
            now_ms: the time at which the ledger ended; None uses the time at which it began.
        Raises:
            AppendFailed, OSError: something is not stored. The writer is closed anyway, and the next writer finds the
                end of the ledger.
        """
        if self._lock is None:
            return
        try:
            self.flush()
            if self._ledger is not None:
                self._end_ledger(self._ledger.created_ms if now_ms is None else now_ms)
            self._store()
        finally:
            if self._ledger is not None:
                self._ledger.close()
            if self._confirmed is not None:
                self._confirmed.close()
            self._lock.release()
            self._lock = None

    def check(self) -> None:
        """Raise InvariantViolation if the writer's state contradicts itself. For tests and for debugging."""
        ids = [ledger.ledger_id for ledger in self.metadata.ledgers]
        if ids != sorted(set(ids)):
            raise InvariantViolation(f"the ledgers {ids} do not ascend")
        if any(not ledger.entry_count for ledger in self.metadata.ledgers[:-1]) or 0 in {
            ledger.entry_count for ledger in self.metadata.ledgers
        }:
            raise InvariantViolation("a ledger that has ended is empty, or one that has not is not the last")
        opened = self.metadata.open_ledger
        if (None if opened is None else opened.ledger_id) != (None if self._ledger is None else self._ledger.ledger_id):
            raise InvariantViolation("the ledger that is written to is not the one that the metadata has as open")
        if self._ledger is not None:
            self._ledger.check()
        if self._unflushed and (self._ledger is None or self._ledger.whole):
            raise InvariantViolation("entries are remembered as not durable, though all are")

    def _check_open(self) -> None:
        if self._lock is None:
            raise WriterClosed(f"the writer of {self.metadata.topic} is closed; open the topic again")

    def _check_writable(self) -> None:
        self._check_open()
        if self.metadata.terminated_at is not None:
            raise TopicTerminated(
                f"{self.metadata.topic} was terminated at {self.metadata.terminated_at}; write to another topic"
            )

    def _ledger_with_room(self, now_ms: int) -> OpenLedger:
        ledger = self._ledger
        if ledger is not None:
            if not self._limits.is_full(
                entry_count=ledger.entry_count,
                payload_bytes=ledger.client_bytes,
                age_ms=now_ms - ledger.created_ms,
            ):
                return ledger
            self._sync(ledger)
            self._end_ledger(now_ms)
        return self._begin_ledger(now_ms)

    def _begin_ledger(self, now_ms: int) -> OpenLedger:
        """Create the files, then store the metadata that names them: a crash in between leaves unused files."""
        if self._confirmed is None:
            self._confirmed = ConfirmedFile.open(self._files, self._disk)
        ledger_id = take_ledger_id(self._directory, self._disk)
        ledger = OpenLedger.create(self._files, ledger_id, created_ms=now_ms, disk=self._disk)
        before = self.metadata
        try:
            self.store(before.with_open(ledger_id))
            self._confirmed.write(ledger.durable)
        except BaseException:
            self.metadata = before
            ledger.close()
            raise
        self._ledger = ledger
        return ledger

    def _write(self, ledger: OpenLedger, payloads: Payloads, messages: Int64Array, now_ms: int) -> Int64Array:
        if not self._interceptors:
            return ledger.write(payloads, Frames.none(len(payloads)))
        stamped = messages > 0
        counts = messages[stamped]
        metadata = intercept_all(self._interceptors, counts, now_ms=now_ms)
        self._unflushed.append(counts)
        return ledger.write(payloads, Frames.of(metadata, stamped))

    def _sync(self, ledger: OpenLedger) -> None:
        if ledger.whole:
            return
        assert self._confirmed is not None
        durable = ledger.sync()
        self._confirmed.write(durable)
        ledger.confirm(durable)
        self._unflushed.clear()

    def _end_ledger(self, now_ms: int) -> None:
        """Stop writing to the ledger, durable or abandoned. The metadata file is updated with the next ledger."""
        ledger = self._ledger
        if ledger is None:
            return
        self.metadata = self.metadata.with_closed(
            ledger.ledger_id,
            entry_count=ledger.durable.entry_id + 1,
            payload_bytes=ledger.durable.payload_bytes,
            now_ms=now_ms,
        )
        self._ledger = None
        ledger.close()

    def _abandon(self, now_ms: int) -> None:
        """Drop all entries that are not durable, and close their ledger."""
        for counts in self._unflushed:
            for interceptor in self._interceptors:
                interceptor.add_failed(counts)
        self._unflushed.clear()
        if self._ledger is not None:
            # The truncation may fail: the metadata will state where the ledger ends.
            with suppress(OSError):
                self._ledger.truncate()
            self._end_ledger(now_ms)

    def _failed(self, error: OSError, placed: list[PositionColumns]) -> AppendFailed:
        durable = self.last
        columns = _concatenated(placed)
        stored = columns.take(slice(0, 0))
        if durable is not None:
            later = columns.ledger_id > durable.ledger_id
            later |= (columns.ledger_id == durable.ledger_id) & (columns.entry_id > durable.entry_id)
            stored = columns.take(~later)
        return AppendFailed(str(self.metadata.topic), error, stored=stored, durable=durable)

    def _store(self) -> None:
        """Write the current metadata, unless the file has it already."""
        current = self.metadata
        for interceptor in self._interceptors:
            current = current.with_properties(interceptor.properties())
        if current != self._stored:
            # If this fails, the file has either the old or the new content.
            self._stored = None
            self._disk.replace(self._files.metadata, current.encode())
            self._stored = current
        self.metadata = current


def _message_counts(batch: Payloads, num_messages: Sequence[int] | Int64Array | None) -> Int64Array:
    sizes = batch.end - batch.start
    if len(sizes) and sizes.max() > ENTRY_BYTES_MAX:
        row = int(sizes.argmax())
        raise InvalidInput(
            "payloads", f"{sizes[row]} bytes", f"an entry takes at most {ENTRY_BYTES_MAX}", offsets=[row]
        )
    if num_messages is None:
        return np.ones(len(batch), np.int64)
    messages = np.asarray(num_messages, np.int64)
    if messages.shape != (len(batch),):
        raise InvalidInput("num_messages", len(messages), f"give one number for each of the {len(batch)} payloads")
    return messages


def _concatenated(parts: list[PositionColumns]) -> PositionColumns:
    if not parts:
        return PositionColumns(np.empty(0, np.int64), np.empty(0, np.int64))
    return PositionColumns(
        np.concatenate([part.ledger_id for part in parts]), np.concatenate([part.entry_id for part in parts])
    )
