"""Compiled kernels that read entries: log records, frames, metadata.

:mod:`delayed_tracker.core.kernels.jit` has the rules for kernels. A kernel takes many entries in one buffer and handles
the forms that writers of ledgers use. It never reports damage: it leaves a record or an entry of any other form to the
caller, whose Python parser decides. So the kernels need to be right only about what they accept.

Source: Commands.java (frames); DefaultEntryLogger.scanEntryLog (records).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.kernels.jit import BOOLEAN, COLUMN, INT64, OCTETS, Kernels, jitable
from delayed_tracker.core.kernels.prefetch import CACHE_LINE_BYTES, prefetch, prefetch_behind

Int64Array = NDArray[np.int64]
UInt8Array = NDArray[np.uint8]
UInt32Array = NDArray[np.uint32]
Int = int | np.int64

BROKER_FRAME: Final = 1 << 0
BROKER_TIMESTAMP: Final = 1 << 1
INDEX: Final = 1 << 2
CHECKSUM: Final = 1 << 3
DELAYED: Final = 1 << 4
MARKER: Final = 1 << 5
TRANSACTION: Final = 1 << 6
BATCH: Final = 1 << 7
CHUNK: Final = 1 << 8
ENCRYPTED: Final = 1 << 9
"""Flags of an entry, described by :class:`delayed_tracker.ledger.entry.entry_columns.EntryFlag`."""

_INTERNAL_LEDGER: Final = -1
LEDGER_ID_LIKELY_MAX: Final = 1 << 56
"""Ledger ids count up from 0, so an id this large is a size field read at the wrong byte."""
_BODY_HEADER_BYTES: Final = 32
_ENTRIES_AHEAD: Final = 8
_RECORD_BYTES_MIN: Final = 4 + _BODY_HEADER_BYTES

_BROKER_TIMESTAMP: Final = 0
_INDEX: Final = 1
_PUBLISH_TIME: Final = 2
_DELIVER_AT: Final = 3
_NUM_MESSAGES: Final = 4
_MARKER_TYPE: Final = 5
_TXN_MOST: Final = 6
_TXN_LEAST: Final = 7
_COMPRESSION: Final = 8
_UNCOMPRESSED_SIZE: Final = 9
_PAYLOAD_START: Final = 10
_CHECKED_START: Final = 11
_CRC: Final = 12
_VALUE_COUNT: Final = 13
"""Rows of the values that :func:`scan_frames` returns."""

_REQUIRED_FIELDS: Final = 7
"""One bit for each of the fields 1 to 3."""
_TXN_MOST_FIELD: Final = 1 << 30
_TXN_LEAST_FIELD: Final = 1 << 29
_BOTH_TXN_FIELDS: Final = _TXN_MOST_FIELD | _TXN_LEAST_FIELD
_BATCH_INDEXES: Final = 31
"""The one repeated number. It would be packed if its wire type is bytes."""
_COMPRESSION_MAX: Final = 4

_KEY: Final = 0x0A
_VALUE: Final = 0x12
"""Tags of the fields of a property."""
_VARINT: Final = 0
_FIXED_64: Final = 1
_BYTES: Final = 2
_FIXED_32: Final = 5

_ZERO: Int = np.int64(0)

KERNELS: Final = Kernels()


@jitable(forceinline=True)
def _octet(octets: UInt8Array, at: Int) -> Int:
    # An unsigned index needs no check for a negative index.
    return np.int64(octets[np.uintp(at)])


@jitable(forceinline=True)
def _big_32(octets: UInt8Array, at: Int) -> Int:
    high = _octet(octets, at) << 24 | _octet(octets, at + 1) << 16
    return high | _octet(octets, at + 2) << 8 | _octet(octets, at + 3)


@jitable(forceinline=True)
def _signed_32(value: Int) -> Int:
    """Return the lowest 32 bits as a signed number."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@jitable(forceinline=True)
def _big_64(octets: UInt8Array, at: Int) -> Int:
    return _signed_32(_big_32(octets, at)) << 32 | _big_32(octets, at + 4)


