"""One ledger as Pulsar's filesystem driver stores it: a Hadoop MapFile, which is a directory of ``data`` and ``index``.

Key -1 holds the ledger's metadata, keys 0 to n the entries. ``index`` has the offset of every 128th key, or of every
block. A ledger without an index is scanned once, when it is first read out of order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import BadEntry, LedgerFileInvalid
from delayed_tracker.ledger.offload.entry_rows import Damage, DamageKind, EntryRows, joined, ledger_entries
from delayed_tracker.ledger.offload.ledger_segment import LedgerSegment, parse_segment
from delayed_tracker.ledger.offload.local_file import LocalFile, open_local_file
from delayed_tracker.ledger.offload.map_file_index import MapFileIndex, index_path, open_index
from delayed_tracker.ledger.offload.recent_rows import RecentRows
from delayed_tracker.ledger.offload.sequence_blocks import SequenceBlocks
from delayed_tracker.ledger.offload.sequence_file import BYTES_WRITABLE, Compression, SequenceHeader, read_header
from delayed_tracker.ledger.offload.sequence_records import SequenceRecords

_METADATA_KEY: Final = -1
_READ_BYTES: Final = 1 << 16
_SCAN_BYTES: Final = 4 << 20


@dataclass(slots=True)
class MapFileLedger:
    """Ledger in a MapFile; implements :class:`~delayed_tracker.ledger.topic.topic_log.Ledger`.

    Files are open only while they are read.
    """

    ledger_id: int
    segment: LedgerSegment
    """Metadata of the ledger, as the file contains it."""
    last_entry_id: int
    file: LocalFile
    header: SequenceHeader
    recent: RecentRows
    _index: MapFileIndex | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Callable[..., "MapFileLedger"], tuple[object, ...]]:
        """Open the ledger again in the process that unpickles it."""
        return open_map_file, (self.file.path.parent, self.ledger_id, RecentRows())

    @property
    def payload_bytes(self) -> int | None:
        """Bytes of all payloads, as BookKeeper counted them when the ledger was closed."""
        return self.segment.payload_bytes

    @property
    def closed(self) -> bool:
        """Always True: the driver offloads closed ledgers only."""
        return True

    @property
    def lacks_digests(self) -> bool:
        """Always True: brokers copy entries to tiered storage without the bookies' digests."""
        return True

    def read(self, first: int, last: int) -> LedgerEntries:
        """Read entries ``first`` to ``last``.

        Raises:
            LedgerFileInvalid: the index is damaged.
        Cost: O(the range and 128 records, or one block, before it); without an index the file is scanned once.
        """
        return joined(self._entries(first, last, _READ_BYTES, self.recent))

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        """Yield the same range by blocks, or in pieces of up to 4 MB."""
        return self._entries(first, last, _SCAN_BYTES, None)

    def locate(self, entry_id: int) -> tuple[str, int] | None:
        """Return file and offset of an entry's record, or of the block that contains it; None if damage hides it."""
        try:
            key, at = self._before(entry_id)
        except LedgerFileInvalid:
            key, at = _METADATA_KEY, self.header.end
        if self.header.compression is Compression.BLOCK:
            blocks = SequenceBlocks(self.file, self.header, self.recent)
            found = blocks.locate(at, _first_key(self.header, key, at), entry_id, piece_bytes=_READ_BYTES)
        else:
            found = SequenceRecords(self.file, self.header).locate(at, key, entry_id, piece_bytes=_READ_BYTES)
        return None if found is None else (self.file.name, found)

    def index_damage(self) -> BadEntry | None:
        """Check ``index`` and its checksums. Return the damage, or None; also None if the file does not exist.

        Cost: O(index).
        """
        if not index_path(self.file).exists():
            return None
        try:
            open_index(self.file, self.header, self.last_entry_id)
        except LedgerFileInvalid as error:
            return BadEntry(self.ledger_id, None, None, None, error.message, entry_count=0)
        return None

    def _entries(self, first: int, last: int, piece_bytes: int, recent: RecentRows | None) -> Iterator[LedgerEntries]:
        found = self._walk(first, last, piece_bytes, recent)
        return ledger_entries(self.ledger_id, found, first, last, file=self.file.name)

    def _walk(self, first: int, last: int, piece_bytes: int, recent: RecentRows | None) -> Iterator[EntryRows | Damage]:
        if last < first:
            return
        key, at = self._before(first)
        # Read one entry more than the last, because only the metadata states which entry is the last.
        through = last + 1 if last == self.last_entry_id else last
        found = _walk((self.file, self.header, recent), (key, at), first, through, piece_bytes)
        for part in found if at == self.header.end else _checked(found, self.file, key, at, first):
            if isinstance(part, EntryRows) and part.last > last:
                yield part.within(first, last)
                if last == self.last_entry_id:
                    reason = f"by the metadata that lies here entry {last} is the last, but {last + 1} follows it"
                    yield Damage(self.file.name, self.header.end, reason, DamageKind.BEYOND_END)
            else:
                yield part

    def _before(self, entry_id: int) -> tuple[int, int]:
        """Return a key at or before an entry, and its offset: the place where the search for the entry begins."""
        # Entries in the first records are found as quickly without the index.
        if entry_id < MapFileIndex.KEY_INTERVAL:
            return _METADATA_KEY, self.header.end
        if self._index is None:
            self._index = open_index(self.file, self.header, self.last_entry_id)
        return self._index.before(entry_id)


