"""Parts of snapshots as objects: they are read as they were written, and every damage is detected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.seal import FrozenIndexes, SealedIndexes, seal
from delayed_tracker.core.rules.segment_cutter import SegmentCutter
from delayed_tracker.core.values.columns import IndexColumns, PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.spark.commit.staged_part import PartWriter, StagedPart, open_part
from delayed_tracker.spark.errors import StagedWorkInvalid
from delayed_tracker.storage.codec.pulsar import encode_snapshot

STEP_MS, COUNT_MAX = 100, 4


class Buffer:
    """Sink that collects the written bytes."""

    def __init__(self) -> None:
        self.octets = b""

    def write(self, data: bytes) -> None:
        self.octets += data


def sealed_of(rows: list[tuple[int, int, int]]) -> SealedIndexes:
    indexes = IndexColumns.of(rows)
    live = PositionBitmap.of(indexes.positions)
    first, last = live.first(), live.last()
    assert first is not None
    assert last is not None
    return seal(FrozenIndexes(1, (indexes,), live, None, step_ms=STEP_MS, count_max=COUNT_MAX, first=first, last=last))


def written(indexes: IndexColumns, *, at_once: int) -> bytes:
    buffer = Buffer()
    writer = PartWriter(buffer)
    cutter = SegmentCutter(step_ms=STEP_MS, count_max=COUNT_MAX)
    for start in range(0, len(indexes), at_once):
        cutter.feed([indexes.take(slice(start, start + at_once))])
        whole = cutter.take(at_end=start + at_once >= len(indexes))
        if whole is not None:
            writer.add(whole)
    writer.end()
    return buffer.octets


def opened(octets: bytes) -> StagedPart:
    return open_part("part", len(octets), lambda start, end: octets[start:end])


rows = st.dictionaries(
    st.tuples(st.integers(1, 4), st.integers(0, 200)), st.integers(0, 900), min_size=1, max_size=60
).map(lambda found: [(deadline, *position) for position, deadline in found.items()])


@given(rows, st.integers(1, 20))
def test_a_stream_becomes_what_a_seal_stores(rows, at_once):
    """Metadata, segments and bounds do not depend on how many rows are fed at once."""
    sealed = sealed_of(rows)
    part = opened(written(sealed.indexes, at_once=at_once))
    expected = encode_snapshot(sealed)
    assert (part.metadata, list(part.segments())) == (expected.metadata, list(expected.segments))
    assert (part.index_count, part.snapshot_bytes) == (len(rows), expected.length)
    for column in ("count", "min_deliver_at_ms", "max_deliver_at_ms"):
        assert getattr(part.bounds, column).tolist() == getattr(sealed.bounds, column).tolist()
    assert PositionBitmap.of(PositionColumns.of(row[1:] for row in rows)) == PositionBitmap.of(sealed.indexes.positions)


OCTETS = written(sealed_of([(10 * row, 1, row) for row in range(12)]).indexes, at_once=5)


@pytest.mark.parametrize("at", range(0, len(OCTETS), 3))
def test_a_flipped_byte_is_noticed(at):
    """A flipped bit anywhere in the object is detected when the object is opened or read."""
    changed = bytearray(OCTETS)
    changed[at] ^= 0x40
    with pytest.raises(StagedWorkInvalid, match="run the job again"):
        opened(bytes(changed)).verify()


@pytest.mark.parametrize("size", [0, 10, len(OCTETS) // 2, len(OCTETS) - 1])
def test_an_object_that_is_cut_short_is_noticed(size):
    """A truncated object is detected before any of it is used."""
    with pytest.raises(StagedWorkInvalid):
        opened(OCTETS[:size])
