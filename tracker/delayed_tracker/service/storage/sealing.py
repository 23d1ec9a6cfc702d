"""Content of the snapshots that a frozen bucket becomes: mostly one, several if the storage limits its entries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from delayed_tracker.core.engine.effect_results import PiecesStored, SnapshotStored, StoredPiece
from delayed_tracker.core.rules.seal import FrozenIndexes, SealedIndexes, in_halves, seal
from delayed_tracker.core.rules.segment import join_segments
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.codec.codec import encode_snapshot
from delayed_tracker.storage.codec.snapshot import EncodedSnapshot
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.summary import encode_summary


@dataclass(frozen=True, slots=True)
class PreparedSnapshot:
    """Content of one snapshot, and its summary for the catalogue."""

    sealed: SealedIndexes
    encoded: EncodedSnapshot
    summary: bytes


def prepare(frozen: FrozenIndexes, codec: SnapshotCodec, entry_bytes_max: int | None) -> list[PreparedSnapshot]:
    """Return the content of the snapshots of a bucket, in the order of their positions.

    Content with an entry above the maximum is halved by positions, and each half again, down to one position, which the
    storage may refuse. O(n log n) for each time that n rows are halved; run it in a worker thread.

    Args:
        frozen: the bucket.
        codec: of the snapshots.
        entry_bytes_max: bytes of the largest entry that the storage takes; None if it does not say.
    """
    prepared = []
    waiting = [seal(frozen)]
    while waiting:
        sealed = waiting.pop()
        bounds = join_segments(sealed.bounds, rows_min=codec.segment_rows_min, count_max=frozen.count_max)
        sealed = replace(sealed, bounds=bounds)
        # Sealing keeps exactly the live positions, each once.
        is_whole = len(sealed.indexes) == len(frozen.live)
        stored = frozen.live if is_whole else PositionBitmap.of(sealed.indexes.positions)
        encoded = encode_snapshot(codec, sealed, stored)
        if entry_bytes_max is not None and encoded.largest_entry > entry_bytes_max and len(sealed.indexes) > 1:
            lower, upper = in_halves(sealed, step_ms=frozen.step_ms, count_max=frozen.count_max)
            waiting += (upper, lower)
            continue
        prepared.append(PreparedSnapshot(sealed, encoded, encode_summary(sealed.bounds, stored, encoded.length)))
    return prepared


def stored_result(
    effect_id: int, bucket_ids: Sequence[int], prepared: Sequence[PreparedSnapshot]
) -> SnapshotStored | PiecesStored:
    """Return the result of an effect whose snapshots were stored under these ids."""
    pieces = tuple(
        StoredPiece(bucket_id, each.sealed, each.encoded.length)
        for bucket_id, each in zip(bucket_ids, prepared, strict=True)
    )
    if len(pieces) > 1:
        return PiecesStored(effect_id, pieces)
    return SnapshotStored(effect_id, pieces[0].bucket_id, pieces[0].sealed, pieces[0].snapshot_bytes)
