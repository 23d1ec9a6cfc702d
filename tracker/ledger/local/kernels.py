"""The local ledgers' compiled kernels: entries to records, records to entries.

:mod:`tracker.core.jit` has the rules for writing one; :mod:`tracker.ledger.local.records` says what the bytes mean.

    record = size i32 || ledger id i64 || entry id i64 || last add confirmed i64 || length i64 || crc32c u32 || payload

Big-endian; the checksum covers the four numbers before it and the payload.
"""

from typing import Final

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from tracker.core.jit import COLUMN, INT64, OCTETS, Kernels

Int64Array = NDArray[np.int64]
UInt8Array = NDArray[np.uint8]
Int = int | np.int64

RECORD_HEADER_BYTES: Final = 40
"""Everything in front of a record's payload."""
_SIZE_BYTES: Final = 4
_NUMBERS_END: Final = 36
_FRAME_BYTES_MAX: Final = 6 + 2 * (1 + 10)

_kernels = Kernels()
warm_up = _kernels.warm_up


def _crc_tables() -> Int64Array:
    """For slicing by 8: row n tells what an octet does to the remainder that is n octets further on."""
    table = np.arange(256, dtype=np.int64)
    for _ in range(8):
        table = (table >> 1) ^ np.where(table & 1, 0x82F63B78, 0)
    tables = [table]
    for _ in range(7):
        tables.append((tables[-1] >> 8) ^ table[tables[-1] & 0xFF])
    return np.array(tables)


_TABLES: Final = _crc_tables()


@register_jitable
def _extend_crc(crc: Int, octets: UInt8Array, start: Int, end: Int) -> Int:
    """Takes octets into a remainder; -1 as 32 bits begins and, flipped, ends a CRC32C."""
    crc = np.int64(crc)
    at = start
    while at + 8 <= end:
        crc ^= (
            np.int64(octets[at])
            | np.int64(octets[at + 1]) << 8
            | np.int64(octets[at + 2]) << 16
            | np.int64(octets[at + 3]) << 24
        )
        crc = (
            _TABLES[7, crc & 0xFF]
            ^ _TABLES[6, (crc >> 8) & 0xFF]
            ^ _TABLES[5, (crc >> 16) & 0xFF]
            ^ _TABLES[4, crc >> 24]
            ^ _TABLES[3, octets[at + 4]]
            ^ _TABLES[2, octets[at + 5]]
            ^ _TABLES[1, octets[at + 6]]
            ^ _TABLES[0, octets[at + 7]]
        )
        at += 8
    while at < end:
        crc = _TABLES[0, (crc ^ np.int64(octets[at])) & 0xFF] ^ (crc >> 8)
        at += 1
    return crc


@register_jitable
def _put_big(octets: UInt8Array, at: Int, value: Int, size: Int) -> Int:
    """Write a number, highest octet first."""
    for place in range(size):
        octets[at + place] = (np.int64(value) >> (8 * (size - 1 - place))) & 0xFF
    return at + size


@register_jitable
def _get_big(octets: UInt8Array, at: Int, size: Int) -> Int:
    """A signed number of ``size`` octets."""
    value = np.int64(octets[at])
    if value >= 0x80:
        value -= 0x100
    for place in range(1, size):
        value = (value << 8) | np.int64(octets[at + place])
    return value


@register_jitable
def _put_varint(octets: UInt8Array, at: Int, value: Int) -> Int:
    rest = np.int64(value)
    # A negative number is the unsigned one of the same 64 bits.
    if rest < 0:
        for _ in range(9):
            octets[at] = (rest & 0x7F) | 0x80
            rest >>= 7
            at += 1
        octets[at] = 1
        return at + 1
    while rest >= 0x80:
        octets[at] = (rest & 0x7F) | 0x80
        rest >>= 7
        at += 1
    octets[at] = rest
    return at + 1


@_kernels.add(COLUMN, INT64, COLUMN, INT64, COLUMN)
def encode_frames(
    stamped: Int64Array, has_timestamp: Int, timestamp: Int64Array, has_index: Int, index: Int64Array
) -> tuple[UInt8Array, Int64Array]:
    """Broker frames one behind the other, and where each ends.

    ``stamped`` tells which rows have a frame; the columns have a row for each of those only.
    """
    octets = np.empty(_FRAME_BYTES_MAX * len(stamped), np.uint8)
    ends = np.empty(len(stamped), np.int64)
    at: Int = 0
    source = 0
    for row in range(len(stamped)):
        if stamped[row]:
            end = at + 6
            if has_timestamp:
                octets[end] = 0x08
                end = _put_varint(octets, end + 1, timestamp[source])
            if has_index:
                octets[end] = 0x10
                end = _put_varint(octets, end + 1, index[source])
            octets[at] = 0x0E
            octets[at + 1] = 0x02
            _put_big(octets, at + 2, end - at - 6, 4)
            at = end
            source += 1
        ends[row] = at
    return octets[:at], ends


