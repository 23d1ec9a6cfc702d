"""Buckets stored as a service stores them, with any content and any seal number."""

from collections.abc import Mapping, Sequence

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.storage.codec.codec import encode_snapshot
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.protocol import CatalogueEntry, SnapshotStore
from delayed_tracker.storage.summary import encode_summary
from delayed_tracker.storage.testing.contract_tools import create
from tests.spark.commit.test_staged_part import sealed_of

Place = tuple[int, int]


async def store_bucket(
    storage: SnapshotStore,
    key: TrackerKey,
    deadlines: Mapping[Place, int],
    *,
    seal_number: int | None,
    consumed: Sequence[Place] = (),
    with_summary: bool = True,
    codec: SnapshotCodec = SnapshotCodec.PULSAR,
) -> CatalogueEntry:
    """Store the snapshot of a bucket with these deadlines by position; return its catalogue entry."""
    sealed = sealed_of([(deadline, *place) for place, deadline in deadlines.items()])
    bits = PositionBitmap.of(sealed.indexes.positions)
    encoded = encode_snapshot(codec, sealed, bits)
    bucket_id = await create(
        storage, encoded.segments, metadata=encoded.metadata, topic=key.topic, cursor=key.subscription
    )
    return CatalogueEntry(
        bucket_id,
        sealed.first,
        sealed.last,
        encode_summary(sealed.bounds, bits, encoded.length) if with_summary else b"",
        consumed=PositionBitmap.of(PositionColumns.of(consumed)).serialize(),
        seal_number=seal_number,
    )
