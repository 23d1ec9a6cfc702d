"""Finds the pending messages of a subscription: delayed entries that it has not acknowledged.

Entries that are due already are included, because the ledgers do not decide that. Entries of an aborted or open
transaction are left out. Markers are not messages and do not count. A batch that is acknowledged in part is pending as
a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag
from delayed_tracker.ledger.errors import BadEntry, ErrorPolicy
from delayed_tracker.ledger.metadata.cursor import CursorState, nothing_acked
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.topic.topic_reader import LedgerRead, TopicReader
from delayed_tracker.ledger.topic.transactions import TransactionMarkers, TransactionOutcome
from delayed_tracker.ledger.topic_name import TopicName


class DropReason(IntEnum):
    """Reason why a delayed entry is not pending; the first that applies."""

    ABORTED = 1
    OPEN_TRANSACTION = 2
    ACKNOWLEDGED = 3


@dataclass(frozen=True, slots=True)
class PendingReport:
    """Delayed, unacknowledged entries of one subscription, and the delayed entries that were left out.

    ``delayed_count`` is ``len(indexes) + len(dropped)``.
    """

    topic: str
    subscription: str
    mark_delete: Position
    """(-1, -1) if nothing is acknowledged or acknowledgements are ignored."""
    indexes: IndexColumns
    """Pending entries, ascending by position. Negative deadlines count as due and are stored as 0."""
    dropped: IndexColumns
    """Delayed entries that are not pending, ascending by position."""
    drop_reason: NDArray[np.uint8]
    """:class:`DropReason` of each dropped row."""
    ledger_ids: tuple[int, ...]
    """Ledgers that were read. Ledgers completely below the mark-delete position are skipped."""
    entry_count: int
    """Entries read, without bad ones."""
    marker_count: int
    """Markers among the entries read. They are not messages, so they are never delayed."""
    partly_acked_count: int
    """Pending entries of which some messages are acknowledged."""
    bad_entries: tuple[BadEntry, ...]
    """Entries that were skipped; empty under ErrorPolicy.FAIL."""

    @property
    def delayed_count(self) -> int:
        """Delayed entries among those read."""
        return len(self.indexes) + len(self.dropped)

    @property
    def acked_count(self) -> int:
        """Delayed entries that are acknowledged."""
        return self._dropped_count(DropReason.ACKNOWLEDGED)

    @property
    def aborted_count(self) -> int:
        """Delayed entries of aborted transactions."""
        return self._dropped_count(DropReason.ABORTED)

    @property
    def open_transaction_count(self) -> int:
        """Delayed entries of transactions that neither committed nor aborted."""
        return self._dropped_count(DropReason.OPEN_TRANSACTION)

    def _dropped_count(self, reason: DropReason) -> int:
        return int((self.drop_reason == reason).sum())


def pending_indexes(
    reader: TopicReader,
    topic: TopicName,
    subscription: str,
    *,
    ignore_acks: bool = False,
    on_error: ErrorPolicy = ErrorPolicy.FAIL,
    progress: Progress | None = None,
) -> PendingReport:
    """Return the delayed entries of a topic's ledgers that one subscription has not acknowledged.

    Args:
        reader: reader of the topic's ledgers.
        topic: an existing topic.
        subscription: its plain name; need not exist if acknowledgements are ignored.
        ignore_acks: include every delayed entry, as if nothing was acknowledged yet.
        on_error: SKIP leaves bad entries out and lists them. Without its commit marker, a transaction counts as open.
        progress: called with entries read and entries in all.
    Raises:
        SubscriptionNotFound: the topic has no such subscription.
        MetadataInvalid: metadata of the topic, the cursor or a ledger is damaged.
        EntriesUnreadable: entries are missing or damaged and the policy is to fail.
    Cost: O(bytes read) time, and O(n log n) in markers and delayed entries; memory for one piece of a ledger and the
        delayed entries.
    """
    spans = reader.topic_spans(topic)
    bad: list[BadEntry] = []
    cursor = nothing_acked()
    if not ignore_acks:
        found = reader.cursor(topic, subscription, spans, on_error=on_error)
        cursor = found.state
        bad += found.bad_entries
    spans = [span for span in spans if span.ledger_id >= cursor.mark_delete.ledger_id]
    total, done, read_count, marker_count = sum(span.entry_count for span in spans), 0, 0, 0

    delayed: list[_Delayed] = []
    markers: list[TransactionMarkers] = []
    for piece in reader.scan(spans, on_error=on_error):
        bad += piece.bad_entries
        delayed.append(_delayed(piece.columns))
        markers.append(TransactionMarkers.of(piece.columns))
        marker_count += int(piece.columns.has(EntryFlag.MARKER).sum())
        read_count += int(piece.columns.readable.sum())
        done = min(done + len(piece.columns) + _missing_count(piece), total)
        if progress is not None:
            progress(done, total)
    rows = IndexColumns.concat([part.indexes for part in delayed])
    reason = _drop_reasons(rows.positions, delayed, markers, cursor)
    pending = rows.take(reason == 0)
    partly_acked = PositionBitmap.of(cursor.partial_batch_acks.positions).contains(pending.positions)
    return PendingReport(
        topic=str(topic),
        subscription=subscription,
        mark_delete=cursor.mark_delete,
        indexes=pending,
        dropped=rows.take(reason > 0),
        drop_reason=reason[reason > 0],
        ledger_ids=tuple(span.ledger_id for span in spans),
        entry_count=read_count,
        marker_count=marker_count,
        partly_acked_count=int(partly_acked.sum()),
        bad_entries=tuple(dict.fromkeys(bad)),
    )


def _missing_count(piece: LedgerRead) -> int:
    """Return how many entries of a piece have no row."""
    return sum(bad.entry_count for bad in piece.bad_entries if bad.entry_id is not None) - len(
        list(piece.columns.unreadable())
    )


@dataclass(frozen=True, slots=True)
class _Delayed:
    """Delayed entries of one piece, with their transactions."""

    indexes: IndexColumns
    transactional: BoolArray
    txn_id_most: NDArray[np.uint64]
    txn_id_least: NDArray[np.uint64]


def _delayed(columns: EntryColumns) -> _Delayed:
    rows = np.flatnonzero(columns.has(EntryFlag.DELAYED) & ~columns.has(EntryFlag.MARKER) & columns.readable)
    positions = columns.positions.take(rows)
    deliver_at_ms = np.maximum(columns.deliver_at_ms[rows], 0)
    return _Delayed(
        indexes=IndexColumns(deliver_at_ms, positions.ledger_id, positions.entry_id),
        transactional=columns.has(EntryFlag.TRANSACTION)[rows],
        txn_id_most=columns.txn_id_most[rows],
        txn_id_least=columns.txn_id_least[rows],
    )


def _drop_reasons(
    positions: PositionColumns, delayed: Sequence[_Delayed], markers: Sequence[TransactionMarkers], cursor: CursorState
) -> NDArray[np.uint8]:
    """Return a :class:`DropReason` for each row of all parts, or 0 for a pending row."""
    reason = np.zeros(len(positions), np.uint8)
    if not delayed:
        return reason
    # One question for all parts, since each sorts all markers.
    outcome = TransactionMarkers.concat(markers).outcomes(
        np.concatenate([part.txn_id_most for part in delayed]), np.concatenate([part.txn_id_least for part in delayed])
    )
    transactional = np.concatenate([part.transactional for part in delayed])
    # Later lines win.
    reason[cursor.acknowledges(positions)] = DropReason.ACKNOWLEDGED
    reason[transactional & (outcome == TransactionOutcome.OPEN)] = DropReason.OPEN_TRANSACTION
    reason[transactional & (outcome == TransactionOutcome.ABORTED)] = DropReason.ABORTED
    return reason
