"""Publications of a storage over real bookies, and what a broker would find after them."""

from delayed_tracker.cluster.bucket_ledger import read_bucket_ledger
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.publication.bucket_switch import PublicationOptions
from delayed_tracker.cluster.publication.publishing import plan_subscription, publish
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments, encode_snapshot
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.protocol import CatalogueEntry, SnapshotStore
from delayed_tracker.storage.testing.contract_tools import create
from tests.cluster.made_cluster import SUBSCRIPTION, TOPIC, MadeCluster, sealed

TRACKER = (str(TOPIC), SUBSCRIPTION)
LIMITS = TrackerLimits(min_index_count_per_bucket=10, max_step_per_segment_ms=1_000, max_indexes_per_segment=3)
LEDGERS = dict.fromkeys(range(1, 8), 8)


async def store(
    storage: SnapshotStore,
    indexes: IndexColumns,
    seal: int,
    codec: SnapshotCodec = SnapshotCodec.PULSAR,
    topic: str = TRACKER[0],
    **fields,
) -> None:
    bucket = sealed(indexes)
    encoded = encode_snapshot(codec, bucket, PositionBitmap.of(indexes.positions))
    bucket_id = await create(
        storage, encoded.segments, metadata=encoded.metadata, topic=topic, cursor=TRACKER[1], epoch=1
    )
    entry = CatalogueEntry(bucket_id, bucket.first, bucket.last, seal_number=seal, **fields)
    await storage.replace(topic, TRACKER[1], remove=(), add=[entry], epoch=1)


async def published(
    made: MadeCluster,
    storage: SnapshotStore,
    limits: TrackerLimits = LIMITS,
    tracker: tuple[str, str] = TRACKER,
    **options,
):
    plan = await plan_subscription(made.cluster, storage, tracker, limits)
    return await publish(
        made.cluster,
        storage,
        [plan],
        limits,
        options=PublicationOptions(**options),
        progress=lambda _done, _total: None,
    )


async def properties(made: MadeCluster) -> tuple[BucketProperty, ...]:
    return CursorNode.decode((await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)).value).buckets


async def rows(made: MadeCluster, bucket: BucketProperty) -> list[tuple[int, int, int]]:
    """Return the indexes of a published bucket, after comparing its metadata with them."""
    metadata, *segments = [entry async for entry in read_bucket_ledger(made.cluster, bucket.bucket_id)]
    decoded = decode_metadata(metadata)
    for segment, bits in zip(segments, decoded.segment_bits, strict=True):
        assert PositionBitmap.of(decode_segments([segment]).positions) == bits
    found = decode_segments(segments)
    assert found.ascend()
    assert set(found.ledger_id.tolist()) <= set(range(bucket.ledgers[0], bucket.ledgers[1] + 1))
    return list(found)


async def all_rows(made: MadeCluster) -> list[tuple[int, int, int]]:
    return sorted([row for bucket in await properties(made) for row in await rows(made, bucket)])


async def ledger_ids(made: MadeCluster) -> set[int]:
    return {ledger async for ledger in made.cluster.client.ledger_ids()}
