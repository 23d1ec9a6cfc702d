"""Bytes on disk of an index that waits for weeks, in a SQLite file with its catalogue."""

import numpy as np
import pytest

from delayed_tracker.core.rules.seal import FrozenIndexes
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.storage.sealing import prepare
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.publication import catalogue_entry
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.testing.contract_tools import create

TRACKER = ("persistent://shop/orders/events", "billing")
BUCKET = 50_000
MONTH_MS = 30 * 86_400_000


def sparse_bucket(ledger: int, rng: np.random.Generator) -> FrozenIndexes:
    """Return consecutive entries of one ledger, due within 30 days: six in each step of 300 s."""
    deliver_at_ms = 1_760_000_000_000 + rng.integers(0, MONTH_MS, BUCKET)
    indexes = IndexColumns(deliver_at_ms, np.full(BUCKET, ledger, np.int64), np.arange(BUCKET))
    return FrozenIndexes(
        bucket_number=ledger,
        chunks=(indexes,),
        live=PositionBitmap.of(indexes.positions),
        rescheduled=None,
        step_ms=300_000,
        count_max=5_000,
        first=Position(ledger, 0),
        last=Position(ledger, BUCKET - 1),
    )


async def bytes_on_disk(path, codec: SnapshotCodec, buckets: int) -> int:
    """Return the size of a file with so many buckets and their catalogue."""
    storage, rng = open_storage(f"sqlite:{path}"), np.random.default_rng(3)
    await storage.start()
    for number in range(buckets):
        frozen = sparse_bucket(120_000 + 37 * number, rng)
        (made,) = prepare(frozen, codec, None)
        bucket_id = await create(
            storage, made.encoded.segments, metadata=made.encoded.metadata, topic=TRACKER[0], cursor=TRACKER[1], epoch=1
        )
        entry = catalogue_entry(
            bucket_id, frozen.first, frozen.last, made.summary, seal_number=number + 1, mark_delete=BEFORE_ALL
        )
        await storage.replace(*TRACKER, remove=(), add=[entry], epoch=1)
    await storage.close()
    return sum(part.stat().st_size for part in path.parent.iterdir() if part.name.startswith(path.name))


@pytest.mark.parametrize(
    ("codec", "bytes_min", "bytes_max"), [(SnapshotCodec.COLUMNAR, 4.5, 5.0), (SnapshotCodec.PULSAR, 20, 28)]
)
async def test_bytes_of_an_index_on_disk(tmp_path, codec, bytes_min, bytes_max):
    """A columnar index takes five bytes at most, with its part of pages, bounds and catalogue; Pulsar's take 27."""
    few, many = [await bytes_on_disk(tmp_path / f"{count}.db", codec, count) for count in (2, 14)]
    assert bytes_min < (many - few) / (12 * BUCKET) <= bytes_max
