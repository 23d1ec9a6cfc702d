"""Compiled kernels of the codec: rows and bitmaps to bytes, bytes to rows.

:mod:`delayed_tracker.core.kernels.jit` has the rules for writing one; :mod:`delayed_tracker.storage.codec.codec`
defines the meaning of the bytes and raises the errors. A row is ``0A length 08 deadline 10 ledger 18 entry``. A bitmap
is a RoaringBitmap in the portable format::

    no run container   3A 30 00 00 | count u32 |             key u16, size-1 u16 ... | offset u32 ... | containers
    any run container  3B 30 count-1 u16 | flags, one bit each | key u16, size-1 u16 ... | offset u32 ... | containers
    array container    values u16 ...                     up to 4,096 values
    bitset container   one bit for each of 65,536 values  above
    run container      run count u16 | first u16, length-1 u16 ...   only if strictly smaller than the one above

With run containers, there are offsets only from four containers on.

Source: RoaringFormatSpec; ``RoaringBitmap.runOptimize``.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.kernels.jit import COLUMN, INT64, OCTETS, Kernels, jitable

Int64Array = NDArray[np.int64]
UInt8Array = NDArray[np.uint8]
Int = int | np.int64

_FIELD_1_BYTES: Final = 0x0A
_FIELD_2_BYTES: Final = 0x12
_FIELD_1_VARINT: Final = 0x08
_FIELD_2_VARINT: Final = 0x10
_FIELD_3_VARINT: Final = 0x18
READ_AHEAD_BYTES: Final = 32
"""Bytes read after the length of a row before it is tested: three varints of nine octets, each with a tag."""
_ENTRY_ID_MAX: Final = 2**32 - 1
_ROW_BYTES_MAX: Final = 2 + 1 + 9 + 1 + 9 + 1 + 5
_SEGMENT_BYTES_MAX: Final = 6 + 2 * (1 + 9)
"""Maximum for a segment's metadata, without its map entries."""
_POSITION_BYTES_MAX: Final = 6 + 1 + 9 + 6 + 16 + 2
"""Maximum for a map entry with one position; each further position of the ledger takes less."""

_ARRAY_VALUES_MAX: Final = 4_096
_BITSET_BYTES: Final = 8_192
_COOKIE: Final = 12_346
_COOKIE_RUNS: Final = 12_347
_OFFSETS_FROM: Final = 4

KERNELS: Final = Kernels()


