"""Reads Roaring bitmaps in the portable format without a bitmap library, for clients.

Source: https://github.com/RoaringBitmap/RoaringFormatSpec, 32-bit bitmaps.
"""

import struct
from array import array
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput

_NO_RUNS: Final = 12_346
_RUNS: Final = 12_347
_OFFSETS_FROM: Final = 4
"""With runs, offsets are stored only from this number of containers on."""
_LIST_ENTRIES_MAX: Final = 4_096
_BITSET_BYTES: Final = 8_192
_CONTAINERS_MAX: Final = 1 << 16


def entries_of(bitmap: bytes) -> "array[int]":
    """Return the entries of a portable bitmap, ascending, as signed 64-bit integers. O(entries).

    Raises:
        InvalidInput: the bytes are no bitmap, or are cut short.
    """
    try:
        return _entries(bitmap)
    except (struct.error, ValueError) as error:
        raise InvalidInput("bitmap", f"{len(bitmap)} bytes", "give a Roaring bitmap in the portable format") from error


def _entries(bitmap: bytes) -> "array[int]":
    (cookie,) = struct.unpack_from("<I", bitmap)
    offset, has_runs = 4, cookie & 0xFFFF == _RUNS
    run_flags = b""
    if has_runs:
        count = (cookie >> 16) + 1
        run_flags = bitmap[offset : offset + (count + 7) // 8]
        offset += (count + 7) // 8
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", bitmap, offset)
        offset += 4
    else:
        raise ValueError(cookie)
    if count > _CONTAINERS_MAX:
        raise ValueError(count)
    header = struct.unpack_from(f"<{2 * count}H", bitmap, offset)
    offset += 4 * count
    if not has_runs or count >= _OFFSETS_FROM:
        offset += 4 * count
    entries = array("q")
    for number in range(count):
        base, size = header[2 * number] << 16, header[2 * number + 1] + 1
        if run_flags and run_flags[number // 8] >> (number % 8) & 1:
            offset = _add_runs(entries, bitmap, offset, base)
        elif size <= _LIST_ENTRIES_MAX:
            entries.extend(base + low for low in struct.unpack_from(f"<{size}H", bitmap, offset))
            offset += 2 * size
        else:
            _add_bitset(entries, bitmap, offset, base)
            offset += _BITSET_BYTES
    if offset != len(bitmap):
        raise ValueError(offset)
    return entries


def _add_runs(entries: "array[int]", bitmap: bytes, offset: int, base: int) -> int:
    """Add the entries of a container of runs, and return the place behind it."""
    count = int(struct.unpack_from("<H", bitmap, offset)[0])
    runs = struct.unpack_from(f"<{2 * count}H", bitmap, offset + 2)
    for first, more in zip(runs[::2], runs[1::2], strict=True):
        entries.extend(range(base + first, base + first + more + 1))
    return offset + 2 + 4 * count


def _add_bitset(entries: "array[int]", bitmap: bytes, offset: int, base: int) -> None:
    if offset + _BITSET_BYTES > len(bitmap):
        raise ValueError(offset)
    for place, octet in enumerate(bitmap[offset : offset + _BITSET_BYTES]):
        if octet:
            first = base + 8 * place
            entries.extend(first + bit for bit in range(8) if octet >> bit & 1)
