"""Requests and bytes of what a tracker does, as the guide to object stores states them."""

from dataclasses import replace

import pytest

from delayed_tracker.storage.objects.cloud import CloudStorage
from delayed_tracker.storage.objects.obstore_objects import ObstoreObjects
from delayed_tracker.storage.testing.contract_tools import create, entry_of
from tests.snapshot_storage.shared.clouds.conftest import Cloud

SEGMENTS = [bytes(100_000) for _ in range(10)]


class Counted:
    """A storage, and what it has asked of its store since the last look."""

    def __init__(self, objects: ObstoreObjects) -> None:
        self.storage = CloudStorage(objects)
        self._bytes = (0, 0)

    async def requests(self) -> dict[str, int]:
        """Requests since the last look, with those that a commit has left to a task of its own."""
        await self.storage._catalogue.finish()
        counts = self.storage.request_counts
        self._bytes = (counts.bytes_sent, counts.bytes_received)
        requests = dict(counts.requests)
        counts.requests.clear()
        return requests

    def bytes_since(self) -> tuple[int, int]:
        """Bytes sent and received since ``requests`` was asked."""
        counts = self.storage.request_counts
        return counts.bytes_sent - self._bytes[0], counts.bytes_received - self._bytes[1]


async def started(cloud: Cloud, place: str) -> Counted:
    counted = Counted(cloud.objects(place))
    await counted.storage.start()
    await counted.requests()
    return counted


async def sealed(counted: Counted) -> int:
    """Store a bucket and enter it in the catalogue, as a seal does."""
    bucket_id = await create(counted.storage, SEGMENTS)
    await counted.storage.replace("topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=1)
    return bucket_id


@pytest.mark.parametrize("scheme", ["s3", "gcs"])
async def test_requests_and_bytes_of_each_step(scheme: str, place: str, request: pytest.FixtureRequest):
    """Start, seal, load, merge and recovery ask as often as the guide says, and send little beyond the snapshots."""
    cloud: Cloud = request.getfixturevalue(scheme)
    counted = Counted(cloud.objects(place))
    storage = counted.storage
    await storage.start()
    assert await counted.requests() == {"write": 5, "read": 2, "delete": 1}

    await storage.replace("topic", "cursor", remove=[], add=[], epoch=1)
    assert await counted.requests() == {"read": 3, "write": 1, "list": 1}
    first = await sealed(counted)
    sent, received = counted.bytes_since()
    assert 1_000_000 < sent < 1_000_000 + 1_000
    assert received == 0
    assert await counted.requests() == {"put": 1, "write": 1}

    assert len(await storage.get_bucket_snapshot_segments(first, 1, 4)) == 4
    _, received = counted.bytes_since()
    assert 400_000 < received < 400_000 + 200
    assert await counted.requests() == {"get": 2}
    await storage.get_bucket_snapshot_segments(first, 5, 10)
    assert counted.bytes_since() == (0, 600_000)
    assert await counted.requests() == {"get": 1}

    sources = [first, await sealed(counted), await sealed(counted)]
    await counted.requests()
    for bucket_id in sources:
        await storage.get_bucket_snapshot_segments(bucket_id, 1, 10)
    merged = await create(storage, SEGMENTS)
    await storage.replace("topic", "cursor", remove=sources, add=[entry_of(merged)], epoch=1)
    for bucket_id in sources:
        await storage.delete_bucket_snapshot(bucket_id)
    assert await counted.requests() == {"get": 1 + 2 + 2, "put": 1, "write": 1, "delete": 3}
    await storage.close()

    other = await started(cloud, place)
    await other.storage.list("topic", "cursor")
    state = await other.storage.replace("topic", "cursor", remove=[], add=[], epoch=2)
    assert state is not None
    assert state.epoch == 2
    listed = await other.storage.list_bucket_snapshots("topic", "cursor")
    assert [stored.bucket_id for stored in listed] == [entry.bucket_id for entry in state.entries] == [merged]
    sent, received = other.bytes_since()
    assert max(sent, received) < 1_000
    # The claim of an epoch lists the blobs of older ones, to delete them.
    assert await other.requests() == {"read": 1, "write": 1, "list": 2}
    await other.storage.close()


async def test_large_values_are_one_more_object(s3: Cloud, place: str):
    """A summary from 512 bytes on is written with those of the same commit, and read by a recovery."""
    counted = await started(s3, place)
    large = replace(entry_of(1), summary=bytes(20_000))
    await counted.storage.replace("topic", "cursor", remove=[], add=[large], epoch=1)
    assert await counted.requests() == {"read": 3, "put": 1, "write": 1, "list": 1}
    await counted.storage.list("topic", "cursor")
    assert await counted.requests() == {"read": 1, "get": 1}
    state = await counted.storage.replace("topic", "cursor", remove=[], add=[], epoch=2)
    assert state is not None
    assert [entry.summary for entry in state.entries] == [large.summary]
    assert await counted.requests() == {"write": 1, "list": 1}
    await counted.storage.close()
