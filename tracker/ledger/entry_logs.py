"""All entry logs of one or more bookies as one place to read ledgers from.

The same entry may lie in the logs several times: on several bookies, written again by ledger recovery, copied by
compaction, replayed from the journal. The copies have the same payload; the first whose digest fits is taken. Ledgers
that were deleted linger, and entries may lie beyond a ledger's end: what to read is for the ledger's metadata to say.
"""

import gzip
import mmap
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from tracker.core.columns import BoolArray, Int64Array
from tracker.core.errors import InvalidInput
from tracker.ledger.digest import LedgerDigest
from tracker.ledger.entry_log import HEADER_BYTES, RECORD_SIZE_BYTES, LogRecords, scan_log
from tracker.ledger.errors import BadEntry
from tracker.ledger.stored_entries import LedgerEntries, StoredEntries

Progress = Callable[[int, int], None]
"""Called with (done, in all) now and then, and once at the end."""

_LOG_NAME: Final = re.compile(r"([0-9a-f]+)\.log(\.gz)?")
_GZIP_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Every entry record of every log, in log order."""

    file_no: NDArray[np.int32]
    """Which of ``EntryLogs.files``."""
    offset: Int64Array
    body_size: Int64Array
    ledger_id: Int64Array
    entry_id: Int64Array
    last_add_confirmed: Int64Array
    length: Int64Array

    def __len__(self) -> int:
        return len(self.offset)


class EntryLogs:
    """The entry logs found in some directories; open until :meth:`close`.

    Not thread-safe. Keeps 52 bytes per record in memory and the plain files mapped; gzip ones are held unpacked.
    """

    def __init__(
        self,
        files: Sequence[Path],
        logs: Sequence[bytes | mmap.mmap],
        records: RecordColumns,
        *,
        damage: Sequence[BadEntry] = (),
        truncated: Sequence[tuple[Path, int]] = (),
    ) -> None:
        self.files = tuple(files)
        self.records = records
        self.damage = tuple(damage)
        """Stretches of files that hold no records though they should. Entries lost there show up as missing."""
        self.truncated = tuple(truncated)
        """Files whose last record is cut short, as a crash leaves them, with its offset: normal for a dead bookie."""
        self._logs = list(logs)
        self._order = np.lexsort((records.entry_id, records.ledger_id))
        self._ledger_sorted = records.ledger_id[self._order]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unmap the files. What was read stays valid; reading more does not work."""
        _close(self._logs)

    def ledger_ids(self) -> Int64Array:
        """Every ledger that has a record here, ascending; deleted ones included."""
        return np.unique(self._ledger_sorted)

    def last_add_confirmed(self, ledger_id: int, digest: LedgerDigest) -> int:
        """The highest entry that a writer knew to be acknowledged; -1 when there is none. Damaged records do not count.

        Cost: O(records of the ledger).
        """
        rows = self._rows(ledger_id)
        for row in rows[np.argsort(-self.records.last_add_confirmed[rows], kind="stable")].tolist():
            if digest.open(self._body(row)) is not None:
                return int(self.records.last_add_confirmed[row])
        return -1

    def last_without_gap(self, ledger_id: int, after: int) -> int:
        """The last of the entries after + 1, after + 2, ... that all have a record here; ``after`` when none has."""
        present = np.unique(self.records.entry_id[self._rows(ledger_id)])
        beyond = present[present > after]
        run = beyond == np.arange(after + 1, after + 1 + len(beyond))
        return after + (int(np.argmin(run)) if not run.all() else len(beyond))

    def read(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> LedgerEntries:
        """Entries ``first`` to ``last`` of a ledger, both included.

        Args:
            ledger_id: any; a ledger without records reads as missing entries.
            first: 0 or more.
            last: below ``first`` for nothing at all.
            digest: of that ledger, from its metadata.
        Cost: O(records of the ledger + bytes read).
        """
        rows = self._rows(ledger_id)
        ids = self.records.entry_id[rows]
        start, end = np.searchsorted(ids, [first, max(last, first - 1) + 1])
        entry_ids: list[int] = []
        payloads: list[bytes] = []
        damaged: dict[int, int] = {}
        done = -1
        for row, entry_id in zip(rows[start:end].tolist(), ids[start:end].tolist(), strict=True):
            if entry_id == done:
                continue
            opened = digest.open(self._body(row))
            if opened is None:
                damaged.setdefault(entry_id, row)
                continue
            done = entry_id
            entry_ids.append(entry_id)
            payloads.append(opened[1])
        lost = _absent(entry_ids, first, last)
        bad = [
            self._damaged_entry(ledger_id, entry_id, damaged[entry_id], digest)
            for entry_id in lost
            if entry_id in damaged
        ]
        bad += self._missing(ledger_id, [entry_id for entry_id in lost if entry_id not in damaged])
        bad.sort(key=lambda entry: -1 if entry.entry_id is None else entry.entry_id)
        return LedgerEntries(StoredEntries.of(ledger_id, entry_ids, payloads), tuple(bad))

    def locate(self, ledger_id: int, entry_id: int) -> tuple[Path, int] | None:
        """File and offset of an entry's first record."""
        rows = self._rows(ledger_id)
        at = int(np.searchsorted(self.records.entry_id[rows], entry_id))
        if at == len(rows) or self.records.entry_id[rows[at]] != entry_id:
            return None
        return self.files[self.records.file_no[rows[at]]], int(self.records.offset[rows[at]])

    def check_digests(self, digest_of: Callable[[int], LedgerDigest]) -> tuple[NDArray[np.uint8], BoolArray]:
        """For each record, in order, the digest type that fits (0 for none) and whether one does. O(bytes)."""
        fits = np.zeros(len(self.records), np.uint8)
        digests = {ledger_id: digest_of(ledger_id) for ledger_id in self.ledger_ids().tolist()}
        for row, ledger_id in enumerate(self.records.ledger_id.tolist()):
            opened = digests[ledger_id].open(self._body(row))
            if opened is not None:
                fits[row] = opened[0]
        return fits, fits > 0

    def _rows(self, ledger_id: int) -> NDArray[np.intp]:
        """Rows of a ledger, ascending by entry, copies in log order."""
        start, end = np.searchsorted(self._ledger_sorted, [ledger_id, ledger_id + 1])
        return self._order[start:end]

    def _body(self, row: int) -> bytes:
        start = int(self.records.offset[row]) + RECORD_SIZE_BYTES
        body: bytes = self._logs[self.records.file_no[row]][start : start + int(self.records.body_size[row])]
        return body

    def _missing(self, ledger_id: int, entry_ids: list[int]) -> list[BadEntry]:
        """One row for each run of missing entries."""
        # Where they went is not known, but a file that is not whole is where to look first.
        places = [f"{file} is cut short at byte {offset}" for file, offset in self.truncated]
        places += [f"{place.file} is damaged at byte {place.offset}" for place in self.damage]
        more = f" and {len(places) - 1} places more" if len(places) > 1 else ""
        reason = f"no log has it; {places[0]}{more}" if places else "no log has it"
        ids = np.array(entry_ids, np.int64)
        runs = np.split(ids, np.flatnonzero(np.diff(ids) != 1) + 1)
        return [BadEntry(ledger_id, int(run[0]), None, None, reason, entry_count=len(run)) for run in runs if len(run)]

    def _damaged_entry(self, ledger_id: int, entry_id: int, row: int, digest: LedgerDigest) -> BadEntry:
        names = " or ".join(digest_type.name for digest_type in digest.types)
        return BadEntry(
            ledger_id,
            entry_id,
            str(self.files[self.records.file_no[row]]),
            int(self.records.offset[row]),
            f"the {names} digest does not fit, and no log has a good copy",
        )


def open_entry_logs(directories: Sequence[str | Path], *, progress: Progress | None = None) -> EntryLogs:
    """Open the entry logs of one or more bookies.

    Args:
        directories: ledger directories (or the ``current`` directory inside, or single logs), of all bookies
            together. Logs are ``<hex id>.log``, or ``.log.gz`` as an archive keeps them.
        progress: called with bytes scanned and bytes in all.
    Raises:
        InvalidInput: a directory does not exist or has no logs.
        LedgerFileInvalid: a file is no entry log, or of a newer version.
        OSError: a file cannot be read.
    Cost: O(records); plain files are mapped, not read.
    """
    if not directories:
        raise InvalidInput("log_directories", list(directories), "give at least one ledger directory of a bookie")
    files: list[Path] = []
    for directory in map(Path, directories):
        found = [directory] if directory.is_file() else _find_logs(directory)
        if not found:
            raise InvalidInput(
                "log_directories", str(directory), "give a directory with entry logs: <hex id>.log or <hex id>.log.gz"
            )
        files += [file for file in found if file not in files]
    logs: list[bytes | mmap.mmap] = []
    try:
        return _scan_all(files, logs, progress)
    except BaseException:
        _close(logs)
        raise


def _scan_all(files: Sequence[Path], logs: list[bytes | mmap.mmap], progress: Progress | None) -> EntryLogs:
    """Open and scan the files one by one; ``logs`` grows so that the caller can close what was opened."""
    sizes = [file.stat().st_size for file in files]
    damage: list[BadEntry] = []
    truncated: list[tuple[Path, int]] = []
    parts: list[LogRecords] = []
    for file_no, file in enumerate(files):
        log, wrapping = _open_log(file)
        logs.append(log)
        part = scan_log(log, str(file))
        parts.append(part)
        if wrapping is not None:
            damage.append(BadEntry(None, None, str(file), len(log), wrapping))
        damage += [
            BadEntry(place.ledger_id, place.entry_id, str(file), place.offset, place.reason) for place in part.damage
        ]
        if part.truncated_at is not None:
            truncated.append((file, part.truncated_at))
        if progress is not None:
            progress(sum(sizes[: file_no + 1]), sum(sizes))
    records = RecordColumns(
        file_no=np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts]),
        offset=np.concatenate([part.offset for part in parts]),
        body_size=np.concatenate([part.body_size for part in parts]),
        ledger_id=np.concatenate([part.ledger_id for part in parts]),
        entry_id=np.concatenate([part.entry_id for part in parts]),
        last_add_confirmed=np.concatenate([part.last_add_confirmed for part in parts]),
        length=np.concatenate([part.length for part in parts]),
    )
    return EntryLogs(files, logs, records, damage=damage, truncated=truncated)


