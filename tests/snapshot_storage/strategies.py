"""Random indexes, sealed buckets and position sets."""

import numpy as np
from hypothesis import strategies as st
from pyroaring import BitMap

from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds, cut_segments
from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX, IndexColumns, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap


def _mostly_small(maximum: int) -> st.SearchStrategy[int]:
    """Return a strategy for small numbers, both sides of each varint width, and the largest."""
    edges = [edge for power in range(7, 64, 7) for edge in (2**power - 1, 2**power) if edge <= maximum]
    return st.integers(0, 300) | st.sampled_from([*edges, maximum]) | st.integers(0, maximum)


deadlines = st.integers(1_700_000_000_000, 1_700_000_900_000) | _mostly_small(INT63_MAX)
ledgers = st.integers(0, 3) | _mostly_small(INT63_MAX)
entries = st.integers(0, 40) | st.integers(65_500, 65_600) | _mostly_small(ENTRY_ID_MAX)
rows = st.lists(st.tuples(deadlines, ledgers, entries), max_size=60)
indexes = rows.map(IndexColumns.of)


def seal_rows(table: list[tuple[int, int, int]], *, step_ms: int, count_max: int) -> SealedIndexes:
    """Return a sealed bucket of these rows; of a repeated position the first row stays."""
    first_of = {row[1:]: row for row in reversed(table)}
    columns = IndexColumns.of(list(first_of.values())).sorted()
    positions = sorted(first_of) or [(0, 0)]
    return SealedIndexes(
        indexes=columns,
        bounds=cut_segments(columns.deliver_at_ms, step_ms=step_ms, count_max=count_max),
        first=Position(*positions[0]),
        last=Position(*positions[-1]),
    )


sealed = st.builds(
    seal_rows, rows, step_ms=st.sampled_from([1, 1_000, 300_000]), count_max=st.sampled_from([1, 3, 10, -1])
)

position_bits = st.dictionaries(ledgers, st.lists(entries, max_size=40), max_size=5).map(
    lambda by_ledger: PositionBitmap.from_bitmaps({ledger: BitMap(found) for ledger, found in by_ledger.items()})
)


@st.composite
def segment_bounds(draw: st.DrawFn) -> SegmentBounds:
    """Draw bounds that foreign snapshots may have: in any order, of any span."""
    size = draw(st.integers(0, 20))
    ends = [sorted(draw(st.tuples(deadlines, deadlines))) for _ in range(size)]
    if draw(st.booleans()):
        ends.sort()
    counts = draw(st.lists(st.integers(0, 70_000), min_size=size, max_size=size))
    return SegmentBounds(
        np.array(counts, np.int64),
        np.array([end[0] for end in ends], np.int64),
        np.array([end[1] for end in ends], np.int64),
    )
