"""Builds objects of offloaded ledgers byte by byte, in the layout of the blob store driver."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedLedgerInfo
from tests.ledger.offload.sequence_files import ledger_metadata

PADDING = b"\xfe\xdc\xde\xad"
HEADER_BYTES = 128


def record(entry_id: int, entry: bytes) -> bytes:
    return struct.pack(">iq", len(entry), entry_id) + entry


def padded(octets: bytes, size: int) -> bytes:
    """Return the octets with padding, which starts behind the last record at any alignment."""
    return octets + (PADDING * (size // 4 + 1))[: size - len(octets)]


def blocks(payloads: Sequence[bytes], block_bytes: int, first: int = 0) -> Iterator[tuple[int, bytes, int]]:
    """Yield (first entry, records, block length) of the blocks that the entries fill."""
    begin = first
    records = bytearray()
    for entry_id, entry in enumerate(payloads, start=first):
        new = record(entry_id, entry)
        if HEADER_BYTES + len(records) + len(new) > block_bytes:
            yield begin, bytes(records), block_bytes
            begin, records = entry_id, bytearray()
        records += new
    yield begin, bytes(records), HEADER_BYTES + len(records)


class BlobWriter:
    """Ledger in the layout of every release. Tests may change ``data`` and ``index`` before they save it."""

    def __init__(
        self, payloads: Sequence[bytes], *, block_bytes: int = 64 << 20, metadata: bytes | None = None
    ) -> None:
        self.data = b""
        self.offsets: dict[int, int] = {}
        """Offset of each record."""
        rows = []
        for begin, records, size in blocks(payloads, block_bytes):
            rows.append((begin, len(rows) + 1, len(self.data)))
            at = len(self.data) + HEADER_BYTES
            for entry_id in range(begin, len(payloads)):
                if at + 12 + len(payloads[entry_id]) > len(self.data) + size:
                    break
                self.offsets[entry_id] = at
                at += 12 + len(payloads[entry_id])
            head = struct.pack(">Iqqq", 0xFBDBABCB, HEADER_BYTES, size, begin).ljust(HEADER_BYTES, b"\0")
            self.data += padded(head + records, size)
        self.block_offsets = [offset for _, _, offset in rows]
        self.index = index(rows, len(self.data), ledger_metadata(payloads) if metadata is None else metadata)

    def save(self, directory: Path, uuid: UUID, ledger_id: int) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{uuid}-ledger-{ledger_id}").write_bytes(self.data)
        (directory / f"{uuid}-ledger-{ledger_id}-index").write_bytes(self.index)
        return directory


def index(rows: Sequence[tuple[int, int, int]], data_bytes: int, metadata: bytes) -> bytes:
    """Return an index object; the rows are first entry, part id, offset."""
    tail = struct.pack(">ii", len(rows), len(metadata)) + metadata
    tail += b"".join(struct.pack(">qiq", *row) for row in rows)
    return struct.pack(">Iiqq", 0xDE47DE47, 24 + len(tail), data_bytes, HEADER_BYTES) + tail


def streamed(
    ledgers: Mapping[int, Sequence[bytes]], *, block_bytes: int = 300, first: int = 0, ended: bool = True
) -> tuple[bytes, bytes]:
    """Return data and index object of streaming offload, with alternating blocks of several ledgers."""
    data = b""
    rows: dict[int, list[tuple[int, int, int]]] = {ledger_id: [] for ledger_id in ledgers}
    queues = {ledger_id: list(blocks(payloads, block_bytes, first)) for ledger_id, payloads in ledgers.items()}
    part = 0
    while any(queues.values()):
        for ledger_id, queue in queues.items():
            if queue:
                begin, records, size = queue.pop(0)
                size = max(size, block_bytes)
                part += 1
                rows[ledger_id].append((begin, part, len(data)))
                head = struct.pack(">Iqqqq", 0x26A66D32, HEADER_BYTES, size, begin, ledger_id)
                data += padded(head.ljust(HEADER_BYTES, b"\0") + records, size)
    tail = b""
    for ledger_id, payloads in ledgers.items():
        told = ManagedLedgerInfo.LedgerInfo(ledger_id=ledger_id, timestamp=0)
        if ended:
            told.entries, told.size = first + len(payloads), sum(map(len, payloads))
        metadata = told.SerializeToString()
        tail += struct.pack(">qii", ledger_id, len(rows[ledger_id]), len(metadata)) + metadata
        tail += b"".join(struct.pack(">qiq", *row) for row in rows[ledger_id])
    return data, struct.pack(">Iiqq", 0x3D1FB0BC, 24 + len(tail), len(data), HEADER_BYTES) + tail
