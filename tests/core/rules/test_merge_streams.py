"""The streaming merge equals a seal of the union, for feeds of any size, and its memory is bounded."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config

from delayed_tracker.core.rules.merge_streams import Needed, StreamMerge
from delayed_tracker.core.rules.seal import FrozenIndexes, seal
from delayed_tracker.core.rules.segment import SegmentBounds, join_segments
from delayed_tracker.core.rules.segment_cutter import WholeSegments
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap


def merged(sources, live, chunk_sizes, *, step_ms, count_max, rows_min=1):
    """Return all results of a merge that is fed in chunks of these sizes in turn."""
    merge = StreamMerge(live, step_ms=step_ms, count_max=count_max, rows_min=rows_min)
    fed = [0] * len(sources)
    parts = []
    chunk = 0
    while (outcome := merge.advance()) is not None:
        if isinstance(outcome, WholeSegments):
            parts.append(outcome)
            continue
        for source in outcome.sources:
            if fed[source] >= len(sources[source]):
                merge.end(source)
                continue
            size = chunk_sizes[chunk % len(chunk_sizes)]
            chunk += 1
            merge.feed(source, sources[source].take(slice(fed[source], fed[source] + size)))
            fed[source] += size
    return parts


def joined(parts):
    return IndexColumns.concat([part.indexes for part in parts]), SegmentBounds.concat([part.bounds for part in parts])


def sealed_union(sources, live, *, step_ms, count_max):
    """Return the seal of the live rows of all sources; of a position's rows in one source the first counts."""
    rows = [rows.take(bits.contains(rows.positions)) for rows, bits in zip(sources, live, strict=True)]
    rows = [part.take(~part.positions.repeats()) for part in rows]
    together = PositionBitmap()
    for bits in live:
        together.update(bits)
    frozen = FrozenIndexes(0, tuple(rows), together, None, step_ms, count_max, Position(0, 0), Position(9, 9))
    return seal(frozen)


@st.composite
def snapshots(draw):
    """Draw sorted rows of some sources, with repeats, positions in several sources, and the bits that count in each."""
    row = st.tuples(st.integers(0, 40), st.integers(0, 3), st.integers(0, 12))
    sources = [IndexColumns.of(sorted(draw(st.lists(row, max_size=60)))) for _ in range(draw(st.integers(1, 4)))]
    claimed = set()
    live = []
    for rows in sources:
        candidates = sorted(set(rows.positions) - claimed)
        chosen = {position for position in candidates if draw(st.integers(0, 3))}
        claimed |= chosen
        live.append(PositionBitmap.of(PositionColumns.of(sorted(chosen))))
    return sources, live


@given(
    snapshots(),
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
    st.integers(1, 30),
    st.sampled_from([-1, 1, 2, 3, 7]),
    st.sampled_from([1, 4, 9]),
)
def test_equals_the_seal_of_the_union(content, chunk_sizes, step_ms, count_max, rows_min):
    """Rows and bounds equal the seal for feeds of any size, joined or not, and only whole segments are returned."""
    sources, live = content
    parts = merged(sources, live, chunk_sizes, step_ms=step_ms, count_max=count_max, rows_min=rows_min)
    assert all(int(part.bounds.count.sum()) == len(part.indexes) for part in parts)
    indexes, bounds = joined(parts)
    expected = sealed_union(sources, live, step_ms=step_ms, count_max=count_max)
    assert list(indexes) == list(expected.indexes)
    expected_bounds = join_segments(expected.bounds, rows_min=rows_min, count_max=count_max)
    for column in ("count", "min_deliver_at_ms", "max_deliver_at_ms"):
        assert getattr(bounds, column).tolist() == getattr(expected_bounds, column).tolist()


