"""Reads the part of an entry log for one task: records of many ledgers in file order, each verified."""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.bookkeeper.wire.digest import BODY_HEADER, DIGEST_BYTES
from delayed_tracker.core.kernels.compiled import position_order
from delayed_tracker.core.values.columns import ENTRY_ID_MAX, BoolArray, Int64Array
from delayed_tracker.ledger.bookkeeper.entry_log import RECORD_SIZE_BYTES, RecordPiece, log_pieces
from delayed_tracker.ledger.bookkeeper.log_files import open_log_file, release_pages
from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from delayed_tracker.ledger.errors import OTHER_BOOKIES, BadEntry
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from delayed_tracker.spark.source.log_splits import LogPart, Share

_DIGEST_BYTES = np.array([0, *(DIGEST_BYTES[digest_type] for digest_type in sorted(DIGEST_BYTES))], np.int64)
""":data:`DIGEST_BYTES` as a column, by digest type."""


@dataclass(frozen=True, slots=True)
class LogEntries:
    """Entries of several ledgers, each once."""

    entries: StoredEntries
    """Entries in no order."""
    topic_no: Int64Array
    """Number of each row's topic."""
    record: Int64Array
    """Offset of each row's record in the log."""
    bad_entries: tuple[BadEntry, ...]


class LogReader:
    """Reader of one part, in a worker."""

    def __init__(self, part: LogPart) -> None:
        """Open the log of the part.

        Raises:
            OSError: it cannot be read.
        """
        self.part = part
        self.topics: list[str] = sorted({topic for topic, _ in part.ledgers.values()})
        self._log, _ = open_log_file(part.file)
        self._copies_of: tuple[Path, bytes | mmap.mmap] | None = None
        self._ids = np.array(sorted(part.ledgers), np.int64)
        numbers = {topic: number for number, topic in enumerate(self.topics)}
        self._topic_no = np.array([numbers[part.ledgers[ledger_id][0]] for ledger_id in self._ids.tolist()], np.int64)
        digests = [part.ledgers[ledger_id][1] for ledger_id in self._ids.tolist()]
        self._kinds: list[LedgerDigest] = list(dict.fromkeys(digests))
        self._kind_no = np.array([self._kinds.index(digest) for digest in digests], np.int64)

    def topic_of(self, ledger_id: int | None) -> str | None:
        """Return the topic of a ledger of this part."""
        return None if ledger_id is None else self.part.ledgers[ledger_id][0]

    def read(self) -> Iterator[LogEntries]:
        """Yield the entries in pieces of about 4 MB, or of one entry if that is larger.

        Raises:
            OSError: a file with a further copy cannot be read.
        """
        octets = np.frombuffer(self._log, np.uint8)
        for share in self.part.shares:
            for records in log_pieces(self._log, str(self.part.file), start=share.start, stop=share.end):
                if len(records):
                    yield from self._entries(octets, _chosen(records, share))
                    release_pages(self._log, int(records.offset[0]), records.end)

    def _entries(self, octets: NDArray[np.uint8], records: RecordPiece) -> Iterator[LogEntries]:
        start = records.offset + RECORD_SIZE_BYTES
        end = start + records.body_size
        ledger_no = np.searchsorted(self._ids, records.ledger_id)
        fitting = self._fitting(octets, start, end, ledger_no)
        first = _first_whole(records, fitting)
        lost = np.empty(0, np.intp)
        if not fitting[first].all():
            rows = np.arange(len(records))[first]
            first, lost = rows[fitting[rows] > 0], rows[fitting[rows] == 0]
        payload_start = start + BODY_HEADER.size + _DIGEST_BYTES[fitting]
        # The log itself, without a copy: slices of a memory map are bytes, and only slices are used.
        buffer = cast("bytes", self._log)
        entries = StoredEntries(buffer, records.ledger_id, records.entry_id, payload_start, end).take(first)
        yield LogEntries(entries, self._topic_no[ledger_no[first]], records.offset[first], ())
        if len(lost):
            yield self._copies(records, lost)

    def _fitting(
        self, octets: NDArray[np.uint8], start: Int64Array, end: Int64Array, ledger_no: NDArray[np.intp]
    ) -> NDArray[np.uint8]:
        """Return the digest type that matches each record, or 0."""
        if len(self._kinds) == 1:
            return self._kinds[0].fitting(octets, start, end)
        fitting = np.zeros(len(start), np.uint8)
        for number, digest in enumerate(self._kinds):
            where = np.flatnonzero(self._kind_no[ledger_no] == number)
            fitting[where] = digest.fitting(octets, start[where], end[where])
        return fitting

    def _copies(self, records: RecordPiece, lost: NDArray[np.intp]) -> LogEntries:
        """Return the entries of damaged records that have an undamaged copy elsewhere; the others are bad."""
        payloads: list[bytes] = []
        positions: list[tuple[int, int, int, int]] = []
        bad: list[BadEntry] = []
        found = {
            ledger_id: self._found(ledger_id, records.entry_id[lost[records.ledger_id[lost] == ledger_id]])
            for ledger_id in np.unique(records.ledger_id[lost]).tolist()
        }
        for row in lost.tolist():
            ledger_id, entry_id, offset = (
                int(column[row]) for column in (records.ledger_id, records.entry_id, records.offset)
            )
            topic, digest = self.part.ledgers[ledger_id]
            payload = found[ledger_id].get(entry_id)
            if payload is None:
                names = " or ".join(digest_type.name for digest_type in digest.types)
                reason = f"the {names} digest does not fit, and no log has a good copy"
                bad.append(BadEntry(ledger_id, entry_id, str(self.part.file), offset, reason, remedy=OTHER_BOOKIES))
            else:
                payloads.append(payload)
                positions.append((ledger_id, entry_id, self.topics.index(topic), offset))
        columns = np.array(positions, np.int64).reshape(-1, 4).T
        copies = StoredEntries.of(0, columns[1].tolist(), payloads)
        entries = StoredEntries(copies.buffer, columns[0], copies.entry_id, copies.start, copies.end)
        return LogEntries(entries, columns[2], columns[3], tuple(bad))

    def _found(self, ledger_id: int, entry_ids: Int64Array) -> dict[int, bytes]:
        """Return the payloads of entries from their first undamaged copies; reads stretches until all are found."""
        _, digest = self.part.ledgers[ledger_id]
        found: dict[int, bytes] = {}
        for stretch in self.part.copies.get(ledger_id, ()):
            for records in log_pieces(
                self._other(stretch.file), str(stretch.file), start=stretch.start, stop=stretch.end
            ):
                rows = np.flatnonzero((records.ledger_id == ledger_id) & np.isin(records.entry_id, entry_ids))
                for row in rows.tolist():
                    start, entry_id = int(records.offset[row]) + RECORD_SIZE_BYTES, int(records.entry_id[row])
                    opened = digest.open(self._other(stretch.file)[start : start + int(records.body_size[row])])
                    if opened is not None:
                        found.setdefault(entry_id, opened[1])
            if len(found) == len(entry_ids):
                break
        return found

    def _other(self, file: Path) -> bytes | mmap.mmap:
        """Return another log. The last one stays open: an archived log is unpacked whole each time it is opened."""
        if self._copies_of is None or self._copies_of[0] != file:
            self._copies_of = file, open_log_file(file)[0]
        return self._copies_of[1]


