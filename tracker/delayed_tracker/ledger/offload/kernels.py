"""Compiled kernels that decode stored records into columns; :mod:`delayed_tracker.core.kernels.jit` has their rules."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.kernels.jit import COLUMN, INT64, OCTETS, Kernels
from delayed_tracker.core.kernels.prefetch import prefetch_behind

Int64Array = NDArray[np.int64]
Octets = NDArray[np.uint8]

WALKED = 0
"""All requested records were found."""
CUT = 1
"""A record continues behind the end of the bytes."""
BROKEN = 2
"""The next bytes are not a record: padding, or damage."""
OUT_OF_ORDER = 3
"""The next record belongs to another entry."""

KERNELS: Final = Kernels()


@KERNELS.add(OCTETS, INT64, INT64, INT64, INT64, INT64)
def walk_blob_records(  # noqa: PLR0917  kernels take no keywords
    octets: Octets, start: int, end: int, first_entry_id: int, last_entry_id: int, seen_behind: int
) -> tuple[Int64Array, Int64Array, int, int]:
    """Find records of a blob's block: size i32, entry id i64, the entry.

    Sizes are not stored twice, so a record counts only if it is followed by the next entry's record, by padding, or by
    the end.

    Args:
        octets: part of the object.
        start: the offset at which a record begins.
        end: the offset at which to stop.
        first_entry_id: the id of the first record's entry.
        last_entry_id: the id of the last entry to take.
        seen_behind: bytes that must be present behind a record for it to count; 0 if the block ends at ``end``.
    Returns: starts and ends of the entries, the offset at which the walk stopped, and the reason.
    """
    # Room for what the bytes can hold, whatever ids the metadata claim; pages that are not written to use no memory.
    room = max(0, (end - start) // 12)
    starts = np.empty(room, np.int64)
    ends = np.empty(room, np.int64)
    count = 0
    at = start
    ahead: int | np.int64 = start
    status = WALKED
    while True:
        ahead = prefetch_behind(octets, at, ahead)
        if end - at < 12:
            if first_entry_id + count <= last_entry_id:
                status = CUT
            break
        size = np.int64(0)
        for place in range(4):
            size = (size << 8) | np.int64(octets[at + place])
        if size >= 0x80000000:
            if first_entry_id + count <= last_entry_id:
                status = BROKEN
            break
        # Build the number from a signed first byte, so that nothing overflows.
        entry_id = np.int64(octets[at + 4])
        if entry_id >= 128:
            entry_id -= 256
        for place in range(5, 12):
            entry_id = (entry_id << 8) | np.int64(octets[at + place])
        if entry_id != first_entry_id + count:
            status = OUT_OF_ORDER
            break
        if entry_id > last_entry_id:
            break
        if end - at - 12 - seen_behind < size:
            status = CUT
            break
        starts[count] = at + 12
        ends[count] = at + 12 + size
        count += 1
        at += 12 + int(size)
    return starts[:count].copy(), ends[:count].copy(), at, status


@KERNELS.add(OCTETS, INT64, INT64, OCTETS, INT64, INT64, INT64)
def walk_sequence_records(  # noqa: PLR0917  kernels take no keywords
    octets: Octets, start: int, end: int, sync: Octets, first_key: int, last_key: int, framed: int
) -> tuple[Int64Array, Int64Array, int, int]:
    """Find records of a SequenceFile that is not block-compressed: length i32, key length i32, key i64, value.

    Args:
        octets: part of the file.
        start: the offset at which a record, or a sync mark, begins.
        end: the offset at which to stop.
        sync: the 16 bytes of the file's sync mark.
        first_key: the key of the first record.
        last_key: the key of the last record to take.
        framed: 1 if a value consists of its own length i32 and the entry, as uncompressed values do; starts are then
            behind the length.
    Returns: starts and ends of the values, the offset at which the walk stopped, and the reason.
    """
    room = max(0, (end - start) // 16)
    starts = np.empty(room, np.int64)
    ends = np.empty(room, np.int64)
    count = 0
    at = start
    ahead: int | np.int64 = start
    status = WALKED
    while first_key + count <= last_key:
        ahead = prefetch_behind(octets, at, ahead)
        if end - at < 4:
            status = CUT
            break
        length = np.int64(0)
        for place in range(4):
            length = (length << 8) | np.int64(octets[at + place])
        if length == 0xFFFFFFFF:
            if end - at < 20:
                status = CUT
                break
            same = True
            for place in range(16):
                same &= octets[at + 4 + place] == sync[place]
            if not same:
                status = BROKEN
                break
            at += 20
            continue
        if length < 8 + 4 * framed or length >= 0x80000000:
            status = BROKEN
            break
        if end - at < 16 + 4 * framed:
            status = CUT
            break
        key_length = np.int64(0)
        for place in range(4, 8):
            key_length = (key_length << 8) | np.int64(octets[at + place])
        value_length = length - 8
        if framed:
            value_length = np.int64(0)
            for place in range(16, 20):
                value_length = (value_length << 8) | np.int64(octets[at + place])
            value_length += 4
        if key_length != 8 or value_length != length - 8:
            status = BROKEN
            break
        key = np.int64(octets[at + 8])
        if key >= 128:
            key -= 256
        for place in range(9, 16):
            key = (key << 8) | np.int64(octets[at + place])
        if key != first_key + count:
            status = OUT_OF_ORDER
            break
        if end - at - 8 < length:
            status = CUT
            break
        starts[count] = at + 16 + 4 * framed
        ends[count] = at + 8 + length
        count += 1
        at += 8 + int(length)
    return starts[:count].copy(), ends[:count].copy(), at, status


@KERNELS.add(OCTETS, INT64)
def read_lengths(octets: Octets, count: int) -> tuple[Int64Array, int]:
    """Decode lengths that are stored as Hadoop's variable-length numbers, none negative.

    Args:
        octets: the lengths and nothing else.
        count: the expected number of lengths; at most the number of bytes.
    Returns: the lengths and 1; or 0 if the bytes are something else.
    """
    lengths = np.empty(count, np.int64)
    at = 0
    for row in range(count):
        if at >= len(octets):
            return lengths, 0
        head = np.int64(octets[at])
        at += 1
        if head < 128:
            lengths[row] = head
            continue
        # 0x8F means one more byte, 0x88 means eight. Lower values are negative numbers, higher ones small numbers.
        size = 0x90 - head
        if size < 1 or size > 4 or len(octets) - at < size:
            return lengths, 0
        value = np.int64(0)
        for _ in range(size):
            value = (value << 8) | np.int64(octets[at])
            at += 1
        lengths[row] = value
    return lengths, 1 if at == len(octets) else 0


@KERNELS.add(OCTETS, COLUMN)
def framed_values(octets: Octets, lengths: Int64Array) -> tuple[Int64Array, Int64Array, int]:
    """Find the entries in adjacent values, each of which is its own length i32 and the entry.

    Args:
        octets: the values; as many bytes as the lengths sum up to.
        lengths: lengths of the values, 0 or more.
    Returns: starts and ends of the entries, and the number of correct values before the first wrong one.
    """
    count = len(lengths)
    starts = np.empty(count, np.int64)
    ends = np.empty(count, np.int64)
    at = 0
    for row in range(count):
        if lengths[row] < 4:
            return starts, ends, row
        inner = np.int64(0)
        for place in range(4):
            inner = (inner << 8) | np.int64(octets[at + place])
        if inner != lengths[row] - 4:
            return starts, ends, row
        starts[row] = at + 4
        at += lengths[row]
        ends[row] = at
    return starts, ends, count
