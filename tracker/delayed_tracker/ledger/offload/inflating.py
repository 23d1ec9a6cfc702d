"""Inflates the zlib streams of SequenceFiles without trusting them with memory.

With the extra ``offload`` installed, zlib-ng does it in less than half the time of Python's own zlib.
"""

import importlib
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

from delayed_tracker.ledger.errors import CompressedDataInvalid

VALUE_BYTES_MAX: Final = 1 << 28
"""What one value, or the values of one block, may inflate to: as much as an entry of local ledgers may have. Pulsar's are at
most 5 MB unless ``maxMessageSize`` says otherwise, and blocks are cut at about a megabyte."""
_EXPANSION_MAX: Final = 1_032
"""Deflate's best."""
_AT_ONCE_BYTES_MAX: Final = 1 << 19
"""A stream of this size cannot inflate to more than twice :data:`VALUE_BYTES_MAX`, which larger ones take while they grow."""
_ROOM_BYTES_MAX: Final = 1 << 23


def _quickest() -> Any:
    try:
        return importlib.import_module("zlib_ng.zlib_ng")
    except ModuleNotFoundError:
        return zlib


_zlib: Final = _quickest()
crc32: Final[Callable[[bytes | memoryview], int]] = _zlib.crc32
_StreamError: Final[type[Exception]] = _zlib.error


def inflate(stream: bytes | memoryview, size_max: int) -> bytes:
    """All that a zlib stream holds.

    Args:
        stream: whole, and nothing behind it.
        size_max: memory it may take.
    Raises:
        CompressedDataInvalid: it is damaged, cut short or longer than it should be, or holds more.
    """
    if len(stream) <= _AT_ONCE_BYTES_MAX and size_max < _ROOM_BYTES_MAX:
        at_once = _inflated_at_once(stream, size_max)
        if at_once is not None:
            return at_once
    inflater = _zlib.decompressobj()
    try:
        plain: bytes = inflater.decompress(stream, size_max + 1)
    except _StreamError as error:
        raise CompressedDataInvalid(f"{len(stream)} bytes of zlib do not inflate: {error}") from error
    if len(plain) > size_max:
        raise CompressedDataInvalid(f"{len(stream)} bytes of zlib hold more than {size_max} bytes")
    if not inflater.eof or inflater.unused_data:
        raise CompressedDataInvalid(f"{len(stream)} bytes of zlib are cut short, or more than one stream")
    return plain


def _inflated_at_once(stream: bytes | memoryview, size_max: int) -> bytes | None:
    """The same without a second copy, in room that was made before; None for what is not as it should be."""
    try:
        # A byte more than needed, so that the end is seen without more room.
        plain: bytes = _zlib.decompress(stream, bufsize=size_max + 1)
    except _StreamError:
        return None
    # What lies behind a stream is passed over; then its checksum is not at the end.
    checksum = int.from_bytes(stream[-4:], "big")
    return plain if len(plain) <= size_max and _zlib.adler32(plain) == checksum else None


def inflate_some(streams: Sequence[bytes], bytes_max: int) -> tuple[list[bytes], dict[int, CompressedDataInvalid]]:
    """Inflate the first of many small streams: all, unless they hold more than ``bytes_max`` together.

    Args:
        streams: at least one.
        bytes_max: the stream that reaches it is the last one.
    Returns: what each of them holds, nothing for those that are damaged, and why those are, by row.
    """
    ends = list(accumulate(map(len, streams)))
    values: list[bytes] = []
    damaged: dict[int, CompressedDataInvalid] = {}
    left = bytes_max
    while left > 0 and len(values) < len(streams):
        first = len(values)
        begin = ends[first] - len(streams[first])
        # As many as cannot hold more than what is left, whatever they claim; else one, which may.
        last = max(bisect_right(ends, begin + left // _EXPANSION_MAX), first + 1)
        values += _inflated_each(streams[first:last], first, damaged)
        left -= sum(map(len, values[first:]))
    return values, damaged


def _inflated_each(streams: Sequence[bytes], first: int, damaged: dict[int, CompressedDataInvalid]) -> list[bytes]:
    if len(streams) > 1:
        try:
            return list(map(_zlib.decompress, streams))
        except _StreamError:
            pass  # One of them. Which one, the slower way tells.
    values = []
    for row, stream in enumerate(streams, start=first):
        try:
            values.append(inflate(stream, VALUE_BYTES_MAX))
        except CompressedDataInvalid as error:
            values.append(b"")
            damaged[row] = error
    return values
