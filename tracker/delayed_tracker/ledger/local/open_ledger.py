"""The ledger that a writer appends to."""

from dataclasses import dataclass, field

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.ledger.bookkeeper.entry_log import HEADER_BYTES
from delayed_tracker.ledger.local.files.disk import Disk, OpenFile
from delayed_tracker.ledger.local.files.layout import TopicDirectory
from delayed_tracker.ledger.local.files.records import INDEX_ROW_BYTES, LOG_HEADER, Frames, Payloads, encode_records
from delayed_tracker.ledger.local.metadata import Confirmed


@dataclass(slots=True)
class OpenLedger:
    """Log and index of one ledger, both written at their ends.

    After an error of :meth:`write` or :meth:`sync`, only :meth:`close` may be called: after a failed sync, the content
    of the disk is unknown, even to the operating system. Entries that were confirmed before are not affected.
    """

    ledger_id: int
    created_ms: int
    disk: Disk
    log: OpenFile
    index: OpenFile
    durable: Confirmed
    """End of the durable part of the ledger."""
    entry_count: int = 0
    """Number of entries written, durable or not; includes entries that were left out."""
    payload_bytes: int = 0
    client_bytes: int = 0
    """Like ``payload_bytes``, without broker metadata."""
    _end: int = HEADER_BYTES
    _index_rows: list[Int64Array] = field(default_factory=list)
    """Index rows of the entries behind ``durable``."""

    @classmethod
    def create(cls, directory: TopicDirectory, ledger_id: int, *, created_ms: int, disk: Disk) -> "OpenLedger":
        """Create a ledger whose files survive a crash. No metadata names it yet.

        Raises:
            OSError: the ledger cannot be created; files that were made are harmless, because no metadata names them.
        """
        log = disk.create(directory.log(ledger_id))
        try:
            disk.write(log, LOG_HEADER, 0)
            disk.sync(log)
            index = disk.create(directory.index(ledger_id))
        except BaseException:
            disk.close(log)
            raise
        try:
            disk.sync_directory(directory.path)
        except BaseException:
            disk.close(log)
            disk.close(index)
            raise
        return cls(ledger_id, created_ms, disk, log, index, Confirmed(ledger_id, -1, HEADER_BYTES, 0))

    @property
    def whole(self) -> bool:
        """True if all written entries are durable."""
        return self.durable.entry_id + 1 == self.entry_count

    def write(self, payloads: Payloads, frames: Frames, *, left_out: Int64Array | None = None) -> Int64Array:
        """Write entries at the end of the log; they are not durable yet.

        Args:
            payloads: the entries as the clients sent them.
            frames: the broker metadata in front of each entry.
            left_out: for each entry, the number of ids before it that get no entry; None for no gaps.
        Returns: the ids of the entries.
        Raises:
            OSError: the write failed.
        """
        steps = np.ones(len(payloads), np.int64) if left_out is None else left_out + 1
        entry_ids = self.entry_count - 1 + np.cumsum(steps, dtype=np.int64)
        records, ends = encode_records(
            payloads,
            frames,
            ledger_id=self.ledger_id,
            entry_ids=entry_ids,
            last_add_confirmed=self.durable.entry_id,
            length=self.payload_bytes,
        )
        self.disk.write(self.log, records, self._end)
        if len(payloads):
            # An entry that is left out ends where the entry before it ends.
            starts = self._end + np.concatenate([np.zeros(1, np.int64), ends[:-1]])
            rows = np.repeat(starts, steps)
            rows[np.cumsum(steps) - 1] = self._end + ends
            self._index_rows.append(rows)
            self.entry_count = int(entry_ids[-1]) + 1
        client_bytes = int((payloads.end - payloads.start).sum())
        self.client_bytes += client_bytes
        self.payload_bytes += client_bytes + len(frames.octets)
        self._end += len(records)
        return entry_ids

    def sync(self) -> Confirmed:
        """Make the written entries durable. They count as durable once the result is given to :meth:`confirm`.

        Raises:
            OSError: a write or the sync failed.
        """
        if self._index_rows:
            rows = np.concatenate(self._index_rows).astype("<i8").tobytes()
            self.disk.write(self.index, rows, INDEX_ROW_BYTES * (self.durable.entry_id + 1))
        self.disk.sync(self.log)
        return Confirmed(self.ledger_id, self.entry_count - 1, self._end, self.payload_bytes)

    def confirm(self, durable: Confirmed) -> None:
        """Record the result of :meth:`sync`, which covers all written entries."""
        self.durable = durable
        self._index_rows.clear()

    def check(self) -> None:
        """Raise InvariantViolation if the ledger's own numbers contradict each other."""
        rows = np.concatenate([np.empty(0, np.int64), *self._index_rows])
        if self.durable.entry_id + 1 + len(rows) != self.entry_count:
            raise InvariantViolation(f"{len(rows)} entries wait for the index, not all that are not durable")
        if (rows[-1] if len(rows) else self.durable.end) != self._end or (np.diff(rows) < 0).any():
            raise InvariantViolation(f"the log ends at {self._end}, its last entry elsewhere")
        if not self.client_bytes <= self.payload_bytes or self.payload_bytes < self.durable.payload_bytes:
            raise InvariantViolation(f"{self.payload_bytes} bytes of payloads are fewer than their parts")

    def truncate(self) -> None:
        """Cut off the part of the log that is not durable.

        Raises:
            OSError: that part stays; the metadata must state where the ledger ends.
        """
        self.disk.truncate(self.log, self.durable.end)

    def close(self) -> None:
        """Close the files."""
        self.disk.close(self.log)
        self.disk.close(self.index)