def open_map_file(directory: Path, ledger_id: int, recent: RecentRows) -> MapFileLedger:
    """Open a ledger: read the file's header and the ledger's metadata.

    Args:
        directory: the directory with ``data``, and with ``index`` if it was not lost.
        ledger_id: the id from the directory's name; the file does not contain it.
        recent: the cache of inflated blocks.
    Raises:
        LedgerFileInvalid: the directory is not a ledger's MapFile, or the metadata is damaged.
        OSError: a file cannot be read.
    """
    file = open_local_file(directory / "data")
    header = read_header(file, value_class=BYTES_WRITABLE)
    start = _METADATA_KEY, header.end
    for found in _walk((file, header, None), start, _METADATA_KEY, _METADATA_KEY, _READ_BYTES):
        if isinstance(found, Damage):
            raise LedgerFileInvalid(f"{file.name} at byte {found.offset}, the ledger's metadata: {found.reason}")
        rows = found.within(_METADATA_KEY, _METADATA_KEY)
        if len(rows):
            stored = rows.buffer[int(rows.start[0]) : int(rows.end[0])]
            segment = parse_segment(stored, f"{file.name} at byte {header.end}")
            return MapFileLedger(ledger_id, segment, segment.last_entry_id or 0, file, header, recent)
    raise LedgerFileInvalid(
        f"{file.name} at byte {header.end}: the ledger's metadata, the record of key -1, is not there"
    )


def _walk(
    layout: tuple[LocalFile, SequenceHeader, RecentRows | None],
    start: tuple[int, int],
    first: int,
    last: int,
    piece_bytes: int,
) -> Iterator[EntryRows | Damage]:
    file, header, recent = layout
    key, at = start
    if header.compression is Compression.BLOCK:
        blocks = SequenceBlocks(file, header, recent)
        return blocks.walk(at, _first_key(header, key, at), first=first, last=last, piece_bytes=piece_bytes)
    return SequenceRecords(file, header).walk(at, key, first=first, last=last, piece_bytes=piece_bytes)


def _first_key(header: SequenceHeader, key: int, at: int) -> int | None:
    """Return the first key of the block at an index row's offset; None if it must be read from the block."""
    # The index has the first key that was added after the block had begun; the block may also contain keys before it.
    return key if at == header.end else None


def _checked(
    found: Iterator[EntryRows | Damage], file: LocalFile, key: int, at: int, first: int
) -> Iterator[EntryRows | Damage]:
    """Yield the results of a walk from an index row's offset; add damage if the entry there is another one."""
    begin = next(found, None)
    if begin is None:
        return
    if isinstance(begin, Damage) and begin.offset == at:
        begin = replace(begin, reason=f"{begin.reason}; by the index entry {key} should")
    elif isinstance(begin, EntryRows) and begin.first > first:
        yield Damage(file.name, at, f"entry {begin.first} found where the index expects entry {key}")
    yield begin
    yield from found
