"""Compiled kernels of the local ledgers: encode entries as records.

:mod:`delayed_tracker.core.kernels.jit` has the rules for kernels. :mod:`delayed_tracker.ledger.local.files.records`
explains the format.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.kernels.jit import COLUMN, INT64, OCTETS, Kernels, jitable

Int64Array = NDArray[np.int64]
UInt8Array = NDArray[np.uint8]
Int = int | np.int64

RECORD_HEADER_BYTES: Final = 40
"""Bytes in front of a record's payload."""
_SIZE_BYTES: Final = 4
_FRAME_BYTES_MAX: Final = 6 + 2 * (1 + 10)

KERNELS: Final = Kernels()


@jitable()
def _put_big(octets: UInt8Array, at: Int, value: Int, size: Int) -> Int:
    """Write a number, highest byte first; return the offset behind it."""
    for place in range(size):
        octets[at + place] = (np.int64(value) >> (8 * (size - 1 - place))) & 0xFF
    return at + size


@jitable()
def _put_varint(octets: UInt8Array, at: Int, value: Int) -> Int:
    rest = np.int64(value)
    # A negative number is encoded as the unsigned number with the same 64 bits.
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


@KERNELS.add(COLUMN, INT64, COLUMN, INT64, COLUMN)
def encode_frames(
    stamped: Int64Array, has_timestamp: Int, timestamp: Int64Array, has_index: Int, index: Int64Array
) -> tuple[UInt8Array, Int64Array]:
    """Encode broker frames one after another; return the bytes and the end of each frame.

    ``stamped`` marks the rows that get a frame; the other columns have a row for each of those only.
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


@KERNELS.add(OCTETS, COLUMN, COLUMN, COLUMN, OCTETS, COLUMN, INT64, INT64, INT64)
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
    """Encode records one after another, each payload behind its frame, without checksums; return the bytes and ends.

    ``length`` is the number of payload bytes in the ledger before the first of these.
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
        # Unsigned indexes are six times as fast as slices.
        for place in range(frame_end - frame_start):
            records[np.uintp(target + place)] = frames[np.uintp(frame_start + place)]
        target += frame_end - frame_start
        first = starts[row]
        for place in range(ends[row] - first):
            records[np.uintp(target + place)] = octets[np.uintp(first + place)]
        at = target + ends[row] - first
        record_ends[row] = at
        frame_start = frame_end
    return records, record_ends
