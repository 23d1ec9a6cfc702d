"""First pass over the rows: counts the indexes that each subscription accepts from each ledger, and the other outcomes.

Each task counts its own rows, with one set of positions for each subscription and ledger; these are united afterwards.
The driver receives one row for each subscription and ledger.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.position_bitmap import by_ledger, entry_bitmap
from delayed_tracker.spark import schema
from delayed_tracker.spark.plan.acceptance import Acceptance, IndexOutcome
from delayed_tracker.spark.steps.content_hash import HASH_MASK, content_hash
from delayed_tracker.spark.steps.delayed import Step
from delayed_tracker.spark.steps.subscriber_rows import SubscribersByTopic, offered

BITS: Final = "bits"
FIRST_REMAINING: Final = "first_remaining"
CONTENT: Final = "content"
_OUTCOMES: Final = [outcome.name.lower() for outcome in IndexOutcome]
TALLY_SCHEMA: Final = StructType(
    [
        StructField(schema.SUBSCRIBER, IntegerType(), nullable=False),
        StructField(schema.LEDGER_ID, LongType(), nullable=False),
        *(StructField(name, LongType(), nullable=False) for name in _OUTCOMES),
        StructField(FIRST_REMAINING, LongType(), nullable=True),
        StructField(BITS, BinaryType(), nullable=False),
        StructField(CONTENT, LongType(), nullable=False),
    ]
)
"""One subscription and one ledger: the number of rows of each :class:`IndexOutcome`; the first entry that is neither
acknowledged nor accepted; the accepted entries (RoaringBitmap); the hash of all rows.
"""


@dataclass(slots=True)
class LedgerTally:
    """Counts of one subscription and one ledger."""

    outcomes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(IndexOutcome), np.int64))
    """Rows of each :class:`IndexOutcome`; accepted rows count with repeats."""
    bits: BitMap = field(default_factory=BitMap)
    """Accepted entries."""
    first_remaining: int | None = None
    """First entry that is left to the dispatcher: due, beyond the largest delay, or in an open transaction."""
    content: int = 0
    """Hash of all rows, accepted or not, so that it is the same for all subscriptions of the topic."""

    def add(self, outcome: NDArray[np.uint8], indexes: IndexColumns) -> None:
        """Count rows of this ledger."""
        self.outcomes += np.bincount(outcome, minlength=len(IndexOutcome))
        self.content = (self.content + content_hash(indexes)) & HASH_MASK
        accepted = indexes.entry_id[outcome == IndexOutcome.ACCEPTED]
        if len(accepted):
            self.bits |= entry_bitmap(accepted)
        left = indexes.entry_id[
            (outcome == IndexOutcome.DUE)
            | (outcome == IndexOutcome.BEYOND_MAX_DELAY)
            | (outcome == IndexOutcome.OPEN_TRANSACTION)
        ]
        if len(left):
            self._note_left(int(left.min()))

    def unite(self, other: "LedgerTally") -> None:
        """Add the counts of another task."""
        self.outcomes += other.outcomes
        self.bits |= other.bits
        self.content = (self.content + other.content) & HASH_MASK
        if other.first_remaining is not None:
            self._note_left(other.first_remaining)

    def _note_left(self, entry_id: int) -> None:
        self.first_remaining = entry_id if self.first_remaining is None else min(self.first_remaining, entry_id)


def count_outcomes(subscribers: Broadcast[SubscribersByTopic], acceptance: Acceptance) -> Step:
    """Return the step that counts the outcomes of all rows.

    Input: packed delayed messages, any order.
    Output: :data:`TALLY_SCHEMA`, one row for each subscription and ledger that has rows; no order.
    """

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tallies: dict[tuple[int, int], LedgerTally] = {}
        for subscriber, indexes, transaction in offered(batches, subscribers.value):
            outcome = acceptance.outcomes(indexes, transaction, subscriber.cursor)
            for ledger_id, rows in by_ledger(indexes.ledger_id):
                tally = tallies.setdefault((subscriber.number, ledger_id), LedgerTally())
                tally.add(outcome[rows], indexes.take(rows))
        if tallies:
            yield _batch(tallies)

    def step(rows: DataFrame) -> DataFrame:
        counted = rows.mapInArrow(count, TALLY_SCHEMA)
        return counted.groupBy(schema.SUBSCRIBER, schema.LEDGER_ID).applyInArrow(_united, TALLY_SCHEMA)

    return step


def tallies_of(rows: pa.Table) -> dict[tuple[int, int], LedgerTally]:
    """Return the tallies of :data:`TALLY_SCHEMA` by subscription and ledger; several rows of one are united."""
    tallies: dict[tuple[int, int], LedgerTally] = {}
    for row in rows.to_pylist():
        tally = LedgerTally(
            np.array([row[name] for name in _OUTCOMES], np.int64),
            BitMap.deserialize(row[BITS]),
            row[FIRST_REMAINING],
            row[CONTENT] & HASH_MASK,
        )
        key = row[schema.SUBSCRIBER], row[schema.LEDGER_ID]
        if key in tallies:
            tallies[key].unite(tally)
        else:
            tallies[key] = tally
    return tallies


def _united(rows: pa.Table) -> pa.Table:
    return pa.Table.from_batches([_batch(tallies_of(rows))])


def _batch(tallies: Mapping[tuple[int, int], LedgerTally]) -> pa.RecordBatch:
    columns: list[pa.Array] = [
        pa.array([subscriber for subscriber, _ in tallies], pa.int32()),
        pa.array([ledger_id for _, ledger_id in tallies], pa.int64()),
    ]
    outcomes = np.array([tally.outcomes for tally in tallies.values()], np.int64)
    columns += [pa.array(np.ascontiguousarray(outcomes[:, outcome])) for outcome in IndexOutcome]
    columns.append(pa.array([tally.first_remaining for tally in tallies.values()], pa.int64()))
    columns.append(pa.array([_serialized(tally.bits) for tally in tallies.values()], pa.binary()))
    # Spark has no unsigned numbers.
    columns.append(pa.array(np.array([tally.content for tally in tallies.values()], np.uint64).view(np.int64)))
    return pa.RecordBatch.from_arrays(columns, names=TALLY_SCHEMA.fieldNames())


def _serialized(bits: BitMap) -> bytes:
    bits.run_optimize()
    serialized: bytes = bits.serialize()
    return serialized