@KERNELS.add(OCTETS, INT64, INT64, BOOLEAN)
def walk_log(octets: UInt8Array, position: int, count_max: int, direct: bool) -> tuple[Int64Array, Int]:
    """Return the records of an entry log from a position on, up to the first record that needs a closer check.

    Args:
        octets: the whole log.
        position: offset of a size field; may be the end.
        count_max: stop after this many entries.
        direct: True if the log was written past the page cache.
    Returns: a column for each entry, with the rows offset, body size, ledger id, entry id, last add confirmed, length;
        and the offset of the first record that was not read, which equals ``position`` if none was read.
    """
    records = np.empty((6, count_max), np.int64)
    count = 0
    at = np.int64(position)
    ahead: Int = at
    while count < count_max and at + _RECORD_BYTES_MIN <= len(octets):
        ahead = prefetch_behind(octets, at, ahead)
        size = _signed_32(_big_32(octets, at))
        if size < 0 and not direct:
            # Padding that is not zero is crossed byte by byte.
            at += 1
            continue
        if size < _BODY_HEADER_BYTES or at + 4 + size > len(octets):
            break
        ledger_id = _big_64(octets, at + 4)
        entry_id = _big_64(octets, at + 12)
        if ledger_id == _INTERNAL_LEDGER:
            at += 4 + size
            continue
        if ledger_id < 0 or ledger_id >= LEDGER_ID_LIKELY_MAX or entry_id < 0:
            break
        records[0, count] = at
        records[1, count] = size
        records[2, count] = ledger_id
        records[3, count] = entry_id
        records[4, count] = _big_64(octets, at + 20)
        records[5, count] = _big_64(octets, at + 28)
        count += 1
        at += 4 + size
    return records[:, :count].copy(), at


@KERNELS.add(OCTETS, COLUMN, COLUMN)
def gather(octets: UInt8Array, start: Int64Array, end: Int64Array) -> UInt8Array:
    """Copy the byte ranges from ``start`` to ``end`` one behind the other."""
    gathered = np.empty((end - start).sum(), np.uint8)
    at = 0
    for row in range(len(start)):
        size = end[row] - start[row]
        first = start[row]
        # Six times as fast as assigning a slice.
        for place in range(size):
            gathered[np.uintp(at + place)] = octets[np.uintp(first + place)]
        at += size
    return gathered


@jitable(forceinline=True)
def _little_32(octets: UInt8Array, at: Int) -> Int:
    low = _octet(octets, at) | _octet(octets, at + 1) << 8
    return low | _octet(octets, at + 2) << 16 | _octet(octets, at + 3) << 24


@jitable(forceinline=True)
def _varint(octets: UInt8Array, at: Int, end: Int) -> tuple[Int, Int]:
    """Return the 64 bits of a varint and its end. The end is -1 if it is cut short or has more than ten octets."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    value = _octet(octets, at)
    if value < 0x80:
        return value, at + 1
    # Most long varints are times, which have six octets.
    if end - at >= 6:
        word = _little_32(octets, at + 1)
        last = _octet(octets, at + 5)
        if word & 0x80808080 == 0x80808080 and last < 0x80:
            middle = (word & 0x7F) | (word & 0x7F00) >> 1 | (word & 0x7F0000) >> 2 | (word & 0x7F000000) >> 3
            return (value & 0x7F) | middle << 7 | last << 35, at + 6
    return _long_varint(octets, at, end)


@jitable()
def _long_varint(octets: UInt8Array, at: Int, end: Int) -> tuple[Int, Int]:
    value = np.int64(0)
    shift = 0
    while at < end and shift < 70:
        octet = _octet(octets, at)
        at += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value, at
        shift += 7
    return value, np.int64(-1)


@jitable(forceinline=True)
def _tag(octets: UInt8Array, at: Int, end: Int) -> tuple[Int, Int]:
    """Return a tag of one octet, or of two if one is too few, and its end; 0 for any other. ``at`` is below ``end``."""
    tag = _octet(octets, at)
    at += 1
    if tag >= 0x80:
        high = _octet(octets, at) if at < end else np.int64(0x80)
        tag = (tag & 0x7F) | high << 7 if 0 < high < 0x80 else np.int64(0)
        at += 1
    return (tag if tag >> 3 else np.int64(0)), at


@jitable()
def _skip(octets: UInt8Array, wire_type: Int, at: Int, end: Int) -> Int:
    """Return the end of a field's value, or -1. Groups are not skipped."""
    if wire_type == _VARINT:
        _, at = _varint(octets, at, end)
    elif wire_type == _BYTES:
        size, at = _varint(octets, at, end)
        at = at + size if at >= 0 and 0 <= size <= end - at else np.int64(-1)
    elif wire_type == _FIXED_64:
        at += 8
    elif wire_type == _FIXED_32:
        at += 4
    else:
        at = np.int64(-1)
    return at if at <= end else np.int64(-1)


