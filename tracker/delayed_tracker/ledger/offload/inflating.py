"""Inflates the zlib streams of SequenceFiles with limited memory, whatever sizes they claim.

With the extra ``offload`` installed, zlib-ng takes less than half the time of Python's own zlib.
"""

import importlib
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

from delayed_tracker.ledger.errors import CompressedDataInvalid

VALUE_BYTES_MAX: Final = 1 << 28
"""Most bytes to which one value, or the values of one block, may inflate: the limit of an entry in local ledgers.
Pulsar's entries have at most 5 MB unless ``maxMessageSize`` is changed, and blocks are cut at about a megabyte."""
_EXPANSION_MAX: Final = 1_032
"""Highest compression ratio of Deflate."""
_AT_ONCE_BYTES_MAX: Final = 1 << 19
"""Largest stream to inflate in one step. It cannot inflate to more than twice :data:`VALUE_BYTES_MAX`, and larger
streams use that much while their output grows."""
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
    """Inflate a whole zlib stream.

    Args:
        stream: the stream, with nothing behind it.
        size_max: most bytes that the result may have.
    Raises:
        CompressedDataInvalid: the stream is damaged or cut short, has bytes behind it, or inflates to more.
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
    """Inflate into a buffer of the right size, without a second copy; return None for an invalid stream."""
    try:
        # One byte more than needed, so that zlib finds the end of the stream without growing the buffer.
        plain: bytes = _zlib.decompress(stream, bufsize=size_max + 1)
    except _StreamError:
        return None
    # zlib ignores bytes behind a stream; in that case the checksum is not at the end.
    checksum = int.from_bytes(stream[-4:], "big")
    return plain if len(plain) <= size_max and _zlib.adler32(plain) == checksum else None


def inflate_some(streams: Sequence[bytes], bytes_max: int) -> tuple[list[bytes], dict[int, CompressedDataInvalid]]:
    """Inflate the first of many small streams: all, unless together they inflate to more than ``bytes_max``.

    Args:
        streams: at least one.
        bytes_max: the stream that reaches this number is the last one.
    Returns: the inflated values, empty for damaged streams, and the errors of the damaged streams by row.
    """
    ends = list(accumulate(map(len, streams)))
    values: list[bytes] = []
    damaged: dict[int, CompressedDataInvalid] = {}
    left = bytes_max
    while left > 0 and len(values) < len(streams):
        first = len(values)
        begin = ends[first] - len(streams[first])
        # As many streams as cannot exceed the rest of the limit, whatever they claim; at least one, which may exceed
        # it.
        last = max(bisect_right(ends, begin + left // _EXPANSION_MAX), first + 1)
        values += _inflated_each(streams[first:last], first, damaged)
        left -= sum(map(len, values[first:]))
    return values, damaged


def _inflated_each(streams: Sequence[bytes], first: int, damaged: dict[int, CompressedDataInvalid]) -> list[bytes]:
    if len(streams) > 1:
        try:
            return list(map(_zlib.decompress, streams))
        except _StreamError:
            pass  # One stream is damaged; the loop below finds which one.
    values = []
    for row, stream in enumerate(streams, start=first):
        try:
            values.append(inflate(stream, VALUE_BYTES_MAX))
        except CompressedDataInvalid as error:
            values.append(b"")
            damaged[row] = error
    return values
