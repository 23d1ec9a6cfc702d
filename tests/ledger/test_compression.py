"""The codecs of payloads and metadata values."""

import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.ledger.compression import UNCOMPRESSED_BYTES_MAX, Codec, decompress
from tracker.ledger.errors import CompressedDataInvalid

PLAIN = b"hello " * 9 + b"hello"
BY_JAVA = {
    Codec.NONE: PLAIN,
    Codec.LZ4: bytes.fromhex("6f68656c6c6f2006001d5068656c6c6f"),
    Codec.ZLIB: bytes.fromhex("789cca48cdc9c957c8208704000000ffff"),
    Codec.ZSTD: bytes.fromhex("28b52ffd243b6500003068656c6c6f200100ca598a140b0f88"),
    Codec.SNAPPY: bytes.fromhex("3b1468656c6c6f20d20600"),
}


def compress(codec: Codec, plain: bytes) -> bytes:
    match codec:
        case Codec.NONE:
            return plain
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress_block(plain, store_size=False))
        case Codec.ZLIB:
            return zlib.compress(plain)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(plain))
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(plain))


@pytest.mark.parametrize("codec", Codec)
def test_what_java_compressed(codec):
    """Worked example O: bytes from Java's libraries, an unfinished zlib stream among them."""
    assert decompress(codec, BY_JAVA[codec], len(PLAIN)) == PLAIN


@given(codec=st.sampled_from(Codec), plain=st.binary(max_size=2000))
def test_codecs_round_trip(codec, plain):
    """Decompressing gives what was compressed."""
    assert decompress(codec, compress(codec, plain), len(plain)) == plain


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, len(PLAIN) - 1, len(PLAIN) + 1, 10 * len(PLAIN)])
def test_another_size_than_promised_is_refused(codec, size):
    """Neither more nor fewer bytes than the header promises are accepted."""
    with pytest.raises(CompressedDataInvalid):
        decompress(codec, BY_JAVA[codec], size)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD, Codec.SNAPPY, Codec.ZLIB])
def test_cut_bytes_are_refused(codec):
    """A cut anywhere is noticed; a zlib stream may lose the four bytes that only mark where it was flushed."""
    compressed = BY_JAVA[codec]
    for length in range(len(compressed) - (5 if codec is Codec.ZLIB else 0)):
        with pytest.raises(CompressedDataInvalid):
            decompress(codec, compressed[:length], len(PLAIN))


def test_unknown_codec_is_named():
    """A number that no codec has."""
    with pytest.raises(CompressedDataInvalid, match="compression type 9 is unknown"):
        decompress(9, b"", 0)


@pytest.mark.parametrize("size", [-1, UNCOMPRESSED_BYTES_MAX + 1])
def test_impossible_size_allocates_nothing(size):
    """A damaged header must not make us ask for gigabytes."""
    with pytest.raises(CompressedDataInvalid, match="out of range"):
        decompress(Codec.LZ4, b"", size)