def test_a_source_that_is_not_fed_holds_up_what_may_follow_it():
    """The merge names the source that it needs, each time, and has returned the rows that certainly come before."""
    live = [PositionBitmap.of(PositionColumns.of([(1, entry) for entry in range(4)])) for _ in range(2)]
    live[1] = PositionBitmap.of(PositionColumns.of([(2, 0)]))
    merge = StreamMerge(live, step_ms=1, count_max=-1)
    assert merge.advance() == Needed((0, 1))
    merge.feed(0, IndexColumns.of([(10, 1, 0), (20, 1, 1), (30, 1, 2), (40, 1, 3)]))
    assert merge.advance() == Needed((1,))
    assert merge.advance() == Needed((1,))
    merge.feed(1, IndexColumns.of([(25, 9, 9)]))  # a removed row, and still no earlier row follows
    assert merge.advance() == Needed((1,))
    merge.feed(1, IndexColumns.of([(25, 9, 9), (35, 2, 0)]))
    outcome = merge.advance()
    assert isinstance(outcome, WholeSegments)
    assert outcome.indexes.deliver_at_ms.tolist() == [10, 20, 30]
    assert merge.advance() == Needed((1,))
    merge.end(1)
    outcome = merge.advance()
    assert isinstance(outcome, WholeSegments)
    assert outcome.indexes.deliver_at_ms.tolist() == [35]
    assert merge.advance() == Needed((0,))


def test_many_rows_of_one_deadline_are_cut_by_count_while_they_come():
    """No segment of rows with one deadline waits for the next deadline."""
    count = 50_000
    rows = IndexColumns(np.full(count, 5), np.full(count, 1), np.arange(count))
    live = PositionBitmap.of(rows.positions)
    merge = StreamMerge([live], step_ms=3_600_000, count_max=5_000)
    merge.feed(0, rows.take(slice(0, 12_000)))
    outcome = merge.advance()
    assert isinstance(outcome, WholeSegments)
    assert outcome.bounds.count.tolist() == [5_000, 5_000]


@pytest.mark.parametrize(
    "rows",
    [[(5, 1, 1), (4, 1, 0)], [(5, 2, 0), (5, 1, 1)], [(5, 1, 1), (5, 1, 0)]],
    ids=["deadline", "ledger", "entry"],
)
def test_rows_out_of_order_are_refused(rows):
    """Rows out of order are refused, within one feed and across feeds."""
    live = PositionBitmap.of(PositionColumns.of(sorted(position for _, *position in rows)))
    with pytest.raises(InvalidInput, match="delivery order"):
        StreamMerge([live], step_ms=1, count_max=1).feed(0, IndexColumns.of(rows))
    merge = StreamMerge([live], step_ms=1, count_max=1)
    merge.feed(0, IndexColumns.of(rows[:1]))
    with pytest.raises(InvalidInput, match="delivery order"):
        merge.feed(0, IndexColumns.of(rows[1:]))


def test_a_source_without_the_row_of_a_live_position_is_refused():
    """A missing row of a live position is refused: the merge would lose the position without a message."""
    merge = StreamMerge([PositionBitmap.of(PositionColumns.of([(1, 0), (1, 1)]))], step_ms=1, count_max=1)
    merge.feed(0, IndexColumns.of([(5, 1, 0)]))
    with pytest.raises(InvalidInput, match="1 positions without a row"):
        merge.end(0)


def _peak_bytes(count):
    """Return the peak memory while two sources of this many rows are merged, without their bits."""
    live = [PositionBitmap.of(PositionColumns(np.full(count, ledger), np.arange(count))) for ledger in (1, 2)]
    tracemalloc.start()
    try:
        merge = StreamMerge(live, step_ms=1_000, count_max=1_000)
        fed = [0, 0]
        total = 0
        while (outcome := merge.advance()) is not None:
            if isinstance(outcome, WholeSegments):
                total += len(outcome.indexes)
                continue
            for source in outcome.sources:
                entries = np.arange(fed[source], min(fed[source] + 4_000, count))
                if not len(entries):
                    merge.end(source)
                    continue
                merge.feed(source, IndexColumns(3 * entries, np.full(len(entries), source + 1), entries))
                fed[source] += len(entries)
        assert total == 2 * count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="a million rows in Python's loops take minutes")
def test_memory_does_not_depend_on_the_size_of_the_buckets():
    """A hundred times the rows take the same peak memory."""
    assert _peak_bytes(1_000_000) < 1.2 * _peak_bytes(10_000)
