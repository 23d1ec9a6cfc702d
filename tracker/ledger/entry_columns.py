"""What the entries of a topic say about themselves, as columns: the one shape all readers of ledgers share.

One row per entry, in the order of the entries given. A column's value counts only where its flag is set; elsewhere it
is 0. An entry that cannot be read keeps its row, with a verdict instead of values, so that rows and entries stay
aligned.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray

from tracker.core.columns import BoolArray, Int64Array, PositionColumns
from tracker.ledger.errors import FrameInvalid
from tracker.ledger.frame import checksum_matches, parse_broker_metadata, parse_message_metadata, split_frame
from tracker.ledger.stored_entries import StoredEntries


class EntryFlag(IntFlag):
    """What an entry has; a set of bits per row."""

    BROKER_FRAME = 1 << 0
    BROKER_TIMESTAMP = 1 << 1
    INDEX = 1 << 2
    CHECKSUM = 1 << 3
    DELAYED = 1 << 4
    """``deliver_at_ms`` is present, whatever its value."""
    MARKER = 1 << 5
    """``marker_type`` is present: no user message."""
    TRANSACTION = 1 << 6
    BATCH = 1 << 7
    """The batch layout is used, even for a batch of one."""
    CHUNK = 1 << 8
    """One of several pieces of a message."""
    ENCRYPTED = 1 << 9


class EntryVerdict(IntEnum):
    """Whether an entry could be read."""

    READABLE = 0
    CHECKSUM_MISMATCH = 1
    """The values are filled in all the same; do not trust them."""
    FRAME_INVALID = 2
    """Cut short, or metadata that does not parse."""


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """Frames and metadata of many entries.

    Times are milliseconds since 1970-01-01 UTC. ``payload_start`` is where the payload begins in ``stored.buffer`` (it
    ends where the entry ends).
    """

    stored: StoredEntries
    verdict: NDArray[np.uint8]
    flags: NDArray[np.uint32]
    broker_timestamp_ms: Int64Array
    index: Int64Array
    """Broker index of the entry's last message."""
    publish_time_ms: Int64Array
    deliver_at_ms: Int64Array
    """As stored: may be negative."""
    num_messages: Int64Array
    """Of a batch; 1 for everything else."""
    marker_type: Int64Array
    txn_id_most: NDArray[np.uint64]
    txn_id_least: NDArray[np.uint64]
    compression: NDArray[np.uint8]
    uncompressed_size: Int64Array
    payload_start: Int64Array

    def __len__(self) -> int:
        return len(self.verdict)

    @property
    def positions(self) -> PositionColumns:
        """Where the entries are; shares memory."""
        return self.stored.positions

    @property
    def readable(self) -> BoolArray:
        """Rows whose values can be trusted."""
        mask: BoolArray = self.verdict == EntryVerdict.READABLE
        return mask

    def has(self, flag: EntryFlag) -> BoolArray:
        """Rows that have all of the given bits."""
        mask: BoolArray = (self.flags & np.uint32(flag)) == flag
        return mask

    def unreadable(self) -> Iterator[tuple[int, str]]:
        """(row, reason) of each entry that could not be read. Parses those again, to say why."""
        for row in np.flatnonzero(self.verdict != EntryVerdict.READABLE).tolist():
            yield row, _reason(self.stored, row)


def _reason(stored: StoredEntries, row: int) -> str:
    entry = stored.payload(row)
    try:
        frame = split_frame(entry)
        parse_broker_metadata(entry, frame)
        parse_message_metadata(entry, frame)
    except FrameInvalid as error:
        return error.message
    return f"CRC32C of the message is not the stored {frame.crc:08x}"


def scan_entries(stored: StoredEntries) -> EntryColumns:
    """Read the frame and the metadata of every entry, and check its checksum.

    Args:
        stored: entries of topic ledgers, in any order; the result keeps a reference to it.
    Returns: one row per entry, in the same order; never raises for bad entries, see ``verdict``.
    Cost: O(bytes).
    """
    row_count = len(stored)
    # One matrix of signed columns, filled row by row, handed out as its rows.
    signed = np.zeros((8, row_count), np.int64)
    broker_timestamp, index, publish_time, deliver_at, num_messages, marker_type, size, payload_start = signed
    num_messages[:] = 1
    txn_id = np.zeros((2, row_count), np.uint64)
    flags = np.zeros(row_count, np.uint32)
    verdict = np.zeros(row_count, np.uint8)
    compression = np.zeros(row_count, np.uint8)
    buffer = stored.buffer

    for row, (start, end) in enumerate(zip(stored.start.tolist(), stored.end.tolist(), strict=True)):
        bits = 0
        try:
            frame = split_frame(buffer, start, end)
            broker = parse_broker_metadata(buffer, frame)
            message = parse_message_metadata(buffer, frame)
        except FrameInvalid:
            verdict[row] = EntryVerdict.FRAME_INVALID
            payload_start[row] = end
            continue
        if broker is not None:
            bits |= EntryFlag.BROKER_FRAME
            if broker.HasField("broker_timestamp"):
                bits |= EntryFlag.BROKER_TIMESTAMP
                broker_timestamp[row] = _signed(broker.broker_timestamp)
            if broker.HasField("index"):
                bits |= EntryFlag.INDEX
                index[row] = _signed(broker.index)
        if frame.crc >= 0:
            bits |= EntryFlag.CHECKSUM
            if not checksum_matches(buffer, frame):
                verdict[row] = EntryVerdict.CHECKSUM_MISMATCH
        publish_time[row] = _signed(message.publish_time)
        payload_start[row] = frame.metadata_end
        size[row] = message.uncompressed_size
        compression[row] = message.compression
        if message.HasField("deliver_at_time"):
            bits |= EntryFlag.DELAYED
            deliver_at[row] = message.deliver_at_time
        if message.HasField("marker_type"):
            bits |= EntryFlag.MARKER
            marker_type[row] = message.marker_type
        if message.HasField("txnid_most_bits") and message.HasField("txnid_least_bits"):
            bits |= EntryFlag.TRANSACTION
            txn_id[0, row] = message.txnid_most_bits
            txn_id[1, row] = message.txnid_least_bits
        if message.HasField("num_messages_in_batch"):
            bits |= EntryFlag.BATCH
            num_messages[row] = message.num_messages_in_batch
        if message.num_chunks_from_msg > 1:
            bits |= EntryFlag.CHUNK
        if message.encryption_keys:
            bits |= EntryFlag.ENCRYPTED
        flags[row] = bits

    return EntryColumns(
        stored=stored,
        verdict=verdict,
        flags=flags,
        broker_timestamp_ms=broker_timestamp,
        index=index,
        publish_time_ms=publish_time,
        deliver_at_ms=deliver_at,
        num_messages=num_messages,
        marker_type=marker_type,
        txn_id_most=txn_id[0],
        txn_id_least=txn_id[1],
        compression=compression,
        uncompressed_size=size,
        payload_start=payload_start,
    )


def _signed(value: int) -> int:
    """An unsigned 64-bit wire value as the signed one that Java sees."""
    return value - (1 << 64) if value >> 63 else value
