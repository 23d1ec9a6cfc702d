"""Selects the entries of a topic that its consumers receive: no markers, and committed transactions only.

A transaction's marker is behind its messages. At a message of an unknown transaction, the entries behind it are
therefore read until its marker is found, altogether at most once over the rest of the topic. If they have none, but some
of them cannot be read, one of those may be the marker: they are bad entries, although nobody has reached them yet.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag, scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.topic.entry_location import unreadable_at
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


def bad_entries_of(
    piece: LedgerEntries,
    columns: EntryColumns,
    visible: VisibleEntries,
    transactions: "TransactionView | None",
    name_bad: Callable[[Position, str], BadEntry],
) -> list[BadEntry]:
    """List the entries of a piece that its consumers miss.

    Behind the first message that must wait for an open transaction, these are all entries of the topic that may have the
    transaction's marker and cannot be read. So a reader that stops there knows whether the transaction is open for sure.

    Args:
        piece: entries of the topic, as read.
        columns: of ``piece``.
        visible: of ``columns``.
        transactions: that ``visible`` was selected with.
        name_bad: returns the BadEntry for a position and a reason.
    """
    bad = [*piece.bad_entries]
    bad += (name_bad(position_of(columns, row), why) for row, why in columns.unreadable() if row < visible.end)
    if transactions is None or visible.end == len(columns):
        return bad
    stop = position_of(columns, visible.end)
    return [one for one in bad if not _is_behind(one, stop)] + transactions.unreadable_behind(stop)


def position_of(columns: EntryColumns, row: int) -> Position:
    """Return the position of one entry."""
    return Position(int(columns.stored.ledger_id[row]), int(columns.stored.entry_id[row]))


def _is_behind(bad: BadEntry, position: Position) -> bool:
    # A ledger without entries, of which nobody knows how many it has, counts from its beginning.
    return bad.ledger_id is not None and (bad.ledger_id, bad.entry_id or 0) > position


class TransactionView:
    """Outcomes of a topic's transactions, searched for when they are needed."""

    def __init__(self, log: TopicLog) -> None:
        self._log = log
        self._known: dict[tuple[int, int], int] = {}
        self._ahead: Iterator[LedgerEntries] | None = None
        self._missing: list[BadEntry] = []
        self._damaged: list[tuple[Position, str]] = []

    def outcomes(self, columns: EntryColumns) -> NDArray[np.uint8]:
        """Return each entry's transaction outcome (:class:`TransactionOutcome`); committed for entries without one.

        Args:
            columns: entries of the topic, behind those of earlier calls.
        Cost: reads until the markers of all transactions among the entries are found, or to the topic's end. A marker
            is put into a table once, and each entry looks there.
        """
        outcome = np.full(len(columns), TransactionOutcome.COMMITTED, np.uint8)
        rows = np.flatnonzero(columns.has(EntryFlag.TRANSACTION) & ~columns.has(EntryFlag.MARKER) & columns.readable)
        if not len(rows):
            return outcome
        ids = list(zip(columns.txn_id_most[rows].tolist(), columns.txn_id_least[rows].tolist(), strict=True))
        if self._ahead is None:
            self._ahead = self._log.scan(position_of(columns, int(rows[0])))
        waiting = set(ids).difference(self._known)
        while waiting:
            piece = next(self._ahead, None)
            if piece is None:
                break
            ahead = scan_entries(piece.entries)
            self._missing += piece.bad_entries
            self._damaged += ((position_of(ahead, row), reason) for row, reason in ahead.unreadable())
            ended = TransactionMarkers.of(ahead).by_id()
            self._known |= ended
            waiting.difference_update(ended)
        outcome[rows] = [self._known.get(one, TransactionOutcome.OPEN) for one in ids]
        return outcome

    def unreadable_behind(self, position: Position) -> list[BadEntry]:
        """Return the entries behind a message that cannot be read, as far as markers were searched for.

        If the message's transaction is open, this was to the topic's end, and one of them may be the transaction's marker.

        Cost: as reading the damaged entries, to find their places.
        """
        missing = [bad for bad in self._missing if _is_behind(bad, position)]
        damaged = [(at, reason) for at, reason in self._damaged if at > position]
        return missing + [unreadable_at(self._log, at, why) for at, why in damaged]
