"""Acknowledgement state of a subscription, from either of the two places where Pulsar stores it.

If ``cursors_ledger_id`` is -1, the state is in the metadata store. Otherwise it is the last entry of that ledger, and
the state in the metadata is only a stale fallback. Individual acknowledgements are stored as ranges (lower, upper] or
as words of bits, never as both. For a batch that is acknowledged in part, the words mark the messages that are *not*
acknowledged yet.

Source: ManagedCursorImpl.java (recover, recoverIndividualDeletedMessages). Pulsar drops partial batch acknowledgements
that are in the metadata store; this module keeps them. The entry stays pending in both cases, unless every message of
it is acknowledged; then the entry needs no redelivery.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from delayed_tracker.core.values.columns import (
    BEFORE_ALL,
    ENTRY_ID_MAX,
    BoolArray,
    Int64Array,
    Position,
    PositionColumns,
)
from delayed_tracker.core.values.position_bitmap import PositionBitmap, entry_bitmap
from delayed_tracker.ledger.entry.frame import text_of
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb

NO_LEDGER: Final = -1


@dataclass(frozen=True, slots=True)
class PartialBatchAcks:
    """Batches that are acknowledged in part, one row per entry, ascending."""

    positions: PositionColumns
    word_end: Int64Array
    """Row i's words are ``words[word_end[i - 1]:word_end[i]]`` (from 0 for the first row)."""
    words: NDArray[np.uint64]
    """Bit j of a row's word i is message 64 * i + j of the batch. A set bit is an unacknowledged message."""

    def __len__(self) -> int:
        return len(self.positions)

    def row_words(self, row: int) -> NDArray[np.uint64]:
        """Return the words of one row."""
        start = int(self.word_end[row - 1]) if row else 0
        return self.words[start : int(self.word_end[row])]


@dataclass(frozen=True, slots=True)
class CursorState:
    """Acknowledgement state of a subscription."""

    mark_delete: Position
    """All positions up to and including this one are acknowledged."""
    acked: PositionBitmap
    """Positions acknowledged one by one. May contain positions at or below the mark-delete position."""
    partial_batch_acks: PartialBatchAcks
    properties: Mapping[str, int]
    cursor_properties: Mapping[str, str]
    state_ledger_id: int | None
    """Ledger that the state was read from; None if it was in the metadata."""

    def acknowledges(self, positions: PositionColumns) -> BoolArray:
        """Return True for each position that is acknowledged as a whole. O(n)."""
        ledger, entry = self.mark_delete
        below: BoolArray = (positions.ledger_id < ledger) | (
            (positions.ledger_id == ledger) & (positions.entry_id <= entry)
        )
        return below | self.acked.contains(positions)


def nothing_acked() -> CursorState:
    """Return the state of a subscription that never acknowledged anything."""
    return CursorState(
        mark_delete=BEFORE_ALL,
        acked=PositionBitmap(),
        partial_batch_acks=_batch_holes([])[0],
        properties={},
        cursor_properties={},
        state_ledger_id=None,
    )


