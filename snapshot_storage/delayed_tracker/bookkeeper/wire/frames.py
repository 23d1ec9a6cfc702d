"""Cuts the bytes of a connection into frames: a length of four bytes, big-endian, and a message of that length."""

import struct
from collections.abc import Iterator
from typing import Final

LENGTH: Final = struct.Struct(">i")
RECEIVE_BYTES: Final = 16 * 1024
"""Bytes that are received at once: some 500 replies to adds, which take the event loop a few milliseconds. Larger
frames have memory of their own, into which the socket writes."""
BULK_RECEIVE_BYTES: Final = 128 * 1024
"""Bytes that are received at once behind a frame of an entry of some size: each round of the event loop costs as much as
two such entries, and 64 of them take it a few milliseconds."""
_BULK_FRAME_BYTES: Final = 2 * 1024


class FrameInvalid(Exception):
    """The bytes are no frame; the message says why."""


class FrameReader:
    """Reader of frames that arrive in pieces of any size. It holds at most ``BULK_RECEIVE_BYTES`` and one frame.

    Its two methods belong to ``get_buffer`` and ``buffer_updated`` of asyncio's ``BufferedProtocol``.

    Args:
        frame_bytes_max: most bytes of a frame, its length included.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._message_bytes_max = frame_bytes_max - LENGTH.size
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

    def received(self, count: int) -> Iterator[bytes | memoryview]:
        """Yield each message that is whole now, in order, after ``count`` bytes were written to :meth:`room`.

        The caller exhausts the iterator, or never uses this reader again. Large messages are memory of their own.

        Raises:
            FrameInvalid: a length is not positive, or above the bound; nothing after it can be read.
        Cost: each byte is copied once, those of large frames are not.
        """
        self._filled += count
        if self._large is not None:
            if self._filled == len(self._large):
                message, self._large, self._filled = self._large, None, 0
                yield memoryview(message)
            return
        start, end = 0, self._filled
        while end - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._received, start)
            if not 0 < length <= self._message_bytes_max:
                raise FrameInvalid(
                    f"a frame of {length} bytes, where frame_bytes_max allows 1 to {self._message_bytes_max}"
                )
            # What is left of an incomplete frame is below RECEIVE_BYTES.
            self._end = BULK_RECEIVE_BYTES if length >= _BULK_FRAME_BYTES else RECEIVE_BYTES
            first, last = start + LENGTH.size, start + LENGTH.size + length
            if last <= end:
                yield bytes(self._received[first:last])
                start = last
            elif length + LENGTH.size > RECEIVE_BYTES:
                self._large = bytearray(length)
                self._filled = end - first
                self._large[: self._filled] = self._received[first:end]
                return
            else:
                break
        self._filled = end - start
        self._received[: self._filled] = self._received[start:end]
