"""Committed content of a storage that no service has open, read and decoded from the first byte to the last."""

from delayed_tracker.client import Position
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.registry import open_storage
from tests.integration.harness.dispatcher import SUBSCRIPTION, TOPIC


async def committed_snapshots(storage_url: str) -> dict[int, set[Position]]:
    """Return the positions of every catalogued snapshot, by bucket id; every entry is verified."""
    store = open_storage(storage_url)
    await store.start()
    try:
        found = {}
        for entry in (await store.list(TOPIC, SUBSCRIPTION)).entries:
            metadata = decode_metadata(await store.get_bucket_snapshot_metadata(entry.bucket_id))
            segments = await store.get_bucket_snapshot_segments(entry.bucket_id, 1, len(metadata.bounds))
            rows = decode_segments(segments)
            assert metadata.bounds.count.tolist() == [len(decode_segments([segment])) for segment in segments]
            found[entry.bucket_id] = {Position(*position) for position in rows.positions}
        return found
    finally:
        await store.close()


async def orphans(storage_url: str) -> set[int]:
    """Return the snapshots that no catalogue names."""
    store = open_storage(storage_url)
    await store.start()
    try:
        named = {entry.bucket_id for entry in (await store.list(TOPIC, SUBSCRIPTION)).entries}
        stored = {snapshot.bucket_id for snapshot in await store.list_bucket_snapshots(TOPIC, SUBSCRIPTION)}
        return stored - named
    finally:
        await store.close()
