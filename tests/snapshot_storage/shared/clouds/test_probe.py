"""A store that takes stale puts is refused at the start."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from delayed_tracker.storage.errors import StorageFormatUnsupported
from delayed_tracker.storage.objects.probe import require_conditional_puts
from delayed_tracker.storage.shared.document_store import StoredDocument
from delayed_tracker.storage.testing.memory_objects import MemoryObjects
from tests.snapshot_storage.shared.clouds.conftest import Cloud


@contextmanager
def without(cloud: Cloud, header: str) -> Iterator[None]:
    """Let the server miss a header of requests, as a store does that does not know it."""
    assert cloud.server is not None
    cloud.server.without_headers.add(header)
    try:
        yield
    finally:
        cloud.server.without_headers.clear()


async def test_a_store_that_ignores_conditions_is_refused(s3: Cloud, gcs: Cloud, place: str):
    """Whichever condition a store does not know, it is named, and nothing is left there."""
    faults = [
        (s3, "HTTP_IF_NONE_MATCH", "replaces an object although it was asked to create one"),
        (s3, "HTTP_IF_MATCH", "takes a put that expects an older version"),
        (gcs, "HTTP_X_GOOG_IF_GENERATION_MATCH", "replaces an object although"),
    ]
    for cloud, header, fault in faults:
        with without(cloud, header), pytest.raises(StorageFormatUnsupported, match=fault):
            await cloud.objects(place).start()
        objects = cloud.objects(place)
        await objects.start()
        assert await objects.listing("probe/") == []
        await objects.close()


async def test_a_store_that_shows_older_versions_is_refused():
    """A cache before the store, which answers reads with what it has seen, is found."""

    class Cached(MemoryObjects):
        async def get(self, key: str) -> StoredDocument | None:
            found = await super().get(key)
            return found and StoredDocument(b"first", found.version)

    store = Cached()
    with pytest.raises(StorageFormatUnsupported, match="does not show the last version"):
        await require_conditional_puts(store, "probe/1")
    assert store.content == {}


async def test_a_store_that_refuses_the_right_version_is_refused():
    """A store whose versions change between a write and the next one cannot be written."""

    class Restless(MemoryObjects):
        def _version(self, key: str) -> str | None:
            self._writes += 1
            return str(self._writes) if key in self.content else None

    with pytest.raises(StorageFormatUnsupported, match="refuses a put that expects the present version"):
        await require_conditional_puts(Restless(), "probe/1")


async def test_a_store_that_takes_writes_slowly_is_asked_slowly():
    """If writes of one key need time between them, each waits for it."""
    store, waits = MemoryObjects(), []
    store.min_interval_s = 1.05

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    await require_conditional_puts(store, "probe/1", sleep=sleep)
    assert waits == [1.05] * 3
