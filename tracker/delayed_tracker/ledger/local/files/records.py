"""The log of a local ledger: the format of its entries.

A log is a BookKeeper entry log with one ledger: a header of 1,024 bytes, then one record for each entry. A record is a
size and the body that a BookKeeper client sends, with a CRC32C digest:

    size i32 || ledger id i64 || entry id i64 || last add confirmed i64 || length i64 || crc32c u32 || payload

Numbers are big-endian. The checksum covers the four numbers before it and the payload. Programs that read a bookie's
disk can therefore read these logs, too. Each record contains the last entry that was durable when the record was
written ("last add confirmed"). This number distinguishes a torn end from damage.

The index beside a log holds the end of each entry's record, little-endian i64. The index is only a hint, because each
record contains its own entry id. An entry that ends where the previous one ends has no record.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from delayed_tracker.bookkeeper.wire.digest import BODY_HEADER
from delayed_tracker.core.values.columns import BoolArray, Int64Array
from delayed_tracker.ledger import checksum_kernels
from delayed_tracker.ledger import kernels as log_kernels
from delayed_tracker.ledger.bookkeeper.entry_log import HEADER_BYTES, RECORD_SIZE_BYTES
from delayed_tracker.ledger.entry.interceptors import BrokerMetadataColumns
from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.local.files import kernels
from delayed_tracker.ledger.local.files.kernels import RECORD_HEADER_BYTES

LOG_HEADER: Final = struct.pack(">4siqi", b"BKLO", 1, 0, 0).ljust(HEADER_BYTES, b"\0")
ENTRY_BYTES_MAX: Final = 256 << 20
"""Largest entry with its frame: far above every broker's limit, and low enough that a damaged size does no harm."""
INDEX_ROW_BYTES: Final = 8
LEFT_OUT_MAX: Final = 1 << 24
"""Most entries that a ledger may lack. Damage may claim any number, and each takes 8 index bytes."""

_MAGIC_BYTES: Final = 8
_LEDGER_END: Final = RECORD_SIZE_BYTES + 8
_IDS_END: Final = _LEDGER_END + 8
_DIGEST_START: Final = RECORD_SIZE_BYTES + BODY_HEADER.size
_DIGEST_BYTES: Final = 4
_SIZE: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Payloads:
    """Entries to store: row i is ``buffer[start[i]:end[i]]``."""

    buffer: bytes
    start: Int64Array
    end: Int64Array

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: slice) -> "Payloads":
        """Return some of the rows."""
        return Payloads(self.buffer, self.start[rows], self.end[rows])

    @classmethod
    def of(cls, payloads: Sequence[bytes]) -> "Payloads":
        """Join entries into one buffer. O(bytes)."""
        ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)), dtype=np.int64)
        return cls(b"".join(payloads), np.concatenate([np.zeros(1, np.int64), ends])[:-1], ends)


@dataclass(frozen=True, slots=True)
class Frames:
    """Broker frames, one row for each entry; a row is empty if its entry gets no frame."""

    octets: kernels.UInt8Array
    end: Int64Array

    @classmethod
    def none(cls, row_count: int) -> "Frames":
        """Return empty frames for ``row_count`` entries."""
        return cls(np.empty(0, np.uint8), np.zeros(row_count, np.int64))

    @classmethod
    def of(cls, metadata: BrokerMetadataColumns, stamped: BoolArray) -> "Frames":
        """Encode a frame for each row that is set in ``stamped``; the metadata has rows for those only."""
        nothing = np.empty(0, np.int64)
        timestamp, index = metadata.broker_timestamp_ms, metadata.index
        octets, end = kernels.encode_frames(
            stamped.astype(np.int64),
            int(timestamp is not None),
            nothing if timestamp is None else np.ascontiguousarray(timestamp, np.int64),
            int(index is not None),
            nothing if index is None else np.ascontiguousarray(index, np.int64),
        )
        return cls(octets, end)


def encode_records(
    payloads: Payloads,
    frames: Frames,
    *,
    ledger_id: int,
    entry_ids: Int64Array,
    last_add_confirmed: int,
    length: int,
) -> tuple[memoryview, Int64Array]:
    """Encode entries as records; return the bytes, and the end of each record relative to the start of the first.

    Args:
        payloads: the entries as the clients sent them.
        frames: the broker metadata in front of each entry.
        ledger_id: the ledger that stores the entries.
        entry_ids: the ids of the entries, ascending.
        last_add_confirmed: the ledger's last durable entry.
        length: bytes of all entries of the ledger before these.
    """
    records, ends = kernels.encode_records(
        np.frombuffer(payloads.buffer, np.uint8),
        np.ascontiguousarray(payloads.start),
        np.ascontiguousarray(payloads.end),
        entry_ids,
        frames.octets,
        frames.end,
        ledger_id,
        last_add_confirmed,
        length,
    )
    starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
    crc = checksum_kernels.crc32c_of_bodies(records, starts + RECORD_SIZE_BYTES, ends)
    places = (starts + _DIGEST_START)[:, np.newaxis] + np.arange(_DIGEST_BYTES)
    records[places] = crc.astype(">u4").view(np.uint8).reshape(-1, _DIGEST_BYTES)
    return records.data, ends


