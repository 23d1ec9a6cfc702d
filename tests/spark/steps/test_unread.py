"""Unreadable entries, for subscriptions with different acknowledgements."""

import pyarrow as pa
import pytest
from pyroaring import BitMap

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.metadata.cursor import CursorState, nothing_acked
from delayed_tracker.spark.steps.unread import RUN_SCHEMA, BadRun, Unread, UnreadEntries, bad_runs

TOPIC, OTHER = "persistent://lab/main/orders", "persistent://lab/main/events"


KINDS = pa.string(), pa.int64(), pa.int64(), pa.int64()


def cursor(mark_delete=BEFORE_ALL, acked=None) -> CursorState:
    nothing = nothing_acked()
    bits = {ledger: BitMap(entries) for ledger, entries in (acked or {}).items()}
    return CursorState(mark_delete, PositionBitmap.from_bitmaps(bits), nothing.partial_batch_acks, {}, {}, None)


def bad(ledger_id, entry_id=None, entry_count=1, topic=TOPIC) -> BadRun:
    return BadRun(topic, ledger_id, entry_id, entry_count)


@pytest.mark.parametrize(
    ("rows", "state", "unread"),
    [
        ([], cursor(), Unread()),
        ([bad(4, 7, 3), bad(4, 2)], cursor(), Unread(4, Position(4, 2))),
        ([bad(5, 1), bad(4, 7)], cursor(), Unread(2, Position(4, 7))),
        ([bad(4, 2, 8)], cursor(Position(4, 5)), Unread(4, Position(4, 6))),
        ([bad(4, 2, 8)], cursor(Position(4, 5), {4: [6, 8]}), Unread(2, Position(4, 7))),
        ([bad(4, 2, 8)], cursor(Position(4, 9)), Unread()),
        ([bad(4, 2), bad(3, 2)], cursor(Position(5, -1)), Unread()),
        ([bad(4, 2)], cursor(acked={4: [2]}), Unread()),
        ([bad(4, 2, topic=OTHER)], cursor(), Unread()),
        ([bad(4, 2, topic=None)], cursor(), Unread(1, Position(4, 2))),
        # Ledger 6 has ten entries; the length of ledger 7 is unknown.
        ([bad(6)], cursor(), Unread(10, Position(6, 0))),
        ([bad(6)], cursor(Position(6, 3)), Unread(6, Position(6, 4))),
        ([bad(6)], cursor(Position(6, 9)), Unread()),
        ([bad(7)], cursor(acked={7: [0, 1]}), Unread(1, Position(7, 2))),
        ([bad(7), bad(7, 3)], cursor(Position(8, -1)), Unread()),
        # It may be any entry that is not acknowledged.
        ([bad(None)], cursor(), Unread(1, Position(0, 0))),
        ([bad(None, topic=None), bad(6, 5)], cursor(Position(4, 2)), Unread(2, Position(4, 3))),
    ],
)
def test_what_is_not_acknowledged_counts_and_bounds(rows, state, unread):
    """Unacknowledged unreadable entries of the topic count once each, and the first of them is the bound."""
    assert UnreadEntries(rows, {6: 10}).of(TOPIC, state) == unread


def test_consecutive_entries_leave_a_task_as_one_run():
    """A damaged ledger of a million entries is a few rows for the driver; other ledgers, topics and gaps part runs."""
    rows = [
        *(bad(4, entry) for entry in (9, 7, 8, 3)),
        bad(4, 10, 5),
        bad(5, 15),
        bad(5, 16, topic=OTHER),
        bad(5, 17, topic=None),
        bad(5, 18, topic=None),
        bad(6),
        bad(None, entry_count=3, topic=None),
    ]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), KINDS, strict=True)],
        names=RUN_SCHEMA.fieldNames(),
    )
    runs = [BadRun(**row) for found in bad_runs([batch, batch.slice(0, 0)]) for row in found.to_pylist()]
    key = str
    assert sorted(runs, key=key) == sorted(
        [bad(4, 3), bad(4, 7, 8), bad(5, 15), bad(5, 16, topic=OTHER), bad(5, 17, 2, topic=None), *rows[-2:]], key=key
    )
