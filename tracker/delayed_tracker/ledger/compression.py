"""The five codecs that Pulsar uses for payloads and for metadata values.

No codec adds a header of Pulsar's own: the uncompressed size travels beside the bytes, and a result of any other size
is an error.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from delayed_tracker.ledger.errors import CompressedDataInvalid

MESSAGE_BYTES_MAX: Final = 64 << 20
"""What a message, a piece of one or a batch may decompress to unless the caller says otherwise. Pulsar's maxMessageSize is
5 MB by default; batches and pieces are cut by it before they are compressed, single messages after it, so that text may
be some ten times larger."""
METADATA_BYTES_MAX: Final = 16 << 20
"""The same of a value in the metadata store, compressed to at most 1 MB unless ``jute.maxbuffer`` says otherwise: a ledger
takes about 50 bytes of it, a range of acknowledged entries about 20."""


class Codec(IntEnum):
    """Pulsar's CompressionType."""

    NONE = 0
    LZ4 = 1
    ZLIB = 2
    ZSTD = 3
    SNAPPY = 4


_EXPANSION_MAX: Final = {Codec.LZ4: 255, Codec.ZLIB: 1032, Codec.ZSTD: 32_768, Codec.SNAPPY: 22}
"""How many bytes one compressed byte can become at most, by the formats themselves: a larger promise is damage."""

_ZSTD_LEVEL: Final = 3

_DECOMPRESS_INTO: Final[dict[Codec, Callable[[bytes, bytearray], int]]] = {
    Codec.LZ4: cramjam.lz4.decompress_block_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
    Codec.SNAPPY: cramjam.snappy.decompress_raw_into,
}


def decompress(codec: int, compressed: bytes, uncompressed_size: int, *, size_max: int) -> bytes:
    """The bytes that were compressed.

    Args:
        codec: a value of :class:`Codec`.
        compressed: all of them; bytes behind the end of a zlib stream are ignored.
        uncompressed_size: exactly how many bytes come out, as the metadata beside them claims.
        size_max: a claim above it is refused before anything is allocated.
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
        # Java never finishes its streams, so the one-shot function would always refuse them.
        return zlib.decompressobj().decompress(compressed, size + 1)
    # A byte of room more than expected shows a longer result, and bounds what damaged bytes can make us allocate.
    room = bytearray(size + 1)
    size = _DECOMPRESS_INTO[codec](compressed, room)
    return bytes(memoryview(room)[:size])


def compress(codec: int, plain: bytes) -> bytes:
    """What Pulsar's clients and brokers decompress to the same bytes.

    ZLIB gives the bytes of Pulsar's Java, where Python has zlib itself. LZ4 and Snappy leave choices to the compressor, and
    ZSTD frames have no checksum of the content here.

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
            # As Java does it: flushed, never finished.
            stream = zlib.compressobj()
            return stream.compress(plain) + stream.flush(zlib.Z_SYNC_FLUSH)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(plain, _ZSTD_LEVEL))
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(plain))
        case _:
            raise CompressedDataInvalid(f"compression type {codec} is unknown; 0 to {max(Codec)} are known")
