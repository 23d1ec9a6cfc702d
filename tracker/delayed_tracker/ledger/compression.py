"""The five compression codecs that Pulsar uses for payloads and for metadata values.

Pulsar adds no header to the compressed bytes: the uncompressed size is stored beside them, and a result of any other
size is an error.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from delayed_tracker.ledger.errors import CompressedDataInvalid

MESSAGE_BYTES_MAX: Final = 64 << 20
"""Default for the most bytes that a message, a chunk or a batch may decompress to. Pulsar's maxMessageSize is 5 MB by
default. Batches and chunks are limited to it before they are compressed, single messages after, so text may be some ten
times larger."""
METADATA_BYTES_MAX: Final = 16 << 20
"""Most bytes that a value in the metadata store may decompress to. Its compressed form has at most 1 MB unless
``jute.maxbuffer`` is changed. A ledger takes about 50 bytes of a value, a range of acknowledged entries about 20."""


class Codec(IntEnum):
    """Values of Pulsar's CompressionType."""

    NONE = 0
    LZ4 = 1
    ZLIB = 2
    ZSTD = 3
    SNAPPY = 4


_EXPANSION_MAX: Final = {Codec.LZ4: 255, Codec.ZLIB: 1032, Codec.ZSTD: 32_768, Codec.SNAPPY: 22}
"""Most bytes that one compressed byte can become, by the definition of each format. A larger claim is damage."""

_ZSTD_LEVEL: Final = 3

_DECOMPRESS_INTO: Final[dict[Codec, Callable[[bytes, bytearray], int]]] = {
    Codec.LZ4: cramjam.lz4.decompress_block_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
    Codec.SNAPPY: cramjam.snappy.decompress_raw_into,
}


def decompress(codec: int, compressed: bytes, uncompressed_size: int, *, size_max: int) -> bytes:
    """Return the decompressed bytes.

    Args:
        codec: a value of :class:`Codec`.
        compressed: all compressed bytes; bytes behind the end of a zlib stream are ignored.
        uncompressed_size: exact size of the result, from the metadata beside the bytes.
        size_max: a larger ``uncompressed_size`` is refused before anything is allocated.
    Raises:
        CompressedDataInvalid: an unknown codec, damaged bytes, another size, or one above ``size_max``.
    Cost: O(size) time; memory for twice the size.
    """
    try:
        name = Codec(codec).name
    except ValueError as error:
        raise CompressedDataInvalid(f"compression type {codec} is unknown; 0 to {max(Codec)} are known") from error
    if not 0 <= uncompressed_size <= size_max:
        raise CompressedDataInvalid(
            f"{len(compressed)} bytes of {name} claim to decompress to {uncompressed_size} bytes, which is out of range "
            f"0 to {size_max}"
        )
    if uncompressed_size > len(compressed) * _EXPANSION_MAX.get(Codec(codec), uncompressed_size):
        raise CompressedDataInvalid(f"{len(compressed)} bytes of {name} can never give {uncompressed_size} bytes")
    try:
        plain = _decompress(Codec(codec), compressed, uncompressed_size)
    except (cramjam.DecompressionError, zlib.error) as error:
        raise CompressedDataInvalid(f"{len(compressed)} bytes of {name} do not decompress: {error}") from error
    if len(plain) != uncompressed_size:
        raise CompressedDataInvalid(
            f"{len(compressed)} bytes of {name} give {len(plain)} bytes, not {uncompressed_size}"
        )
    return plain


def _decompress(codec: Codec, compressed: bytes, size: int) -> bytes:
    if codec is Codec.NONE:
        return compressed
    if codec is Codec.ZLIB:
        # Java never finishes its zlib streams, and the one-shot function refuses unfinished streams.
        return zlib.decompressobj().decompress(compressed, size + 1)
    # One spare byte reveals a longer result, and the buffer bounds what damaged bytes can allocate.
    room = bytearray(size + 1)
    size = _DECOMPRESS_INTO[codec](compressed, room)
    return bytes(memoryview(room)[:size])


def compress(codec: int, plain: bytes) -> bytes:
    """Compress bytes in a form that Pulsar's clients and brokers decompress.

    ZLIB gives the same bytes as Pulsar in Java, provided that Python uses the original zlib. The bytes of LZ4 and
    Snappy depend on the compressor, and ZSTD frames have no checksum of the content here.

    Args:
        codec: a value of :class:`Codec`.
        plain: any length.
    Raises:
        CompressedDataInvalid: an unknown codec.
    """
    match codec:
        case Codec.NONE:
            return plain
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress_block(plain, store_size=False))
        case Codec.ZLIB:
            # Flush without finishing, as Java does.
            stream = zlib.compressobj()
            return stream.compress(plain) + stream.flush(zlib.Z_SYNC_FLUSH)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(plain, _ZSTD_LEVEL))
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(plain))
        case _:
            raise CompressedDataInvalid(f"compression type {codec} is unknown; 0 to {max(Codec)} are known")
