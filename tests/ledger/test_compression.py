"""Tests of the codecs of payloads and metadata values."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger.compression import MESSAGE_BYTES_MAX, Codec, compress
from delayed_tracker.ledger.compression import decompress as decompress_within
from delayed_tracker.ledger.errors import CompressedDataInvalid


def decompress(codec, compressed, size):
    return decompress_within(codec, compressed, size, size_max=MESSAGE_BYTES_MAX)


PLAIN = b"hello " * 9 + b"hello"
BY_JAVA = {
    Codec.NONE: PLAIN,
    Codec.LZ4: bytes.fromhex("6f68656c6c6f2006001d5068656c6c6f"),
    Codec.ZLIB: bytes.fromhex("789cca48cdc9c957c8208704000000ffff"),
    Codec.ZSTD: bytes.fromhex("28b52ffd243b6500003068656c6c6f200100ca598a140b0f88"),
    Codec.SNAPPY: bytes.fromhex("3b1468656c6c6f20d20600"),
}


@pytest.mark.parametrize("codec", Codec)
def test_what_java_compressed(codec):
    """Worked example O has bytes from Java's libraries, including an unfinished zlib stream."""
    assert decompress(codec, BY_JAVA[codec], len(PLAIN)) == PLAIN


@given(codec=st.sampled_from(Codec), plain=st.binary(max_size=2000))
def test_codecs_round_trip(codec, plain):
    """Decompressing gives the bytes that were compressed."""
    assert decompress(codec, compress(codec, plain), len(plain)) == plain


def test_java_would_compress_to_the_same_bytes():
    """Compressed bytes equal Java's where the formats or compressors agree, as for the unfinished zlib stream."""
    for codec in (Codec.NONE, Codec.ZLIB, Codec.SNAPPY):
        assert compress(codec, PLAIN) == BY_JAVA[codec]


def test_a_finished_zlib_stream():
    """A finished zlib stream, as C++ and Go clients send it, is decompressed."""
    assert decompress(Codec.ZLIB, zlib.compress(PLAIN), len(PLAIN)) == PLAIN


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD, Codec.SNAPPY, Codec.ZLIB])
def test_the_best_that_a_format_can_do_is_accepted(codec):
    """Megabytes of one byte, the best case of a format, are accepted, and a larger claim is damage."""
    plain = bytes(4_000_000)
    compressed = compress(codec, plain)

    assert decompress(codec, compressed, len(plain)) == plain
    with pytest.raises(CompressedDataInvalid, match="can never give"):
        decompress(codec, compressed[:10], MESSAGE_BYTES_MAX)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, len(PLAIN) - 1, len(PLAIN) + 1, 10 * len(PLAIN)])
def test_another_size_than_promised_is_refused(codec, size):
    """A result with more or fewer bytes than the header claims is refused."""
    with pytest.raises(CompressedDataInvalid):
        decompress(codec, BY_JAVA[codec], size)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD, Codec.SNAPPY, Codec.ZLIB])
def test_cut_bytes_are_refused(codec):
    """A cut at any byte is refused, except for the last four bytes of a zlib stream, which mark only the flush."""
    compressed = BY_JAVA[codec]
    for length in range(len(compressed) - (5 if codec is Codec.ZLIB else 0)):
        with pytest.raises(CompressedDataInvalid):
            decompress(codec, compressed[:length], len(PLAIN))


def test_unknown_codec_is_named():
    """The error for an unknown codec has its number."""
    with pytest.raises(CompressedDataInvalid, match="compression type 9 is unknown"):
        decompress(9, b"", 0)
    with pytest.raises(CompressedDataInvalid, match="compression type 9 is unknown"):
        compress(9, b"")


@pytest.mark.parametrize("size", [-1, MESSAGE_BYTES_MAX + 1])
def test_impossible_size_allocates_nothing(size):
    """An impossible size in a damaged header allocates nothing."""
    with pytest.raises(CompressedDataInvalid, match="out of range"):
        decompress(Codec.LZ4, b"", size)
