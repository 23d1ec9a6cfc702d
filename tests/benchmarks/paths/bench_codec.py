"""Cost of sealing off the caller's path, and of reading back: sort, cut, bitmaps, encoding; decoding. In both codecs."""

from collections.abc import Iterator

import numpy as np

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effects import StoreSnapshot
from delayed_tracker.core.rules.seal import FrozenIndexes
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.storage.sealing import PreparedSnapshot, prepare
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from tests.benchmarks.inputs.shapes import HOUR_MS, NOW, WEEK_MS, Shape, batches, offered
from tests.benchmarks.measure import Run
from tests.benchmarks.rows import Row, Unit, per_index

ABOUT = (
    "One bucket, as a worker thread seals and encodes it, with its summary for the catalogue; then all its segments, decoded "
    "in one pass, and its metadata. Of decoding Pulsar's codec, over two thirds are the kernel; joining the segments and "
    "finding their ends takes 2 ns an index where they are 27 each. Reading entries without a branch for each octet gained "
    "nothing; unsigned indexes took a third off the kernel. The columnar codec joins small segments up to 96 rows. Over 30 "
    "days, 50,000 indexes are about 7,400 segments of 6 to 7 at default settings; Pulsar's metadata have a bitmap for each."
)
_MONTH = "30 days"


def rows(run: Run) -> Iterator[Row]:
    """Measure sealing and encoding, then decoding, then sizes, for each shape in each codec."""
    inputs = _inputs(run.scale.bucket)
    for codec in SnapshotCodec:
        for name, shape, indexes in inputs:
            yield _seal(run, codec, indexes, shape, name)
    for codec in SnapshotCodec:
        for name, shape, indexes in inputs:
            yield _decode(run, codec, indexes, shape, name)
    for codec in SnapshotCodec:
        for name, shape, indexes in inputs:
            yield _decode_metadata(run, codec, indexes, shape, name)
    for codec in SnapshotCodec:
        for name, shape, indexes in inputs:
            yield _size(codec, indexes, shape, name)


def _inputs(count: int) -> list[tuple[str, Shape | None, IndexColumns]]:
    """Return the shapes and 30 days, each with the end of its name in the report."""
    month = offered(Shape.WEEK, count, per_ledger=count)
    first_ms = NOW.wall_ms + HOUR_MS
    stretched = first_ms + (month.deliver_at_ms - first_ms) * (30 * 24 * HOUR_MS) // WEEK_MS
    sparse = IndexColumns(stretched, month.ledger_id, month.entry_id)
    return [*(("", shape, offered(shape, count, per_ledger=count)) for shape in Shape), (f", {_MONTH}", None, sparse)]


def frozen_bucket(indexes: IndexColumns) -> FrozenIndexes:
    """Return the content that the core hands over for sealing after these were added in batches."""
    core = TrackerCore(TrackerLimits(min_index_count_per_bucket=2 * len(indexes)))
    for part in batches(indexes):
        core.add(part, NOW)
    core.seal_mutable_bucket(NOW)
    (effect,) = [effect for effect in core.take_effects() if isinstance(effect, StoreSnapshot)]
    return effect.frozen


def same_rows(left: IndexColumns, right: IndexColumns) -> bool:
    """Return True if two sets of columns are equal, row by row."""
    return (
        np.array_equal(left.deliver_at_ms, right.deliver_at_ms)
        and np.array_equal(left.ledger_id, right.ledger_id)
        and np.array_equal(left.entry_id, right.entry_id)
    )


def _in_order(indexes: IndexColumns) -> IndexColumns:
    return indexes.take(np.lexsort((indexes.entry_id, indexes.ledger_id, indexes.deliver_at_ms)))


def _prepared(codec: SnapshotCodec, indexes: IndexColumns) -> PreparedSnapshot:
    (made,) = prepare(frozen_bucket(indexes), codec, None)
    return made


def _seal(run: Run, codec: SnapshotCodec, indexes: IndexColumns, shape: Shape | None, name: str) -> Row:
    model = _in_order(indexes)
    made: list[PreparedSnapshot] = []

    def frozen() -> FrozenIndexes:
        made.clear()
        return frozen_bucket(indexes)

    def verify(_: FrozenIndexes) -> bool:
        encoded = made[0].encoded
        counts = decode_metadata(encoded.metadata).bounds.count
        return same_rows(decode_segments(encoded.segments), model) and int(counts.sum()) == len(indexes)

    what = f"seal and encode a bucket, {codec.value}{name}"
    readings = run.measure(
        f"{what}, {shape}", prepare=frozen, run=lambda given: made.extend(prepare(given, codec, None)), verify=verify
    )
    return per_index("seal" if shape else "seal month", what, readings, len(indexes), shape)


def _decode(run: Run, codec: SnapshotCodec, indexes: IndexColumns, shape: Shape | None, name: str) -> Row:
    prepared = _prepared(codec, indexes)
    segments = prepared.encoded.segments
    decoded: list[IndexColumns] = []
    what = f"decode {len(segments):,} segments, {codec.value}{name}"
    readings = run.measure(
        f"{what}, {shape}",
        prepare=decoded.clear,
        run=lambda _: decoded.append(decode_segments(segments)),
        verify=lambda _: same_rows(decoded[0], prepared.sealed.indexes),
    )
    return per_index("decode" if shape else "decode month", what, readings, len(indexes), shape)


def _decode_metadata(run: Run, codec: SnapshotCodec, indexes: IndexColumns, shape: Shape | None, name: str) -> Row:
    prepared = _prepared(codec, indexes)
    decoded: list[SnapshotMetadata] = []

    def verify(_: None) -> bool:
        positions = decoded[0].positions()
        return len(positions) == len(indexes) and bool(positions.contains(indexes.positions).all())

    what = f"decode the metadata, {codec.value}{name}"
    readings = run.measure(
        f"{what}, {shape}",
        prepare=decoded.clear,
        run=lambda _: decoded.append(decode_metadata(prepared.encoded.metadata)),
        verify=verify,
    )
    return per_index("decode metadata", what, readings, len(indexes), shape)


def _size(codec: SnapshotCodec, indexes: IndexColumns, shape: Shape | None, name: str) -> Row:
    prepared = _prepared(codec, indexes)
    size = (prepared.encoded.length + len(prepared.summary)) / len(indexes)
    what = f"snapshot and summary, {codec.value}{name}"
    return Row("snapshot size", what, Unit.BYTES_PER_INDEX, (size,), len(indexes), shape)
