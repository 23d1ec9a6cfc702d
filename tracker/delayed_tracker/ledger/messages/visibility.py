"""Selects the entries of a topic that its consumers receive: no markers, and committed transactions only.

A transaction's marker is behind its messages. At a message of an unknown transaction, the entries behind it are
therefore read until its marker is found, altogether at most once over the rest of the topic.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag, scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.topic.topic_log import TopicLog
from delayed_tracker.ledger.topic.transactions import TransactionMarkers, TransactionOutcome


class OpenTransactions(Enum):
    """Choices for the first message of a transaction that neither committed nor aborted."""

    STOP = "stop"
    """Stop there, as a broker does: its consumers wait for the transaction's end."""
    SKIP = "skip"
    """Leave out the messages of open transactions and continue: for topics whose broker is gone."""


class VisibleEntries(NamedTuple):
    """Rows of some entries that consumers receive."""

    rows: NDArray[np.intp]
    """Row numbers, ascending: readable entries, no markers, without a transaction or with a committed one."""
    end: int
    """First row that must wait for an open transaction; the number of rows if there is none."""


def visible_entries(
    columns: EntryColumns, transactions: "TransactionView | None", open_transactions: OpenTransactions
) -> VisibleEntries:
    """Select the entries that consumers receive.

    Args:
        columns: entries of a topic.
        transactions: the outcomes of the topic's transactions; None if all transactions of the entries were committed.
        open_transactions: what to do at the first message of an open transaction.
    """
    visible = columns.readable & ~columns.has(EntryFlag.MARKER)
    end = len(columns)
    if transactions is not None:
        outcome = transactions.outcomes(columns)
        open_rows = np.flatnonzero(outcome == TransactionOutcome.OPEN)
        if len(open_rows) and open_transactions is OpenTransactions.STOP:
            end = int(open_rows[0])
        visible &= outcome == TransactionOutcome.COMMITTED
    return VisibleEntries(np.flatnonzero(visible[:end]), end)


class TransactionView:
    """Outcomes of a topic's transactions, searched for when they are needed."""

    def __init__(self, log: TopicLog) -> None:
        self._log = log
        self._known: TransactionMarkers | None = None
        self._ahead: Iterator[LedgerEntries] | None = None

    def outcomes(self, columns: EntryColumns) -> NDArray[np.uint8]:
        """Return each entry's transaction outcome (:class:`TransactionOutcome`); committed for entries without one.

        Args:
            columns: entries of the topic, behind those of earlier calls.
        Cost: reads until the markers of all transactions among the entries are found, or to the topic's end.
        """
        outcome = np.full(len(columns), TransactionOutcome.COMMITTED, np.uint8)
        rows = np.flatnonzero(columns.has(EntryFlag.TRANSACTION) & ~columns.has(EntryFlag.MARKER) & columns.readable)
        if not len(rows):
            return outcome
        most, least = columns.txn_id_most[rows], columns.txn_id_least[rows]
        if self._ahead is None:
            first = Position(int(columns.stored.ledger_id[rows[0]]), int(columns.stored.entry_id[rows[0]]))
            self._ahead = self._log.scan(first)
        found = self._known.outcomes(most, least) if self._known is not None else np.zeros(len(rows), np.uint8)
        while (found == TransactionOutcome.OPEN).any():
            piece = next(self._ahead, None)
            if piece is None:
                break
            markers = TransactionMarkers.of(scan_entries(piece.entries))
            self._known = markers if self._known is None else TransactionMarkers.concat([self._known, markers])
            still_open = found == TransactionOutcome.OPEN
            found[still_open] = markers.outcomes(most[still_open], least[still_open])
        outcome[rows] = found
        return outcome
