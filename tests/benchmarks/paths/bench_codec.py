"""Cost of sealing off the caller's path, and of reading back: sort, cut, bitmaps, encoding; decoding."""

from collections.abc import Iterator

import numpy as np

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effects import StoreSnapshot
from delayed_tracker.core.rules.seal import FrozenIndexes, SealedIndexes, seal
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.codec.pulsar import encode_snapshot
from tests.benchmarks.inputs.shapes import NOW, Shape, batches, offered
from tests.benchmarks.measure import Run
from tests.benchmarks.rows import Row, per_index

ABOUT = (
    "One bucket, as a worker thread seals and encodes it; then all its segments, decoded in one pass. Of decoding, over "
    "two thirds are the kernel; joining the segments and finding their ends takes 2 ns an index where they are 27 each. "
    "Reading entries without a branch for each octet gained nothing; unsigned indexes took a third off the kernel."
)


def rows(run: Run) -> Iterator[Row]:
    """Measure sealing and encoding, then decoding, for each shape."""
    for shape in Shape:
        yield _seal(run, shape)
    for shape in Shape:
        yield _decode(run, shape)


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


def _seal(run: Run, shape: Shape) -> Row:
    count = run.scale.bucket
    indexes = offered(shape, count, per_ledger=count)
    model = indexes.take(np.lexsort((indexes.entry_id, indexes.ledger_id, indexes.deliver_at_ms)))
    made = []

    def prepare() -> FrozenIndexes:
        made.clear()
        return frozen_bucket(indexes)

    def verify(_: FrozenIndexes) -> bool:
        encoded = made[0]
        counts = decode_metadata(encoded.metadata).bounds.count
        return same_rows(decode_segments(encoded.segments), model) and int(counts.sum()) == count

    readings = run.measure(
        f"seal and encode, {shape.value}",
        prepare=prepare,
        run=lambda frozen: made.append(encode_snapshot(seal(frozen))),
        verify=verify,
    )
    return per_index("seal", "seal and encode a bucket", readings, count, shape)


def _decode(run: Run, shape: Shape) -> Row:
    count = run.scale.bucket
    sealed: SealedIndexes = seal(frozen_bucket(offered(shape, count, per_ledger=count)))
    segments = encode_snapshot(sealed).segments
    decoded: list[IndexColumns] = []
    readings = run.measure(
        f"decode, {shape.value}",
        prepare=decoded.clear,
        run=lambda _: decoded.append(decode_segments(segments)),
        verify=lambda _: same_rows(decoded[0], sealed.indexes),
    )
    return per_index("decode", f"decode {len(segments):,} segments", readings, count, shape)
