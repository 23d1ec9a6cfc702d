"""The one writer of a topic: puts entries at its end, makes them durable, begins new ledgers.

    writer = open_writer(directory, topic, now_ms=...)
    positions = writer.append_many(payloads, now_ms=...)     # in the log, may still be lost
    writer.flush()                                           # durable, and visible to readers

One sync makes all durable that was appended before it, by whomever: let many appends share one
(:mod:`delayed_tracker.ledger.local.group_commit` does for threads). A writer never goes on in a ledger of a writer before it; the
first append after opening makes a new one, as a broker does. Not thread-safe.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import numpy as np

from delayed_tracker.core.values.columns import Int64Array, Position, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput, InvariantViolation
from delayed_tracker.ledger.entry.interceptors import BrokerEntryMetadataInterceptor, intercept_all
from delayed_tracker.ledger.local.errors import AppendFailed, TopicTerminated, WriterClosed
from delayed_tracker.ledger.local.files.confirmed_file import ConfirmedFile
from delayed_tracker.ledger.local.files.disk import Disk
from delayed_tracker.ledger.local.files.layout import LedgerDirectory, TopicDirectory
from delayed_tracker.ledger.local.files.locks import FileLock
from delayed_tracker.ledger.local.files.records import ENTRY_BYTES_MAX, Frames, Payloads
from delayed_tracker.ledger.local.ledger_ids import take_ledger_id
from delayed_tracker.ledger.local.metadata import TopicMetadata
from delayed_tracker.ledger.local.open_ledger import OpenLedger
from delayed_tracker.ledger.local.recovery import RecoveredLedger
from delayed_tracker.ledger.local.rollover import RolloverLimits


class TopicWriter:
    """Made by :func:`delayed_tracker.ledger.local.opening.open_writer`. A context manager: leaving it closes it."""

    def __init__(
        self,
        directory: LedgerDirectory,
        metadata: TopicMetadata,
        *,
        lock: FileLock,
        interceptors: Sequence[BrokerEntryMetadataInterceptor],
        limits: RolloverLimits,
        recovered: RecoveredLedger | None,
        disk: Disk,
    ) -> None:
        self.metadata = metadata
        """What the topic consists of; the ledgers' ends are those on disk, or will be with the next ledger."""
        self.recovered = recovered
        """How the ledger ended that the writer before left open; None when it left none."""
        self._directory = directory
        self._files: TopicDirectory = directory.topic(metadata.topic)
        self._lock: FileLock | None = lock
        self._interceptors = tuple(interceptors)
        self._limits = limits
        self._disk = disk
        self._ledger: OpenLedger | None = None
        self._confirmed: ConfirmedFile | None = None
        self._unflushed: list[Int64Array] = []
        """Messages of each entry that interceptors have seen and that is not durable yet."""
        self._stored: TopicMetadata | None = metadata
        """What is in the metadata file; None when that is not known."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def last(self) -> Position | None:
        """The last durable entry; None when there is none."""
        ledger = self._ledger
        if ledger is not None and ledger.durable.entry_id >= 0:
            return Position(ledger.ledger_id, ledger.durable.entry_id)
        ended = [ledger for ledger in self.metadata.ledgers if ledger.entry_count]
        return Position(ended[-1].ledger_id, (ended[-1].entry_count or 0) - 1) if ended else None

    def append_many(
        self, payloads: Sequence[bytes], *, now_ms: int, num_messages: Sequence[int] | Int64Array | None = None
    ) -> PositionColumns:
        """Put entries at the end of the topic, in this order; durable after the next :meth:`flush`.

        Args:
            payloads: what clients sent: checksum, metadata, payload. Stored as they are, behind the broker's metadata.
            now_ms: the time, milliseconds since 1970-01-01 UTC.
            num_messages: for each entry what its SEND command says; None for 1 each. Entries with 0 or less get no
                broker metadata and count for nothing.
        Returns: where they are. A call may begin new ledgers; it makes durable all that is in those before.
        Raises:
            AppendFailed: the disk did not take them. Everything that was not durable is gone, from this call and from
                those before it; the topic can be written to as soon as the disk can.
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
        """Make durable all that was appended, and show it to readers.

        Returns: the topic's last entry; None when it has none.
        Raises:
            AppendFailed: the disk did not take it; as :meth:`append_many`.
            WriterClosed: the writer is closed.
        Cost: one sync of the log, none when nothing was appended.
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
        """End the ledger that is written to, if it has entries; the next append begins another.

        Raises:
            AppendFailed: what was appended cannot be made durable.
            OSError: the end cannot be recorded now; it will be with the next ledger.
        """
        self.flush()
        self._end_ledger(now_ms)
        self._store()

    def terminate(self, *, now_ms: int) -> Position | None:
        """Let the topic take no more entries, ever.

        Returns: its last entry; None when it has none.
        Raises: as :meth:`roll_over`; nobody knows of the termination then.
        """
        self.flush()
        if self.metadata.terminated_at is None:
            self._end_ledger(now_ms)
            self.store(self.metadata.with_termination(self.last or Position(-1, -1)))
        return self.last

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the managed ledger, durably; others stay.

        Raises:
            AppendFailed: what was appended cannot be made durable.
            OSError: they cannot be stored, and none of them counts as set.
        """
        self.flush()
        self.store(self.metadata.with_properties(properties))

    def store(self, metadata: TopicMetadata) -> None:
        """Change what the topic consists of, durably: for whoever adds whole ledgers. All entries must be durable.

        Raises:
            OSError: it cannot be stored; the writer goes on with what was before.
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
        """Make all durable, record where the ledger ends, let the next writer in. Closing twice does no harm.

        Args:
            now_ms: the time at which the ledger ended; None takes that at which it began.
        Raises:
            AppendFailed, OSError: something is not stored; the writer is closed all the same, and the next one finds out
                where the ledger ends.
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
        """Raise InvariantViolation if the writer contradicts itself. For tests, and for whoever suspects a bug."""
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
        """New files first, then the metadata that names them: a crash between leaves files that nobody misses."""
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
        """Stop writing to the ledger, all of it durable or given up; the metadata file learns of it with the next."""
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
        """Give up all that is not durable, and the ledger with it."""
        for counts in self._unflushed:
            for interceptor in self._interceptors:
                interceptor.add_failed(counts)
        self._unflushed.clear()
        if self._ledger is not None:
            # Whether that works or not: the metadata will say where the ledger ends.
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
        """Write the metadata as it is now, unless that is what the file has."""
        current = self.metadata
        for interceptor in self._interceptors:
            current = current.with_properties(interceptor.properties())
        if current != self._stored:
            # If this fails, the file may have the one or the other.
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
