"""Builds MapFiles of ledgers byte by byte, in Hadoop's layout."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.pulsar.v1.ledger_metadata_pb2 import LedgerMetadataFormat

LONG = "org.apache.hadoop.io.LongWritable"
BYTES = "org.apache.hadoop.io.BytesWritable"
CODEC = "org.apache.hadoop.io.compress.DefaultCodec"
SYNC = bytes(range(0x50, 0x60))
ESCAPE = b"\xff\xff\xff\xff"


def vint(value: int) -> bytes:
    """Encode a number that is not negative, as Hadoop's WritableUtils does."""
    if value < 0x80:
        return bytes([value])
    octets = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([0x90 - len(octets)]) + octets


def text(value: str) -> bytes:
    encoded = value.encode()
    return vint(len(encoded)) + encoded


def header(
    compression: Compression,
    *,
    value_class: str = BYTES,
    key_class: str = LONG,
    version: int = 6,
    codec: str = CODEC,
    metadata: Sequence[tuple[str, str]] = (),
) -> bytes:
    flags = bytes([compression is not Compression.NONE, compression is Compression.BLOCK])
    codec_text = b"" if compression is Compression.NONE else text(codec)
    pairs = struct.pack(">i", len(metadata)) + b"".join(text(key) + text(value) for key, value in metadata)
    return b"SEQ" + bytes([version]) + text(key_class) + text(value_class) + flags + codec_text + pairs + SYNC


def record(key: int, entry: bytes, compression: Compression = Compression.NONE) -> bytes:
    value = struct.pack(">i", len(entry)) + entry
    if compression is Compression.RECORD:
        value = zlib.compress(value)
    return struct.pack(">iiq", 8 + len(value), 8, key) + value


def block(keys: Sequence[int], values: Sequence[bytes]) -> bytes:
    """Return a block of serialized values."""
    streams = (
        vint(8) * len(keys),
        b"".join(struct.pack(">q", key) for key in keys),
        b"".join(vint(len(value)) for value in values),
        b"".join(values),
    )
    packed = [zlib.compress(stream) for stream in streams]
    return ESCAPE + SYNC + vint(len(keys)) + b"".join(vint(len(stream)) + stream for stream in packed)


def ledger_metadata(
    payloads: Sequence[bytes], managed_ledger: str = "lab/main/persistent/orders", *, last_entry_id: int | None = None
) -> bytes:
    """Return metadata of a closed ledger; ``last_entry_id`` is what they claim, if that is not the last payload."""
    parsed = LedgerMetadataFormat(
        quorumSize=1,
        ensembleSize=1,
        length=sum(map(len, payloads)),
        lastEntryId=len(payloads) - 1 if last_entry_id is None else last_entry_id,
        state=LedgerMetadataFormat.CLOSED,
        digestType=LedgerMetadataFormat.CRC32C,
        ctime=1_700_000_000_000,
    )
    parsed.segment.add(ensembleMember=["bk1:3181"], firstEntryId=0)
    parsed.customMetadata.add(key="pulsar/managed-ledger", value=managed_ledger.encode())
    return parsed.SerializeToString()


class MapFileWriter:
    """Closed ledger as the filesystem driver writes it. Tests may change ``data`` and ``index`` before they save it."""

    def __init__(
        self,
        payloads: Sequence[bytes],
        compression: Compression,
        *,
        sync_every: int = 7,
        index_every: int = 128,
        metadata: bytes | None = None,
    ) -> None:
        """Lay out a ledger.

        Args:
            payloads: payloads of entries 0, 1, ...
            compression: compression of the data file.
            sync_every: records between sync marks, or in a block.
            index_every: least number of keys between two keys of the index.
            metadata: value of key -1.
        """
        stored = ledger_metadata(payloads) if metadata is None else metadata
        rows = list(enumerate([stored, *payloads], start=-1))
        self.offsets: dict[int, int] = {}
        """Offset of each record, or of its block."""
        places: list[tuple[int, int]] = []
        data = bytearray(header(compression))
        if compression is Compression.BLOCK:
            # A record that is indexed while a block fills has the offset of that block.
            groups = [rows[at : at + sync_every] for at in range(0, len(rows), sync_every)]
            for group in groups:
                self.offsets |= {key: len(data) for key, _ in group}
                values = [struct.pack(">i", len(entry)) + entry for _, entry in group]
                data += block([key for key, _ in group], values)
        else:
            for number, (key, entry) in enumerate(rows):
                self.offsets[key] = len(data)
                if number and number % sync_every == 0:
                    data += ESCAPE + SYNC
                data += record(key, entry, compression)
        counted = -index_every
        for number, (key, _) in enumerate(rows):
            if number >= counted + index_every and (not places or self.offsets[key] > places[-1][1]):
                places.append((key, self.offsets[key]))
                counted = number
        self.data = bytes(data)
        keys = [key for key, _ in places]
        values = [struct.pack(">q", offset) for _, offset in places]
        self.index: bytes | None = header(Compression.BLOCK, value_class=LONG) + block(keys, values)

    def save(self, directory: Path, *, checksums: bool = False) -> Path:
        """Write the files into a directory, which is created."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in (("data", self.data), ("index", self.index)):
            if content is not None:
                (directory / name).write_bytes(content)
                if checksums:
                    (directory / f".{name}.crc").write_bytes(crc_file(content))
        return directory


def crc_file(content: bytes, chunk_bytes: int = 512) -> bytes:
    chunks = [content[at : at + chunk_bytes] for at in range(0, len(content), chunk_bytes)]
    return b"crc\0" + struct.pack(f">i{len(chunks)}I", chunk_bytes, *map(zlib.crc32, chunks))
