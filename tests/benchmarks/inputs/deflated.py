"""What is deflated in a MapFile, and what inflating it takes when nothing else is done."""

import struct
from collections.abc import Sequence
from itertools import pairwise

from delayed_tracker.ledger.offload.inflating import VALUE_BYTES_MAX, inflate, inflate_some
from delayed_tracker.ledger.offload.sequence_file import Compression, vint
from tests.ledger.offload.sequence_files import ESCAPE, SYNC, MapFileWriter

_PIECE_BYTES_MAX = 16 << 20
_RECORD_HEAD = struct.Struct(">iiq")


def deflated_streams(writer: MapFileWriter, compression: Compression) -> list[bytes]:
    """What is deflated in a data file, stream by stream."""
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
    """Inflate everything as a reader would, and note how large it is."""
    if compression is Compression.RECORD:
        # Piece by piece, so that not all of it is in memory at once.
        first = 0
        while first < len(streams):
            plain, _ = inflate_some(streams[first : first + 16_384], _PIECE_BYTES_MAX)
            sizes.append(sum(map(len, plain)))
            first += len(plain)
        return
    sizes.extend(len(inflate(stream, VALUE_BYTES_MAX)) for stream in streams)
