"""Deflated content of a MapFile, and the inflating of it alone."""

import struct
from collections.abc import Sequence
from itertools import pairwise

from delayed_tracker.ledger.offload.inflating import VALUE_BYTES_MAX, inflate, inflate_some
from delayed_tracker.ledger.offload.sequence_file import Compression, vint
from tests.ledger.offload.sequence_files import ESCAPE, SYNC, MapFileWriter

_PIECE_BYTES_MAX = 16 << 20
_RECORD_HEAD = struct.Struct(">iiq")


def deflated_streams(writer: MapFileWriter, compression: Compression) -> list[bytes]:
    """Return the deflated streams of a data file."""
    data, mark = writer.data, ESCAPE + SYNC
    offsets = [*dict.fromkeys(writer.offsets.values()), len(data)]
    streams = []
    for start, end in pairwise(offsets):
        at = start + len(mark) if data.startswith(mark, start) else start
        if compression is Compression.RECORD:
            streams.append(data[at + _RECORD_HEAD.size : end])
            continue
        _, at = vint(data, at) or (0, end)
        while at < end:
            size, at = vint(data, at) or (0, end)
            streams.append(data[at : at + size])
            at += size
    return streams


def inflate_all(streams: Sequence[bytes], compression: Compression, sizes: list[int]) -> None:
    """Inflate every stream as a reader would, and append its size to ``sizes``."""
    if compression is Compression.RECORD:
        # In pieces, so that the whole stream is never in memory at once.
        first = 0
        while first < len(streams):
            plain, _ = inflate_some(streams[first : first + 16_384], _PIECE_BYTES_MAX)
            sizes.append(sum(map(len, plain)))
            first += len(plain)
        return
    sizes.extend(len(inflate(stream, VALUE_BYTES_MAX)) for stream in streams)
