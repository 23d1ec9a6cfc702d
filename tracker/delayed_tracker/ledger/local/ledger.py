"""Reads one local ledger, at random or from end to end, while a writer may append to it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import BoolArray, Int64Array
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.bookkeeper.entry_log import HEADER_BYTES
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import ANOTHER_COPY, BadEntry
from delayed_tracker.ledger.local.files.kernels import RECORD_HEADER_BYTES
from delayed_tracker.ledger.local.files.records import INDEX_ROW_BYTES, check_log_header, check_records, read_exactly
from delayed_tracker.ledger.local.found_records import find_records

_PIECE_BYTES: Final = 2 << 20
"""Pieces that fit into the processor's cache are read in a third of the time."""
_PIECE_ENTRIES_MAX: Final = 16_384


@dataclass(slots=True)
class LocalLedger:
    """Local ledger for reading; implements :class:`~delayed_tracker.ledger.topic.topic_log.Ledger`.

    Keeps no file open between calls; any thread may read.
    """

    log: Path
    index: Path
    ledger_id: int
    last_entry_id: int
    payload_bytes: int | None
    closed: bool
    _found: Int64Array | None = field(default=None, init=False, compare=False, repr=False)
    """Ends of the records as found in the log, once the index has proved to be missing or wrong."""

    def read(self, first: int, last: int) -> LedgerEntries:
        """Read entries ``first`` to ``last`` and check each of them.

        Raises:
            InvalidInput: part of the range is not in the ledger.
            LedgerFileInvalid: the file cannot be a ledger's log.
            OSError: the file is missing or cannot be read.
        Cost: O(bytes of the range); O(bytes of the ledger) once, if the index is missing or wrong.
        """
        if last < first:
            return LedgerEntries(StoredEntries.of(self.ledger_id, [], []))
        self._check_range(first, last)
        with self._open_log() as descriptor:
            return self._read(descriptor, first, self._ends(descriptor, first, last))

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        """Yield the same range in pieces of about 2 MB; a piece holds at least one entry."""
        if last < first:
            return
        self._check_range(first, last)
        with self._open_log() as descriptor:
            start = first
            while start <= last:
                ends = self._ends(descriptor, start, min(start + _PIECE_ENTRIES_MAX - 1, last))
                # Wrong offsets lead to pieces of the wrong size, never to wrong entries.
                count = max(1, int(np.searchsorted(ends[1:], ends[0] + _PIECE_BYTES, side="right")))
                yield self._read(descriptor, start, ends[: count + 1])
                start += len(ends[: count + 1]) - 1

    def locate(self, entry_id: int) -> tuple[str, int] | None:
        """Return the path of the log and the offset of an entry's record in it."""
        self._check_range(entry_id, entry_id)
        with self._open_log() as descriptor:
            return str(self.log), int(self._ends(descriptor, entry_id, entry_id)[0])

    def _check_range(self, first: int, last: int) -> None:
        if first < 0 or last > self.last_entry_id:
            raise InvalidInput(
                "entries", f"{first} to {last}", f"ledger {self.ledger_id} has entries 0 to {self.last_entry_id}"
            )

    @contextmanager
    def _open_log(self) -> Iterator[int]:
        descriptor = os.open(self.log, os.O_RDONLY | os.O_CLOEXEC)
        try:
            check_log_header(descriptor, self.log)
            yield descriptor
        finally:
            os.close(descriptor)

    def _ends(self, descriptor: int, first: int, last: int) -> Int64Array:
        """Return the end of the entry before ``first``, then the ends of the range: ascending, and inside the log."""
        if self._found is None:
            ends = self._indexed_ends(first, last)
            if ends is not None and ends[-1] <= os.fstat(descriptor).st_size:
                return ends
            self._find()
        assert self._found is not None
        known = self._found[max(first - 1, 0) : last + 1]
        return known if first else np.concatenate([np.array([HEADER_BYTES], np.int64), known])

    def _indexed_ends(self, first: int, last: int) -> Int64Array | None:
        try:
            descriptor = os.open(self.index, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            begin = max(first - 1, 0)
            content = read_exactly(descriptor, INDEX_ROW_BYTES * (last + 1 - begin), INDEX_ROW_BYTES * begin)
        finally:
            os.close(descriptor)
        if len(content) != INDEX_ROW_BYTES * (last + 1 - begin):
            return None
        ends = np.frombuffer(content, "<i8").astype(np.int64)
        if not first:
            ends = np.concatenate([np.array([HEADER_BYTES], np.int64), ends])
        possible = ends[0] >= HEADER_BYTES and (ends[1:] - ends[:-1] >= RECORD_HEADER_BYTES).all()
        return ends if possible else None

    def _find(self) -> None:
        """Find the ends of the records in the log; entries behind its end have no record."""
        found = find_records(self.log, self.index, self.ledger_id)
        self._found = found.ends(self.last_entry_id + 1)

    def _read(self, descriptor: int, first: int, ends: Int64Array) -> LedgerEntries:
        """Read the entries between ``ends``. If one is wrong, find the ends in the log and read again."""
        good, octets = self._checked(descriptor, first, ends)
        if not good.all() and self._found is None:
            self._find()
            ends = self._ends(descriptor, first, first + len(ends) - 2)
            good, octets = self._checked(descriptor, first, ends)
        rows = np.flatnonzero(good)
        relative = ends - ends[0]
        entries = StoredEntries(
            octets,
            np.full(len(rows), self.ledger_id, np.int64),
            first + rows.astype(np.int64),
            relative[:-1][rows] + RECORD_HEADER_BYTES,
            relative[1:][rows],
        )
        return LedgerEntries(
            entries, tuple(self._bad(first + row, ends, row) for row in np.flatnonzero(~good).tolist())
        )

    def _checked(self, descriptor: int, first: int, ends: Int64Array) -> tuple[BoolArray, bytes]:
        octets = read_exactly(descriptor, int(ends[-1] - ends[0]), int(ends[0]))
        relative = ends - ends[0]
        good = check_records(octets, relative[:-1], relative[1:], ledger_id=self.ledger_id, first_entry_id=first)
        return good, octets

    def _bad(self, entry_id: int, ends: Int64Array, row: int) -> BadEntry:
        reason = "the CRC32C does not fit" if ends[row + 1] > ends[row] else "the log does not have it"
        return BadEntry(self.ledger_id, entry_id, str(self.log), int(ends[row]), reason, remedy=ANOTHER_COPY)