@jitable()
def _put_varint(octets: UInt8Array, at: Int, value: Int) -> Int:
    while value >= 0x80:
        octets[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    octets[at] = value
    return at + 1


@jitable()
def _varint_width(value: Int) -> int:
    width = 1
    while value >= 0x80:
        value >>= 7
        width += 1
    return width


@jitable()
def _put_little(octets: UInt8Array, at: Int, value: Int, size: int) -> Int:
    """Write the lowest ``size`` bytes of a value, lowest first."""
    for number in range(size):
        octets[at + number] = (value >> (8 * number)) & 0xFF
    return at + size


@KERNELS.add(COLUMN, COLUMN, COLUMN, COLUMN)
def encode_rows(
    deliver_at_ms: Int64Array, ledger_id: Int64Array, entry_id: Int64Array, starts: Int64Array
) -> tuple[UInt8Array, Int64Array]:
    """Encode all rows, one after the other, and return the offsets of the rows ``starts`` (ascending).

    A start may be one past the last row.
    """
    count = len(deliver_at_ms)
    octets = np.empty(_ROW_BYTES_MAX * count, np.uint8)
    offsets = np.empty(len(starts), np.int64)
    at: Int = 0
    next_start = 0
    for row in range(count + 1):
        while next_start < len(starts) and starts[next_start] == row:
            offsets[next_start] = at
            next_start += 1
        if row < count:
            octets[at] = _FIELD_1_BYTES
            octets[at + 2] = _FIELD_1_VARINT
            end = _put_varint(octets, at + 3, deliver_at_ms[row])
            octets[end] = _FIELD_2_VARINT
            end = _put_varint(octets, end + 1, ledger_id[row])
            octets[end] = _FIELD_3_VARINT
            end = _put_varint(octets, end + 1, entry_id[row])
            octets[at + 1] = end - at - 2
            at = end
    return octets[:at], offsets


@KERNELS.add(COLUMN)
def distance_bounds(values: Int64Array) -> tuple[Int, Int]:
    """Return the least and the greatest distance of a value to the one before it; of two values at least."""
    least = greatest = values[1] - values[0]
    for row in range(2, len(values)):
        distance = values[row] - values[row - 1]
        least = min(least, distance)
        greatest = max(greatest, distance)
    return least, greatest


@jitable(forceinline=True)
def _octet(octets: UInt8Array, at: Int) -> np.int64:
    """Return one octet; ``at`` is 0 or more.

    With a signed index numba would test if it counts from the end: a third of the time.
    """
    return np.int64(octets[np.uint64(at)])


# A call for each token would double the time of reading.
@jitable(forceinline=True)
def _read_varint(octets: UInt8Array, at: Int) -> tuple[Int, Int]:
    """Read a canonical varint of up to 63 bits; return its value, or -1 for any other bytes, and its end."""
    value = _octet(octets, at)
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    octet = np.int64(0x80)
    while octet >= 0x80 and shift < 63:
        octet = _octet(octets, at)
        at += 1
        value |= (octet & 0x7F) << shift
        shift += 7
    return (value if 0 < octet < 0x80 else np.int64(-1)), at


@jitable(forceinline=True)
def _read_deadline(octets: UInt8Array, at: Int) -> tuple[Int, Int]:
    """Read like :func:`_read_varint`, but twice as fast for six octets: milliseconds of the years 1971 to 2109."""
    first, second, third = _octet(octets, at), _octet(octets, at + 1), _octet(octets, at + 2)
    fourth, fifth, sixth = _octet(octets, at + 3), _octet(octets, at + 4), _octet(octets, at + 5)
    if first & second & third & fourth & fifth >= 0x80 and 0 < sixth < 0x80:
        lower = (first & 0x7F) | (second & 0x7F) << 7 | (third & 0x7F) << 14
        return lower | (fourth & 0x7F) << 21 | (fifth & 0x7F) << 28 | sixth << 35, at + 6
    return _read_varint(octets, at)


@KERNELS.add(OCTETS, COLUMN, INT64)
def decode_rows(octets: UInt8Array, ends: Int64Array, first: int) -> tuple[Int64Array, Int64Array, Int64Array, int]:
    """Decode segments in the usual form, from segment ``first`` up to the first one in another form.

    Args:
        octets: segments, one after the other, then :data:`READ_AHEAD_BYTES` of any value.
        ends: offset of the end of each segment, ascending.
        first: number of a segment.
    Returns: the three columns, and the segment before which it stopped: ``len(ends)`` if all have the usual form.
    """
    begin = ends[first - 1] if first else np.int64(0)
    # Rows begin with their length: skip from one to the next to count them.
    count = 0
    at = begin
    stop = first
    while stop < len(ends):
        end = ends[stop]
        found = 0
        while at + 1 < end and _octet(octets, at) == _FIELD_1_BYTES:
            at += 2 + _octet(octets, at + 1)
            found += 1
        if at != end:
            break
        count += found
        stop += 1
    deliver_at_ms = np.empty(count, np.int64)
    ledger_id = np.empty(count, np.int64)
    entry_id = np.empty(count, np.int64)
    at = begin
    row = 0
    for segment in range(first, stop):
        segment_row = row
        while at < ends[segment]:
            end = at + 2 + _octet(octets, at + 1)
            deliver_at, tag_2 = _read_deadline(octets, at + 3)
            ledger, tag_3 = _read_varint(octets, tag_2 + 1)
            entry, row_end = _read_varint(octets, tag_3 + 1)
            if (
                row_end != end
                or _octet(octets, at + 2) != _FIELD_1_VARINT
                or _octet(octets, tag_2) != _FIELD_2_VARINT
                or _octet(octets, tag_3) != _FIELD_3_VARINT
                or min(deliver_at, ledger, entry) < 0
                or entry > _ENTRY_ID_MAX
            ):
                return deliver_at_ms[:segment_row], ledger_id[:segment_row], entry_id[:segment_row], segment
            place = np.uint64(row)
            deliver_at_ms[place] = deliver_at
            ledger_id[place] = ledger
            entry_id[place] = entry
            row += 1
            at = end
    return deliver_at_ms, ledger_id, entry_id, stop


@KERNELS.add(COLUMN, COLUMN, COLUMN, COLUMN, COLUMN)
def encode_segment_metadata(
    ledger_id: Int64Array, entry_id: Int64Array, starts: Int64Array, least_ms: Int64Array, most_ms: Int64Array
) -> tuple[UInt8Array, int]:
    """Encode the metadata of all segments, one after the other.

    A segment is ``0A length | map entries | 10 last 18 first deadline``, a map entry ``0A length | 08 ledger 12 length
    bitmap``. Positions ascend within each segment; ``starts`` are the rows at which segments begin, and one past the
    last row.

    Returns: the bytes, and the first row that repeats the position before it in its segment, or -1.
    """
    count = len(ledger_id)
    octets = np.empty(_POSITION_BYTES_MAX * count + _SEGMENT_BYTES_MAX * len(least_ms), np.uint8)
    # For the current segment: the rows at which its containers begin and one past the last, and their numbers of runs,
    # or 0.
    first_row = np.empty(count + 1, np.int64)
    run_count = np.empty(count, np.int64)
    # Also the containers at which its bitmaps begin and one past the last, and the sizes of the bitmaps.
    first_container = np.empty(count + 1, np.int64)
    bitmap_bytes = np.empty(count, np.int64)
    at: Int = 0
    for segment in range(len(least_ms)):
        bitmaps = 0
        containers = 0
        for row in range(starts[segment], starts[segment + 1]):
            opens_bitmap = row == starts[segment] or ledger_id[row] != ledger_id[row - 1]
            if not opens_bitmap and entry_id[row] == entry_id[row - 1]:
                return octets[:0], row
            if opens_bitmap:
                first_container[bitmaps] = containers
                bitmaps += 1
            if opens_bitmap or entry_id[row] >> 16 != entry_id[row - 1] >> 16:
                first_row[containers] = row
                run_count[containers] = 1
                containers += 1
            elif entry_id[row] != entry_id[row - 1] + 1:
                run_count[containers - 1] += 1
        first_row[containers] = starts[segment + 1]
        first_container[bitmaps] = containers

        for container in range(containers):
            size = first_row[container + 1] - first_row[container]
            if _body_bytes(size, 0) <= _body_bytes(size, run_count[container]):
                run_count[container] = 0
        message_bytes = 2 + _varint_width(least_ms[segment]) + _varint_width(most_ms[segment])
        for bitmap in range(bitmaps):
            number = first_container[bitmap + 1] - first_container[bitmap]
            total = 4 * number
            runs = False
            for container in range(first_container[bitmap], first_container[bitmap + 1]):
                total += _body_bytes(first_row[container + 1] - first_row[container], run_count[container])
                runs |= run_count[container] > 0
            total += 4 + (number + 7) // 8 if runs else 8
            if not runs or number >= _OFFSETS_FROM:
                total += 4 * number
            bitmap_bytes[bitmap] = total
            entry_bytes = (
                2 + _varint_width(ledger_id[first_row[first_container[bitmap]]]) + _varint_width(total) + total
            )
            message_bytes += 1 + _varint_width(entry_bytes) + entry_bytes

        octets[at] = _FIELD_1_BYTES
        at = _put_varint(octets, at + 1, message_bytes)
        for bitmap in range(bitmaps):
            first, last = first_container[bitmap], first_container[bitmap + 1]
            ledger = ledger_id[first_row[first]]
            total = bitmap_bytes[bitmap]
            octets[at] = _FIELD_1_BYTES
            at = _put_varint(octets, at + 1, 2 + _varint_width(ledger) + _varint_width(total) + total)
            octets[at] = _FIELD_1_VARINT
            at = _put_varint(octets, at + 1, ledger)
            octets[at] = _FIELD_2_BYTES
            at = _put_varint(octets, at + 1, total)
            at = _put_bitmap(octets, at, entry_id, first_row[first : last + 1], run_count[first:last])
        octets[at] = _FIELD_2_VARINT
        at = _put_varint(octets, at + 1, most_ms[segment])
        octets[at] = _FIELD_3_VARINT
        at = _put_varint(octets, at + 1, least_ms[segment])
    return octets[:at], -1


@jitable()
def _body_bytes(size: Int, run_count: Int) -> Int:
    """Return the size of a container of ``size`` values: as runs, or plain if ``run_count`` is 0."""
    if run_count:
        return 2 + 4 * run_count
    return 2 * size if size <= _ARRAY_VALUES_MAX else _BITSET_BYTES


@jitable()
def _put_bitmap(octets: UInt8Array, at: Int, values: Int64Array, first_row: Int64Array, run_count: Int64Array) -> Int:
    """Write one bitmap; return its end.

    ``first_row`` has the first row of each container (and one past the last), ``run_count`` its number of runs, or 0.
    """
    count = len(run_count)
    begin = at
    if run_count.any():
        at = _put_little(octets, at, _COOKIE_RUNS | ((count - 1) << 16), 4)
        octets[at : at + (count + 7) // 8] = 0
        for number in range(count):
            if run_count[number]:
                octets[at + number // 8] |= 1 << (number % 8)
        at += (count + 7) // 8
        with_offsets = count >= _OFFSETS_FROM
    else:
        at = _put_little(octets, at, _COOKIE, 4)
        at = _put_little(octets, at, count, 4)
        with_offsets = True
    for number in range(count):
        at = _put_little(octets, at, values[first_row[number]] >> 16, 2)
        at = _put_little(octets, at, first_row[number + 1] - first_row[number] - 1, 2)
    if with_offsets:
        body_at = at - begin + 4 * count
        for number in range(count):
            at = _put_little(octets, at, body_at, 4)
            body_at += _body_bytes(first_row[number + 1] - first_row[number], run_count[number])
    for number in range(count):
        first, end = first_row[number], first_row[number + 1]
        if run_count[number]:
            at = _put_little(octets, at, run_count[number], 2)
            run_first = first
            for row in range(first + 1, end + 1):
                if row == end or values[row] != values[row - 1] + 1:
                    at = _put_little(octets, at, values[run_first] & 0xFFFF, 2)
                    at = _put_little(octets, at, row - run_first - 1, 2)
                    run_first = row
        elif end - first <= _ARRAY_VALUES_MAX:
            for row in range(first, end):
                at = _put_little(octets, at, values[row] & 0xFFFF, 2)
        else:
            octets[at : at + _BITSET_BYTES] = 0
            for row in range(first, end):
                low = values[row] & 0xFFFF
                octets[at + (low >> 3)] |= 1 << (low & 7)
            at += _BITSET_BYTES
    return at