@jitable()
def _skip_field(octets: UInt8Array, at: Int, end: Int) -> Int:
    """Return the end of the field whose tag is at ``at``, or -1."""
    tag, at = _tag(octets, at, end)
    return _skip(octets, tag & 7, at, end) if tag else np.int64(-1)


@jitable(forceinline=True)
def _has_key_and_value(octets: UInt8Array, at: Int, end: Int) -> bool:
    """Return True if a message consists of fields 1 and 2, both of bytes, each at least once."""
    # Nearly all are a short key and a short value.
    if end - at >= 4:
        second = at + 2 + _octet(octets, at + 1)
        if second + 2 <= end and _octet(octets, at) == _KEY and _octet(octets, second) == _VALUE:
            size = _octet(octets, second + 1)
            if second < at + 2 + 0x80 and size < 0x80 and second + 2 + size == end:
                return True
    return _has_long_key_and_value(octets, at, end)


@jitable()
def _has_long_key_and_value(octets: UInt8Array, at: Int, end: Int) -> bool:
    seen: Int = 0
    while 0 <= at < end:
        tag, at = _tag(octets, at, end)
        if tag == _KEY:
            seen |= 1
        elif tag == _VALUE:
            seen |= 2
        else:
            return False
        at = _skip(octets, _BYTES, at, end)
    return at == end and seen == 3


