"""Checks the bounds of what is read from a store of objects; every kind of store has the same."""

from types import ModuleType

import pytest

from delayed_tracker.storage.errors import SnapshotCorrupt, StorageUnavailable
from delayed_tracker.storage.objects import object_store
from delayed_tracker.storage.objects.object_store import Objects
from delayed_tracker.storage.shared.document_store import Stale


async def check_bounds(objects: Objects, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lower the bounds that a module of objects uses, and read below and above each; return the bytes that were read."""

    async def chunks():
        yield b"0123456"

    await objects.put("t/a", chunks())
    await objects.put("t/b", chunks())
    monkeypatch.setattr(module, "SMALL_BYTES_MAX", 6)
    monkeypatch.setattr(module, "RANGE_BYTES_MAX", 6)
    with pytest.raises(SnapshotCorrupt, match=r"t/a is damaged: it has 7 bytes, 6 are the most"):
        await objects.get("t/a")
    with pytest.raises(SnapshotCorrupt, match="7 bytes"):
        await objects.get_range("t/a", 0, 2**62)
    assert await objects.get_range("t/a", 0, 6) == b"012345"
    with pytest.raises(Stale):
        await objects.put_if("t/a", b"new", None)
    monkeypatch.setattr(module, "SMALL_BYTES_MAX", 7)
    found = await objects.get("t/a")
    assert found is not None
    assert found.content == b"0123456"
    assert len(await objects.listing("t/")) == 2
    monkeypatch.setattr(object_store, "LISTED_MAX", 1)
    with pytest.raises(StorageUnavailable, match=r"t/? has more than 1 objects; give each storage a prefix"):
        await objects.listing("t/")
    return 6 + 7
