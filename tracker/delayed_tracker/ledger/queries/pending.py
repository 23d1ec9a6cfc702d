"""What one subscription still has to get later: delayed entries that it has not acknowledged.

Due ones are included: when something is due is not for the ledgers to say. Entries of a transaction that was aborted or
is still open are left out; markers are no messages and do not count at all. A batch that is acknowledged in part is pending as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag
from delayed_tracker.ledger.errors import BadEntry, ErrorPolicy
from delayed_tracker.ledger.metadata.cursor import CursorState, nothing_acked
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.topic.topic_reader import TopicReader
from delayed_tracker.ledger.topic.transactions import TransactionMarkers, TransactionOutcome
from delayed_tracker.ledger.topic_name import TopicName


class DropReason(IntEnum):
    """Why a delayed entry is not pending; the first that applies."""

    ABORTED = 1
    OPEN_TRANSACTION = 2
    ACKNOWLEDGED = 3


@dataclass(frozen=True, slots=True)
class PendingReport:
    """The delayed, unacknowledged entries of one subscription, and what was left out.

    ``delayed_count`` is ``len(indexes) + len(dropped)``.
    """

    topic: str
    subscription: str
    mark_delete: Position
    """(-1, -1) when nothing is acknowledged, or acknowledgements were to be ignored."""
    indexes: IndexColumns
    """Pending, ascending by position. Negative deadlines, which count as due, are 0 here."""
    dropped: IndexColumns
    """Delayed but not pending, ascending by position."""
    drop_reason: NDArray[np.uint8]
    """:class:`DropReason` of each dropped row."""
    ledger_ids: tuple[int, ...]
    """Ledgers that were read. Those wholly below the mark-delete position were not."""
    entry_count: int
    """Entries read; bad ones are not among them."""
    marker_count: int
    """Markers among them: no messages, so never delayed."""
    partly_acked_count: int
    """Pending entries of which some messages are acknowledged."""
    bad_entries: tuple[BadEntry, ...]
    """What was passed over; empty under ErrorPolicy.FAIL."""

    @property
    def delayed_count(self) -> int:
        """Delayed entries among those read."""
        return len(self.indexes) + len(self.dropped)

    @property
    def acked_count(self) -> int:
        """Delayed, but acknowledged."""
        return self._dropped_count(DropReason.ACKNOWLEDGED)

    @property
    def aborted_count(self) -> int:
        """Delayed, but of an aborted transaction."""
        return self._dropped_count(DropReason.ABORTED)

    @property
    def open_transaction_count(self) -> int:
        """Delayed, but of a transaction that neither committed nor aborted."""
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
    """Derive from a topic's ledgers what one subscription is still to get.

    Args:
        reader: of the topic's ledgers.
        topic: an existing topic.
        subscription: its plain name; need not exist when acknowledgements are ignored.
        ignore_acks: take every delayed entry, as if nothing was acknowledged yet.
        on_error: SKIP leaves bad entries out and lists them. A lost commit marker leaves its transaction open.
        progress: called with entries read and entries in all.
    Raises:
        SubscriptionNotFound: the topic has no such subscription.
        MetadataInvalid: metadata of the topic, the cursor or a ledger is damaged.
        EntriesUnreadable: entries are missing or damaged and the policy says to fail.
    Cost: O(bytes read) time; memory for one ledger and the delayed entries.
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
    for ledger in reader.read(spans, on_error=on_error):
        bad += ledger.bad_entries
        delayed.append(_delayed(ledger.columns))
        markers.append(TransactionMarkers.of(ledger.columns))
        marker_count += int(ledger.columns.has(EntryFlag.MARKER).sum())
        read_count += int(ledger.columns.readable.sum())
        done += ledger.span.entry_count
        if progress is not None:
            progress(done, total)
    reason = np.concatenate([np.empty(0, np.uint8), *_drop_reasons(delayed, markers, cursor)])
    rows = IndexColumns.concat([part.indexes for part in delayed])
    pending = rows.take(reason == 0)
    partly_acked = PositionBitmap.of(cursor.batch_holes.positions).contains(pending.positions)
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


@dataclass(frozen=True, slots=True)
class _Delayed:
    """The delayed entries of one ledger, and what decides about them."""

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
    delayed: Sequence[_Delayed], markers: Sequence[TransactionMarkers], cursor: CursorState
) -> Iterator[NDArray[np.uint8]]:
    """For each part, a :class:`DropReason` per row, or 0 for what is pending."""
    if not delayed:
        return
    ends = TransactionMarkers.concat(markers)
    for part in delayed:
        outcome = ends.outcomes(part.txn_id_most, part.txn_id_least)
        reason = np.zeros(len(part.indexes), np.uint8)
        # Later lines win.
        reason[cursor.acknowledges(part.indexes.positions)] = DropReason.ACKNOWLEDGED
        reason[part.transactional & (outcome == TransactionOutcome.OPEN)] = DropReason.OPEN_TRANSACTION
        reason[part.transactional & (outcome == TransactionOutcome.ABORTED)] = DropReason.ABORTED
        yield reason