@KERNELS.add(OCTETS, COLUMN, COLUMN)
def scan_frames(
    octets: UInt8Array, start: Int64Array, end: Int64Array
) -> tuple[NDArray[np.bool_], UInt32Array, Int64Array]:
    """Read the frames and metadata of topic entries.

    Returns: a mask of the entries that were decided (the other results are undefined for the rest); their flags; and a
        column for each entry with the rows broker timestamp, index, publish time, deliver at, number of messages,
        marker type, most and least significant bits of the transaction id, compression, uncompressed size, start of the
        payload, start of the bytes that the checksum covers, and the checksum. Without a checksum, the last two are the
        end and -1.
    """
    count = len(start)
    decided = np.zeros(count, np.bool_)
    all_flags = np.zeros(count, np.uint32)
    values = np.empty((_VALUE_COUNT, count), np.int64)
    for number in range(count):
        row = np.uintp(number)
        at, stop = start[row], end[row]
        if number + _ENTRIES_AHEAD < count:
            coming = start[np.uintp(number + _ENTRIES_AHEAD)]
            prefetch(octets, coming)
            prefetch(octets, coming + CACHE_LINE_BYTES)
        values[_CHECKED_START, row] = stop
        values[_CRC, row] = -1
        flags = _ZERO

        # Broker metadata, if any. Both parts are read in this function: passing arrays on to others, and storing values
        # as they are read, takes twice the time.
        timestamp = index = _ZERO
        if stop - at >= 6 and _octet(octets, at) == 0x0E and _octet(octets, at + 1) == 0x02:
            size = _signed_32(_big_32(octets, at + 2))
            at += 6
            if size < 0 or size > stop - at:
                continue
            flags |= BROKER_FRAME
            part_end = at + size
            while 0 <= at < part_end:
                tag = _octet(octets, at)
                if tag == 1 << 3 | _VARINT:
                    timestamp, at = _varint(octets, at + 1, part_end)
                    flags |= BROKER_TIMESTAMP
                elif tag == 2 << 3 | _VARINT:
                    index, at = _varint(octets, at + 1, part_end)
                    flags |= INDEX
                else:
                    at = _skip_field(octets, at, part_end)
            if at < 0:
                continue
        crc = _ZERO - 1
        checked_start = stop
        if stop - at >= 6 and _octet(octets, at) == 0x0E and _octet(octets, at + 1) == 0x01:
            crc = _big_32(octets, at + 2)
            at += 6
            checked_start = at
            flags |= CHECKSUM

        # Message metadata.
        if stop - at < 4:
            continue
        size = _big_32(octets, at)
        at += 4
        if size > stop - at:
            continue
        part_end = at + size
        publish_time = deliver_at = marker_type = txn_most = txn_least = compression = plain_size = _ZERO
        num_messages = _ZERO + 1
        required = _ZERO
        while 0 <= at < part_end:
            tag = _octet(octets, at)
            at += 1
            if tag >= 0x80:
                high = _octet(octets, at) if at < part_end else np.int64(0x80)
                at += 1
                # Tags of more than two octets are left to the caller, as are those of field 0.
                tag = (tag & 0x7F) | high << 7 if high < 0x80 else np.int64(0)
            field = tag >> 3
            if tag & 7 == _VARINT:
                value, at = _varint(octets, at, part_end)
                if field == 2:
                    required |= 2
                elif field == 3:
                    required |= 4
                    publish_time = value
                elif field == 8:
                    # An unknown enum value makes an unknown field.
                    if 0 <= value <= _COMPRESSION_MAX:
                        compression = value
                    elif value < 0 or value > 0x7F:
                        at = np.int64(-1)
                elif field == 9:
                    plain_size = value & 0xFFFFFFFF
                elif field == 11:
                    num_messages = _signed_32(value)
                    flags |= BATCH
                elif field == 19:
                    deliver_at = value
                    flags |= DELAYED
                elif field == 20:
                    marker_type = _signed_32(value)
                    flags |= MARKER
                elif field == 22:
                    txn_least = value
                    flags |= _TXN_LEAST_FIELD
                elif field == 23:
                    txn_most = value
                    flags |= _TXN_MOST_FIELD
                elif field == 27:
                    # The last one counts.
                    flags = flags | CHUNK if _signed_32(value) > 1 else flags & ~CHUNK
                elif field == 0:
                    at = np.int64(-1)
            elif tag & 7 == _BYTES:
                size, at = _varint(octets, at, part_end)
                is_plain = at >= 0 and 0 <= size <= part_end - at
                if field == 0:
                    is_plain = False
                elif field == 1:
                    required |= 1
                elif field == 4:
                    is_plain = is_plain and _has_key_and_value(octets, at, at + size)
                elif field == 13:
                    is_plain = is_plain and _has_key_and_value(octets, at, at + size)
                    flags |= ENCRYPTED
                elif field == _BATCH_INDEXES:
                    is_plain = False
                at = at + size if is_plain else np.int64(-1)
            else:
                at = _skip(octets, tag & 7, at, part_end) if field else np.int64(-1)
        if at < 0 or required != _REQUIRED_FIELDS:
            continue
        if flags & _BOTH_TXN_FIELDS == _BOTH_TXN_FIELDS:
            flags |= TRANSACTION
        else:
            txn_most = txn_least = _ZERO

        values[_BROKER_TIMESTAMP, row] = timestamp
        values[_INDEX, row] = index
        values[_PUBLISH_TIME, row] = publish_time
        values[_DELIVER_AT, row] = deliver_at
        values[_NUM_MESSAGES, row] = num_messages
        values[_MARKER_TYPE, row] = marker_type
        values[_TXN_MOST, row] = txn_most
        values[_TXN_LEAST, row] = txn_least
        values[_COMPRESSION, row] = compression
        values[_UNCOMPRESSED_SIZE, row] = plain_size
        values[_PAYLOAD_START, row] = at
        values[_CHECKED_START, row] = checked_start
        values[_CRC, row] = crc
        all_flags[row] = flags & ~_BOTH_TXN_FIELDS
        decided[row] = True
    return decided, all_flags, values
