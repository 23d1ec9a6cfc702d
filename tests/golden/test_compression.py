"""Golden tests of each codec with the bytes that Pulsar's clients compressed."""

import zlib
from collections import defaultdict

import pytest

from delayed_tracker.ledger.compression import MESSAGE_BYTES_MAX, Codec, compress, decompress
from delayed_tracker.ledger.entry.frame import parse_message_metadata, split_frame
from tests.golden.pulsar_pack import expected, read_topic


@pytest.fixture(scope="module")
def payloads(reader) -> dict[tuple[Codec, str], list[tuple[bytes, int]]]:
    """Return stored payloads that need no key and no other entry, with uncompressed sizes, by codec and client."""
    found = defaultdict(list)
    for topic in sorted({row["topic"] for row in expected("entries")}):
        for ledger in read_topic(reader, topic):
            stored = ledger.columns.stored
            for row in range(len(stored)):
                entry = stored.payload(row)
                frame = split_frame(entry)
                metadata = parse_message_metadata(entry, frame)
                if metadata.compression and not metadata.encryption_keys and metadata.num_chunks_from_msg <= 1:
                    client = "C++" if topic.endswith("-py") else "Java"
                    payload = entry[frame.metadata_end :], metadata.uncompressed_size
                    found[Codec(metadata.compression), client].append(payload)
    return found


def again(codec: Codec, stored: list[tuple[bytes, int]]) -> list[bool]:
    """Return for each payload if compressing it again gives the same bytes. Checks that our bytes decompress."""
    same = []
    for payload, size in stored:
        plain = decompress(codec, payload, size, size_max=MESSAGE_BYTES_MAX)
        ours = compress(codec, plain)
        assert decompress(codec, ours, size, size_max=MESSAGE_BYTES_MAX) == plain
        same.append(ours == payload)
    return same


@pytest.mark.skipif(
    "zlib-ng" in zlib.ZLIB_RUNTIME_VERSION, reason="zlib-ng gives other bytes than zlib, which Java has"
)
def test_zlib_gives_the_bytes_of_pulsars_java(payloads):
    """ZLIB gives the bytes of Pulsar's Java, with which brokers compact, but not of C++, which ends its streams."""
    stored = payloads[Codec.ZLIB, "Java"]

    assert len(stored) == 86
    assert all(again(Codec.ZLIB, stored))
    assert not any(again(Codec.ZLIB, payloads[Codec.ZLIB, "C++"]))


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.SNAPPY])
@pytest.mark.parametrize("client", ["Java", "C++"])
def test_lz4_and_snappy_give_the_same_bytes_now_and_then(payloads, codec, client):
    """LZ4 and Snappy give the same bytes sometimes, because their formats leave choices, and always decompress."""
    same = again(codec, payloads[codec, client])

    assert len(same) >= 37
    assert any(same)
    assert not all(same)


def test_zstd_never_gives_the_bytes_of_pulsars_java(payloads):
    """ZSTD never gives the bytes of Pulsar's Java, whose frames have a checksum; ours and those of C++ have none."""
    java, cpp = payloads[Codec.ZSTD, "Java"], payloads[Codec.ZSTD, "C++"]

    assert (len(java), len(cpp)) == (41, 37)
    assert all(has_content_checksum(payload) for payload, _ in java)
    assert not any(has_content_checksum(payload) for payload, _ in cpp)
    assert not has_content_checksum(compress(Codec.ZSTD, b"hello"))
    assert not any(again(Codec.ZSTD, java))


def has_content_checksum(frame: bytes) -> bool:
    """Return True if the frame descriptor has the checksum flag (RFC 8878, 3.1.1.1.1)."""
    return bool(frame[4] & 1 << 2)
