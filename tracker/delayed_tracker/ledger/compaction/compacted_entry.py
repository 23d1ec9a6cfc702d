"""The format of entries in a compacted ledger: the original position in front.

    compacted = size i32 || MessageIdData || size i32 || entry of a topic

Big-endian. The entry is unchanged, including its broker frame if the compactor received one; or it is a batch of which
some messages were dropped.
Source: RawMessageImpl.java (serialize, deserializeFrom).
"""

import struct
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError

from delayed_tracker.core.values.columns import INT63_MAX, Position
from delayed_tracker.ledger.compaction.kernels import original_positions
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry, PayloadInvalid
from delayed_tracker.pulsar.v1.entry_pb2 import MessageIdData

_I32: Final = struct.Struct(">i")


def encode_compacted(position: Position, partition: int, entry: bytes) -> bytes:
    """Encode one entry of a compacted ledger.

    Args:
        position: the entry's position in the topic.
        partition: the topic's partition; -1 for none.
        entry: broker frame, headers and payload.
    """
    message_id = MessageIdData(ledger_id=position.ledger_id, entry_id=position.entry_id, partition=partition)
    header = message_id.SerializeToString()
    return b"".join((_I32.pack(len(header)), header, _I32.pack(len(entry)), entry))


def unwrap_compacted(read: LedgerEntries) -> LedgerEntries:
    """Convert entries of a compacted ledger to entries of the topic, at their original positions; shares the buffer.

    Entries that are not in the compacted form are listed as bad, with their position in the compacted ledger.
    Cost: O(rows), whatever the entries' size: about 20 ns each, and some microseconds for one of a rare form.
    """
    stored, bad = read.entries, list(read.bad_entries)
    start, end = np.ascontiguousarray(stored.start), np.ascontiguousarray(stored.end)
    found, is_good = original_positions(np.frombuffer(stored.buffer, np.uint8), start, end)
    for row in np.flatnonzero(~is_good).tolist():
        try:
            position, entry_start = _header(stored.buffer, int(start[row]), int(end[row]))
        except PayloadInvalid as error:
            bad.append(BadEntry(int(stored.ledger_id[row]), int(stored.entry_id[row]), None, None, error.message))
            continue
        found[:, row] = *position, entry_start
        is_good[row] = True
    if not is_good.all():
        found, end = found[:, is_good], end[is_good]
    return LedgerEntries(StoredEntries(stored.buffer, found[0], found[1], found[2], end), tuple(bad))


def _header(buffer: bytes, start: int, end: int) -> tuple[Position, int]:
    """Return the original position and the start of the entry, which ends at ``end``."""
    id_start = start + _I32.size
    id_end = id_start + _size(buffer, start, end)
    entry_start = id_end + _I32.size
    if id_end < id_start or entry_start > end or entry_start + _size(buffer, id_end, end) != end:
        raise PayloadInvalid(f"cut short: the sizes in {end - start} bytes are not those of a compacted entry")
    try:
        message_id = MessageIdData.FromString(buffer[id_start:id_end])
    except DecodeError as error:
        raise PayloadInvalid(f"the original position does not parse: {error}") from error
    if not message_id.IsInitialized():
        raise PayloadInvalid("the original position lacks ledger or entry")
    position = Position(message_id.ledger_id, message_id.entry_id)
    if max(position) > INT63_MAX:
        raise PayloadInvalid(f"the original position {position} is out of range 0 to {INT63_MAX}")
    return position, entry_start


def _size(buffer: bytes, at: int, end: int) -> int:
    return int(_I32.unpack_from(buffer, at)[0]) if at + _I32.size <= end else -1