@_kernels.add(OCTETS, COLUMN, COLUMN, COLUMN, OCTETS, COLUMN, INT64, INT64, INT64)
def encode_records(  # noqa: PLR0917  # kernels take columns by position
    octets: UInt8Array,
    starts: Int64Array,
    ends: Int64Array,
    entry_ids: Int64Array,
    frames: UInt8Array,
    frame_ends: Int64Array,
    ledger_id: Int,
    last_add_confirmed: Int,
    length: Int,
) -> tuple[UInt8Array, Int64Array]:
    """Records one behind the other, each payload behind its frame, and where each record ends.

    ``length`` is what the ledger's payloads have together before the first of these.
    """
    count = len(starts)
    total: Int = len(frames)
    for row in range(count):
        total += RECORD_HEADER_BYTES + ends[row] - starts[row]
    records = np.empty(total, np.uint8)
    record_ends = np.empty(count, np.int64)
    at: Int = 0
    frame_start: Int = 0
    for row in range(count):
        frame_end = frame_ends[row]
        size = frame_end - frame_start + ends[row] - starts[row]
        length += size
        _put_big(records, at, RECORD_HEADER_BYTES - _SIZE_BYTES + size, 4)
        _put_big(records, at + 4, ledger_id, 8)
        _put_big(records, at + 12, entry_ids[row], 8)
        _put_big(records, at + 20, last_add_confirmed, 8)
        _put_big(records, at + 28, length, 8)
        target = at + RECORD_HEADER_BYTES
        for place in range(frame_start, frame_end):
            records[target] = frames[place]
            target += 1
        for place in range(starts[row], ends[row]):
            records[target] = octets[place]
            target += 1
        crc = _extend_crc(0xFFFFFFFF, records, at + _SIZE_BYTES, at + _NUMBERS_END)
        crc = _extend_crc(crc, records, at + RECORD_HEADER_BYTES, target) ^ 0xFFFFFFFF
        _put_big(records, at + _NUMBERS_END, crc, 4)
        at = target
        record_ends[row] = at
        frame_start = frame_end
    return records, record_ends


@register_jitable
def _record_end(octets: UInt8Array, at: Int, ledger_id: Int) -> Int:
    """Where the whole record of this ledger that starts here ends; -1 when there is none."""
    if at < 0 or at + RECORD_HEADER_BYTES > len(octets):
        return np.int64(-1)
    end = at + _SIZE_BYTES + _get_big(octets, at, 4)
    if end < at + RECORD_HEADER_BYTES or end > len(octets) or _get_big(octets, at + 4, 8) != ledger_id:
        return np.int64(-1)
    crc = _extend_crc(0xFFFFFFFF, octets, at + _SIZE_BYTES, at + _NUMBERS_END)
    crc = _extend_crc(crc, octets, at + RECORD_HEADER_BYTES, end) ^ 0xFFFFFFFF
    if crc != _get_big(octets, at + _NUMBERS_END, 4) & 0xFFFFFFFF:
        return np.int64(-1)
    return np.int64(end)


@_kernels.add(OCTETS, COLUMN, COLUMN, INT64, INT64)
def check_records(
    octets: UInt8Array, starts: Int64Array, ends: Int64Array, ledger_id: Int, first_entry_id: Int
) -> UInt8Array:
    """For each record from an entry on whether it is whole, of the ledger and entry it should be, and ends there."""
    good = np.zeros(len(starts), np.uint8)
    for row in range(len(starts)):
        at = starts[row]
        if _record_end(octets, at, ledger_id) == ends[row]:
            good[row] = _get_big(octets, at + 12, 8) == first_entry_id + row
    return good


@_kernels.add(OCTETS, INT64, INT64)
def walk_records(octets: UInt8Array, ledger_id: Int, next_entry_id: Int) -> tuple[Int64Array, Int64Array]:
    """Whole records one behind the other from the start on, as long as their entry ids ascend.

    Returns: for each its end and its entry id.
    """
    count_max = len(octets) // RECORD_HEADER_BYTES
    ends = np.empty(count_max, np.int64)
    entry_ids = np.empty(count_max, np.int64)
    count = 0
    at: Int = np.int64(0)
    while True:
        end = _record_end(octets, at, ledger_id)
        if end < 0:
            break
        entry_id = _get_big(octets, at + 12, 8)
        if entry_id < next_entry_id:
            break
        ends[count] = end
        entry_ids[count] = entry_id
        count += 1
        next_entry_id = entry_id + 1
        at = end
    return ends[:count], entry_ids[:count]
