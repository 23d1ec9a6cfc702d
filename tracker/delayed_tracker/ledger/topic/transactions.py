"""Finds the outcome of a topic's transactions from the markers in the topic.

A marker follows the last message of its transaction in the same topic. Each transaction that ended has one marker; an
open transaction has none. Because markers come after the messages, all ledgers up to the end of the topic must be read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag

COMMIT_MARKER: Final = 21
ABORT_MARKER: Final = 22
_ID: Final = np.dtype([("most", np.uint64), ("least", np.uint64)])


class TransactionOutcome(IntEnum):
    """Outcome of a transaction."""

    OPEN = 0
    COMMITTED = 1
    ABORTED = 2


@dataclass(frozen=True, slots=True)
class TransactionMarkers:
    """Ends of transactions, in topic order."""

    txn_id_most: NDArray[np.uint64]
    txn_id_least: NDArray[np.uint64]
    outcome: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.outcome)

    @classmethod
    def of(cls, columns: EntryColumns) -> "TransactionMarkers":
        """Return the markers among some entries."""
        commits = columns.marker_type == COMMIT_MARKER
        ends = columns.has(EntryFlag.MARKER | EntryFlag.TRANSACTION) & columns.readable
        ends &= commits | (columns.marker_type == ABORT_MARKER)
        outcome = np.where(commits[ends], TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED)
        return cls(columns.txn_id_most[ends], columns.txn_id_least[ends], outcome.astype(np.uint8))

    @classmethod
    def concat(cls, parts: Sequence["TransactionMarkers"]) -> "TransactionMarkers":
        """Return all markers of all parts, in that order. At least one part is needed."""
        return cls(
            np.concatenate([part.txn_id_most for part in parts]),
            np.concatenate([part.txn_id_least for part in parts]),
            np.concatenate([part.outcome for part in parts]),
        )

    def by_id(self) -> dict[tuple[int, int], int]:
        """Return the outcome of each transaction by its id; its last marker counts. O(markers)."""
        ids = zip(self.txn_id_most.tolist(), self.txn_id_least.tolist(), strict=True)
        return dict(zip(ids, self.outcome.tolist(), strict=True))

    def outcomes(self, txn_id_most: NDArray[np.uint64], txn_id_least: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Return the outcome (:class:`TransactionOutcome`) of each given transaction; its last marker counts.

        Cost: O(n log n) in markers and transactions together.
        """
        ids = np.empty(len(self) + len(txn_id_most), _ID)
        ids["most"] = np.concatenate([self.txn_id_most, txn_id_most])
        ids["least"] = np.concatenate([self.txn_id_least, txn_id_least])
        distinct, which = np.unique(ids, return_inverse=True)
        outcome = np.full(len(distinct), TransactionOutcome.OPEN, np.uint8)
        outcome[which[: len(self)]] = self.outcome
        return outcome[which[len(self) :]]
