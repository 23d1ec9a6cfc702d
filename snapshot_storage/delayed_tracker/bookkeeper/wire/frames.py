"""Cuts the bytes of a connection into frames: a length of four bytes, big-endian, and a message of that length."""

import struct
from collections.abc import Iterator
from typing import Final

Frame = tuple[bytes | memoryview, int, int]
"""Octets, and where the message of a frame begins and ends in them."""

LENGTH: Final = struct.Struct(">i")
_LENGTH_BYTES: Final = LENGTH.size
_unpack_length: Final = LENGTH.unpack_from
RECEIVE_BYTES: Final = 16 * 1024
"""Bytes that are received at once: some 500 replies to adds, which take the event loop a few milliseconds. Larger
frames have memory of their own, into which the socket writes."""
BULK_RECEIVE_BYTES: Final = 128 * 1024
"""Bytes that are received at once behind a frame that is an entry rather than a reply to an add: each round of the event
loop costs as much as two entries, and a hundred small ones take it two milliseconds."""
_BULK_FRAME_BYTES: Final = 512


class FrameInvalid(Exception):
    """The bytes are no frame; the message says why."""


class FrameReader:
    """Reader of frames that arrive in pieces of any size. It holds at most ``BULK_RECEIVE_BYTES`` and one frame.

    Its two methods belong to ``get_buffer`` and ``buffer_updated`` of asyncio's ``BufferedProtocol``.

    Args:
        reply_bytes_max: most bytes of a frame, its length included.
    """

    def __init__(self, reply_bytes_max: int) -> None:
        self._message_bytes_max = reply_bytes_max - LENGTH.size
        self._received = memoryview(bytearray(BULK_RECEIVE_BYTES))
        self._end = RECEIVE_BYTES
        self._large: bytearray | None = None
        self._filled = 0

    @property
    def held_bytes(self) -> int:
        """Bytes received of a frame that is not whole yet."""
        return self._filled

    def room(self) -> memoryview:
        """Return the memory for the next bytes; it is never empty."""
        return (
            self._received[self._filled : self._end] if self._large is None else memoryview(self._large)[self._filled :]
        )

    def received(self, count: int) -> Iterator[Frame]:
        """Yield each frame that is whole now, in order, after ``count`` bytes were written to :meth:`room`.

        The caller exhausts the iterator, or never uses this reader again. Frames do not change later.

        Raises:
            FrameInvalid: a length is not positive, or above the bound; nothing after it can be read.
        Cost: each byte is copied once, those of large frames are not.
        """
        self._filled += count
        if self._large is not None:
            if self._filled == len(self._large):
                message, self._large, self._filled = self._large, None, 0
                yield memoryview(message), 0, len(message)
            return
        filled = self._filled
        octets = bytes(self._received[:filled])
        at, length, longest = 0, 0, self._message_bytes_max
        while filled - at >= _LENGTH_BYTES:
            (length,) = _unpack_length(octets, at)
            if not 0 < length <= longest:
                raise FrameInvalid(f"a frame of {length} bytes, where reply_bytes_max allows 1 to {longest}")
            start = at + _LENGTH_BYTES
            end = start + length
            if end <= filled:
                yield octets, start, end
                at = end
            elif length + _LENGTH_BYTES > RECEIVE_BYTES:
                self._large = bytearray(length)
                self._filled = filled - start
                self._large[: self._filled] = octets[start:]
                self._end = BULK_RECEIVE_BYTES
                return
            else:
                break
        # What is left of an incomplete frame is below RECEIVE_BYTES.
        self._end = BULK_RECEIVE_BYTES if length >= _BULK_FRAME_BYTES else RECEIVE_BYTES
        self._filled = filled - at
        self._received[: self._filled] = octets[at:]