def check_records(
    octets: bytes, starts: Int64Array, ends: Int64Array, *, ledger_id: int, first_entry_id: int
) -> BoolArray:
    """Check, for each record, that it is whole, ends at the given place and has the given ledger id and entry id.

    Args:
        octets: the bytes that contain the records.
        starts: the expected start of each record in ``octets``, 0 or more.
        ends: the expected end of each record; any place behind its start.
        ledger_id: the ledger id of all records.
        first_entry_id: the entry id of the first record; it grows by one with each record.
    """
    content = np.frombuffer(octets, np.uint8)
    (offset, body_size, ledger, entry_id, _, _), _ = log_kernels.walk_log(content, 0, len(starts), False)
    # Nearly always all records are good, and this check costs half as much.
    if (
        len(offset) == len(starts)
        and (offset == starts).all()
        and (offset + body_size + RECORD_SIZE_BYTES == ends).all()
        and (body_size >= RECORD_HEADER_BYTES - RECORD_SIZE_BYTES).all()
        and (ledger == ledger_id).all()
        and (entry_id - np.arange(len(starts)) == first_entry_id).all()
    ):
        return _digests_fit(content, offset, ends)
    good: BoolArray = (ends - starts >= RECORD_HEADER_BYTES) & (ends <= len(octets))
    rows = np.flatnonzero(good)
    begin, end = starts[rows], ends[rows]
    words = content[begin[:, np.newaxis] + np.arange(_IDS_END)]
    good[rows] = (
        (words[:, :RECORD_SIZE_BYTES].copy().view(">i4")[:, 0] == end - begin - RECORD_SIZE_BYTES)
        & (words[:, RECORD_SIZE_BYTES:_LEDGER_END].copy().view(">i8")[:, 0] == ledger_id)
        & (words[:, _LEDGER_END:].copy().view(">i8")[:, 0] == first_entry_id + rows)
        & _digests_fit(content, begin, end)
    )
    return good


def walk_records(octets: bytes, *, ledger_id: int, next_entry_id: int) -> tuple[Int64Array, Int64Array]:
    """Find the ledger's whole records from the start of ``octets`` on, adjacent and with ascending entry ids.

    Returns: for each record its end and its entry id.
    """
    content = np.frombuffer(octets, np.uint8)
    rows, _ = log_kernels.walk_log(content, 0, len(octets) // RECORD_HEADER_BYTES, False)
    offset, body_size, ledger, entry_id, _, _ = rows
    ends = offset + RECORD_SIZE_BYTES + body_size
    follows = (ledger == ledger_id) & (body_size >= RECORD_HEADER_BYTES - RECORD_SIZE_BYTES)
    # The walk skips bytes that look like padding, but local logs have no padding.
    follows &= offset == np.concatenate([np.zeros(1, np.int64), ends])[:-1]
    follows &= entry_id > np.concatenate([np.full(1, next_entry_id - 1), entry_id])[:-1]
    count = _leading(follows)
    count = _leading(_digests_fit(content, offset[:count], ends[:count]))
    return ends[:count], entry_id[:count].copy()


def _digests_fit(content: kernels.UInt8Array, starts: Int64Array, ends: Int64Array) -> BoolArray:
    kinds = np.array([checksum_kernels.CRC32C], np.int64)
    fits = checksum_kernels.fitting_digests(content, starts + RECORD_SIZE_BYTES, np.ascontiguousarray(ends), kinds)
    return fits > 0


def _leading(holds: BoolArray) -> int:
    """Return the number of leading True values."""
    return len(holds) if holds.all() else int(np.argmin(holds))


@dataclass(frozen=True, slots=True)
class RecordNumbers:
    """Numbers in front of a record's payload, unchecked."""

    body_size: int
    ledger_id: int
    entry_id: int
    last_add_confirmed: int
    length: int

    @property
    def possible(self) -> bool:
        """True if a record can have this body size."""
        return 0 <= self.body_size - (RECORD_HEADER_BYTES - RECORD_SIZE_BYTES) <= ENTRY_BYTES_MAX

    @classmethod
    def read(cls, descriptor: int, offset: int) -> "RecordNumbers | None":
        """Read the numbers of the record at an offset; return None if the log ends before them.

        Raises:
            OSError: the log cannot be read.
        """
        start = os.pread(descriptor, RECORD_SIZE_BYTES + BODY_HEADER.size, offset)
        if len(start) < RECORD_SIZE_BYTES + BODY_HEADER.size:
            return None
        return cls(*_SIZE.unpack_from(start), *BODY_HEADER.unpack_from(start, RECORD_SIZE_BYTES))


def check_log_header(descriptor: int, path: Path) -> None:
    """Check that a file can be a ledger's log.

    Raises:
        LedgerFileInvalid: the file starts differently; the message names it.
        OSError: the file cannot be read.
    """
    start = os.pread(descriptor, _MAGIC_BYTES, 0)
    if start != LOG_HEADER[:_MAGIC_BYTES]:
        raise LedgerFileInvalid(
            f"{path} does not start as a ledger's log does, but with {start!r}; restore it from a copy"
        )


def read_exactly(descriptor: int, size: int, offset: int) -> bytes:
    """Read ``size`` bytes of a file, or fewer if the file ends before that.

    Raises:
        OSError: the file cannot be read.
    """
    content = os.pread(descriptor, size, offset)
    if len(content) == size or not content:
        return content
    # One call to the system reads at most 2 GB.
    pieces = [content]
    while (missing := size - sum(map(len, pieces))) and (
        piece := os.pread(descriptor, missing, offset + size - missing)
    ):
        pieces.append(piece)
    return b"".join(pieces)
