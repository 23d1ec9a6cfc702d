"""Compiled kernels that walk stored records into columns; :mod:`delayed_tracker.core.kernels.jit` has the rules for writing one."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.kernels.jit import COLUMN, INT64, OCTETS, Kernels

Int64Array = NDArray[np.int64]
Octets = NDArray[np.uint8]

WALKED = 0
"""All that was asked for."""
CUT = 1
"""A record goes on behind the end of the octets."""
BROKEN = 2
"""What follows is no record: padding, or damage."""
OUT_OF_ORDER = 3
"""A record follows, but of another entry."""

KERNELS: Final = Kernels()


@KERNELS.add(OCTETS, INT64, INT64, INT64, INT64, INT64)
def walk_blob_records(  # noqa: PLR0917  kernels take no keywords
    octets: Octets, start: int, end: int, first_entry_id: int, last_entry_id: int, seen_behind: int
) -> tuple[Int64Array, Int64Array, int, int]:
    """Records of a blob's block: size i32, entry id i64, the entry.

    Sizes are not stored twice, so a record counts only if what follows it looks right: the next entry's record, padding,
    or the end.

    Args:
        octets: part of the object.
        start: where a record begins.
        end: where to stop looking.
        first_entry_id: of the first record.
        last_entry_id: of the last to take.
        seen_behind: octets that must be there behind a record for it to count; 0 where the block ends at ``end``.
    Returns: starts and ends of the entries, where the walk stopped, and why.
    """
    # Room for as many as may follow; what is not written to costs no memory.
    room = max(0, min((end - start) // 12, last_entry_id - first_entry_id + 1))
    starts = np.empty(room, np.int64)
    ends = np.empty(room, np.int64)
    count = 0
    at = start
    status = WALKED
    while True:
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
        # Folded from a signed octet, so that nothing overflows.
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
    """Records of a SequenceFile that is not block-compressed: length i32, key length i32, key i64, value.

    Args:
        octets: part of the file.
        start: where a record, or a sync mark, begins.
        end: where to stop looking.
        sync: the file's 16 octets.
        first_key: of the first record.
        last_key: of the last to take.
        framed: 1 if a value is its own length i32 and the entry, as uncompressed values are; starts are behind it.
    Returns: starts and ends of the values, where the walk stopped, and why.
    """
    room = max(0, min((end - start) // 16, last_key - first_key + 1))
    starts = np.empty(room, np.int64)
    ends = np.empty(room, np.int64)
    count = 0
    at = start
    status = WALKED
    while first_key + count <= last_key:
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
    """Lengths as Hadoop's variable-length numbers, none negative.

    Args:
        octets: all of them and nothing else.
        count: how many there should be; at most as many as there are octets.
    Returns: the lengths and 1, or 0 when the octets are something else.
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
        # 0x8F stands for one octet more, 0x88 for eight; below that are negative numbers, above it small ones.
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
    """Values laid one behind the other, each its own length i32 and the entry.

    Args:
        octets: as many as the lengths sum up to.
        lengths: of the values, 0 or more.
    Returns: starts and ends of the entries, and how many values are what they should be before one that is not.
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