def cursor_state(
    info: pb.ManagedCursorInfo, state_entry: pb.PositionInfo | None, last_entry_ids: Mapping[int, int]
) -> CursorState:
    """Decode the stored state.

    Args:
        info: the cursor's node.
        state_entry: the last entry of ``info.cursors_ledger_id``. None if the state is in the node, or if that ledger
            was closed empty or is lost and only the node's mark-delete position remains.
        last_entry_ids: last entry of each ledger of the topic, for ranges that span ledgers.
    Raises:
        MetadataInvalid: impossible positions, such as a range that ends before it starts.
    """
    cursor_properties = {text_of(entry.name): text_of(entry.value) for entry in info.cursor_properties}
    if state_entry is not None:
        holes, emptied = _batch_holes(state_entry.batched_entry_deletion_index_info)
        acked = _acked(state_entry.individual_deleted_messages, last_entry_ids)
        if not state_entry.individual_deleted_messages:
            acked = _acked_words(state_entry.individual_deleted_message_ranges)
        acked.add(emptied)
        return CursorState(
            mark_delete=Position(state_entry.ledger_id, state_entry.entry_id),
            acked=acked,
            partial_batch_acks=holes,
            properties={text_of(entry.name): entry.value for entry in state_entry.properties},
            cursor_properties=cursor_properties,
            state_ledger_id=info.cursors_ledger_id,
        )
    mark_delete = BEFORE_ALL
    if info.HasField("mark_delete_ledger_id"):
        mark_delete = Position(
            info.mark_delete_ledger_id, info.mark_delete_entry_id if info.HasField("mark_delete_entry_id") else -1
        )
    holes, emptied = _batch_holes(info.batched_entry_deletion_index_info)
    acked = _acked(info.individual_deleted_messages, last_entry_ids)
    acked.add(emptied)
    return CursorState(
        mark_delete=mark_delete,
        acked=acked,
        partial_batch_acks=holes,
        properties={text_of(entry.name): entry.value for entry in info.properties},
        cursor_properties=cursor_properties,
        state_ledger_id=None,
    )


def _acked(ranges: Iterable[pb.MessageRange], last_entry_ids: Mapping[int, int]) -> PositionBitmap:
    by_ledger: dict[int, BitMap] = {}

    def add(ledger_id: int, first: int, last: int) -> None:
        if first <= last:
            by_ledger.setdefault(ledger_id, BitMap()).add_range(first, last + 1)

    for stored in ranges:
        lower, upper = stored.lower_endpoint, stored.upper_endpoint
        ends = (lower.ledger_id, lower.entry_id), (upper.ledger_id, upper.entry_id)
        if ends[0] > ends[1] or lower.ledger_id < 0 or lower.entry_id < -1 or upper.entry_id > ENTRY_ID_MAX:
            raise MetadataInvalid(
                f"acknowledged range ({lower.ledger_id}:{lower.entry_id}, {upper.ledger_id}:{upper.entry_id}] "
                "cannot be; take the dump again"
            )
        if lower.ledger_id == upper.ledger_id:
            add(lower.ledger_id, lower.entry_id + 1, upper.entry_id)
            continue
        for ledger_id, last_entry_id in last_entry_ids.items():
            if ledger_id == lower.ledger_id:
                add(ledger_id, lower.entry_id + 1, last_entry_id)
            elif lower.ledger_id < ledger_id < upper.ledger_id:
                add(ledger_id, 0, last_entry_id)
        add(upper.ledger_id, 0, upper.entry_id)
    return PositionBitmap.from_bitmaps(by_ledger)


def _acked_words(by_ledger: Iterable[pb.LongListMap]) -> PositionBitmap:
    return PositionBitmap.from_bitmaps(
        {
            ledger.key: entry_bitmap(
                np.flatnonzero(np.unpackbits(np.array(ledger.values, "<i8").view(np.uint8), bitorder="little")).astype(
                    np.int64
                )
            )
            for ledger in by_ledger
        }
    )


def _batch_holes(stored: Iterable[pb.BatchedEntryDeletionIndexInfo]) -> tuple[PartialBatchAcks, PositionColumns]:
    """Return the batches that have unacknowledged messages, and the positions of the batches that have none."""
    rows = sorted(stored, key=lambda row: (row.position.ledger_id, row.position.entry_id))
    open_rows = [row for row in rows if any(row.delete_set)]
    emptied = [row for row in rows if not any(row.delete_set)]
    words = np.array([word for row in open_rows for word in row.delete_set], np.int64).view(np.uint64)
    holes = PartialBatchAcks(
        positions=_positions(open_rows),
        word_end=np.cumsum([len(row.delete_set) for row in open_rows], dtype=np.int64),
        words=words,
    )
    return holes, _positions(emptied)


def _positions(rows: list[pb.BatchedEntryDeletionIndexInfo]) -> PositionColumns:
    return PositionColumns.of((row.position.ledger_id, row.position.entry_id) for row in rows)