def _close(logs: list[bytes | mmap.mmap]) -> None:
    for log in logs:
        if isinstance(log, mmap.mmap):
            log.close()
    logs.clear()


def _find_logs(directory: Path) -> list[Path]:
    if (directory / "current").is_dir():
        directory /= "current"
    if not directory.is_dir():
        raise InvalidInput("log_directories", str(directory), "give a directory that exists")
    found = [(match, file) for file in directory.iterdir() if (match := _LOG_NAME.fullmatch(file.name)) is not None]
    return [file for _, file in sorted(found, key=lambda pair: (int(pair[0][1], 16), pair[1].name))]


def _open_log(file: Path) -> tuple[bytes | mmap.mmap, str | None]:
    """The log's bytes, and what is wrong with its gzip wrapping."""
    if file.suffix == ".gz":
        return _gunzip(file)
    with file.open("rb") as opened:
        size = file.stat().st_size
        # A file that ends within the header may be empty, which cannot be mapped.
        if size <= HEADER_BYTES:
            return opened.read(), None
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), None


def _gunzip(file: Path) -> tuple[bytes, str | None]:
    pieces = []
    try:
        with gzip.open(file) as unpacked:
            while piece := unpacked.read1(_GZIP_PIECE_BYTES):
                pieces.append(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return b"".join(pieces), f"the gzip file is cut short or damaged: {error}"
    return b"".join(pieces), None


def _absent(present: list[int], first: int, last: int) -> list[int]:
    if len(present) == last - first + 1:
        return []
    expected = np.arange(first, last + 1)
    absent: list[int] = np.setdiff1d(expected, np.array(present, np.int64), assume_unique=True).tolist()
    return absent