def _chosen(records: RecordPiece, share: Share) -> RecordPiece:
    """Return the records that the share yields, in file order."""
    whole = np.array([ledger_id for ledger_id, entries in share.entries.items() if entries is None], np.int64)
    # A damaged id may be above those of entries. The plan does not know such a record, and a replica may be whole.
    possible = records.entry_id <= ENTRY_ID_MAX
    if len(whole) == 1 and possible.all() and (records.ledger_id == whole[0]).all():
        return records
    chosen = np.isin(records.ledger_id, whole) & possible
    if len(whole) < len(share.entries):
        order = np.argsort(records.ledger_id, kind="stable")
        sorted_ids = records.ledger_id[order]
        for ledger_id, entries in share.entries.items():
            if entries is not None:
                first, end = np.searchsorted(sorted_ids, [ledger_id, ledger_id + 1])
                rows = order[first:end]
                chosen[rows] = np.isin(records.entry_id[rows], np.array(entries.to_array(), np.int64))
    return RecordPiece(records.table[:, chosen])


def _first_whole(records: RecordPiece, fitting: NDArray[np.uint8]) -> NDArray[np.intp] | slice:
    """Return one row for each position: its first record with a matching digest, else its first record.

    Usually this is all rows.
    """
    ledger_id, entry_id = np.ascontiguousarray(records.ledger_id), np.ascontiguousarray(records.entry_id)
    same = ledger_id[1:] == ledger_id[:-1]
    if ((ledger_id[1:] > ledger_id[:-1]) | (same & (entry_id[1:] > entry_id[:-1]))).all():
        return slice(None)
    order: NDArray[np.intp] = position_order(ledger_id, entry_id)
    # At equal positions, records with a matching digest come first; both sorts keep the order of the log.
    order = order[np.argsort(fitting[order] == 0, kind="stable")]
    order = order[position_order(ledger_id[order], entry_id[order])]
    new: BoolArray = np.ones(len(order), np.bool_)
    new[1:] = (ledger_id[order][1:] != ledger_id[order][:-1]) | (entry_id[order][1:] != entry_id[order][:-1])
    first: NDArray[np.intp] = order[new]
    return first
