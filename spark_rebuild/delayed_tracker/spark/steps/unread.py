"""Entries that could not be read, for each subscription: those that it has not acknowledged."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap
from pyspark.sql.types import LongType, StringType, StructField, StructType

from delayed_tracker.core.values.columns import ENTRY_ID_MAX, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.metadata.cursor import CursorState
from delayed_tracker.spark import schema
from delayed_tracker.spark.steps.arrow_columns import numbers

RUN_SCHEMA: Final = StructType(
    [
        StructField(schema.TOPIC, StringType()),
        StructField(schema.LEDGER_ID, LongType()),
        StructField(schema.ENTRY_ID, LongType()),
        StructField(schema.ENTRY_COUNT, LongType(), nullable=False),
    ]
)
"""A run of consecutive bad entries; null as in the schema of entries."""


class BadRun(NamedTuple):
    """Consecutive entries that could not be read."""

    topic: str | None
    ledger_id: int | None
    entry_id: int | None
    """The first; None for a whole ledger."""
    entry_count: int


def bad_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the bad entries of a task as runs, a step of Spark: one row for a ledger of which nothing can be read.

    Input: the columns of :data:`RUN_SCHEMA`, with a row for each bad entry, in any order. Output: :data:`RUN_SCHEMA`.
    """
    for batch in batches:
        whole = batch.column(schema.ENTRY_ID).is_null()
        yield batch.filter(whole)
        single = batch.filter(pc.invert(whole)).sort_by(
            [(name, "ascending") for name in (schema.TOPIC, schema.LEDGER_ID, schema.ENTRY_ID)]
        )
        if not single.num_rows:
            continue
        topic = pc.fill_null(single.column(schema.TOPIC), "")
        ledger, first, count = (numbers(single, name) for name in RUN_SCHEMA.fieldNames()[1:])
        begins = np.ones(len(first), np.bool_)
        begins[1:] = (np.diff(ledger) != 0) | (first[1:] != first[:-1] + count[:-1])
        begins[1:] |= pc.not_equal(topic[1:], topic[:-1]).to_numpy(zero_copy_only=False)
        runs = single.filter(pa.array(begins))
        counts = pa.array(np.add.reduceat(count, np.flatnonzero(begins)))
        yield pa.RecordBatch.from_arrays([*runs.columns[:3], counts], names=RUN_SCHEMA.fieldNames())


@dataclass(frozen=True, slots=True)
class Unread:
    """Entries that one subscription may lack."""

    count: int = 0
    """Number of entries; a lower bound if the length of a ledger is unknown."""
    first: Position | None = None
    """The dispatcher must offer again from this position or an earlier one; None if nothing is lacking."""


class UnreadEntries:
    """All entries that a job could not read.

    Args:
        bad: entries that could not be read. A run without a topic may belong to any topic; a run without a ledger may
            be at any position.
        entry_counts: number of entries by ledger; that of other ledgers is unknown.
    """

    def __init__(self, bad: Iterable[BadRun], entry_counts: Mapping[int, int]) -> None:
        self._entries: dict[str | None, dict[int, BitMap]] = {}
        self._anywhere: dict[str | None, int] = {}
        self._endless: set[int] = set()
        for row in bad:
            if row.ledger_id is None:
                self._anywhere[row.topic] = self._anywhere.get(row.topic, 0) + row.entry_count
                continue
            entries = self._entries.setdefault(row.topic, {}).setdefault(row.ledger_id, BitMap())
            if row.entry_id is not None:
                entries.add_range(row.entry_id, row.entry_id + row.entry_count)
                continue
            known = entry_counts.get(row.ledger_id)
            if known is None:
                self._endless.add(row.ledger_id)
            entries.add_range(0, ENTRY_ID_MAX + 1 if known is None else known)

    def of(self, topic: str, cursor: CursorState) -> Unread:
        """Return the entries that a subscription of a topic may lack."""
        count = 0
        firsts: list[Position] = []
        for name in (topic, None):
            if name in self._anywhere:
                count += self._anywhere[name]
                firsts.append(_behind(cursor.mark_delete))
            for ledger_id, entries in self._entries.get(name, {}).items():
                left = _unacknowledged(ledger_id, entries, cursor)
                if left:
                    count += 1 if ledger_id in self._endless else len(left)
                    firsts.append(Position(ledger_id, left.min()))
        return Unread(count, min(firsts, default=None))

    def positions(self, topic: str) -> PositionBitmap:
        """Return all such positions in ledgers of a topic, acknowledged or not."""
        of_topic, of_any = self._entries.get(topic, {}), self._entries.get(None, {})
        return PositionBitmap.from_bitmaps(
            {
                ledger: of_topic.get(ledger, BitMap()) | of_any.get(ledger, BitMap())
                for ledger in of_topic.keys() | of_any
            }
        )


def _unacknowledged(ledger_id: int, entries: BitMap, cursor: CursorState) -> BitMap:
    acknowledged = cursor.acked.bitmap_of(ledger_id)
    left = entries.copy() if acknowledged is None else entries - acknowledged
    if ledger_id < cursor.mark_delete.ledger_id:
        left.clear()
    elif ledger_id == cursor.mark_delete.ledger_id:
        left.remove_range(0, cursor.mark_delete.entry_id + 1)
    return left


def _behind(position: Position) -> Position:
    """Return the next position, as far as it is known without the ledger."""
    return Position(max(position.ledger_id, 0), position.entry_id + 1)
