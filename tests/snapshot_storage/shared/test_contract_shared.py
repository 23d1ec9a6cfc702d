"""Every storage that processes share keeps both contracts: that of all storages, and that of shared ones."""

from collections import defaultdict
from collections.abc import Callable

import pytest

from delayed_tracker.storage.objects.file_objects import FileObjects
from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.protocol import SnapshotStore
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.testing.contract import CONTRACT_CHECKS, Check, ContractViolation
from delayed_tracker.storage.testing.contract_shared import (
    SHARED_CHECKS,
    SharedCheck,
    SharedFactory,
    check_shared_storage,
)
from delayed_tracker.storage.testing.memory_objects import MemoryObjects
from delayed_tracker.storage.testing.shared_faults import FaultyObjects, SharedFaults

LARGE_FROM_BYTES = 300
"""With this bound most documents of the checks keep their rows in a blob."""


def _memory(_directory) -> SharedFactory:
    stores: defaultdict[str, MemoryObjects] = defaultdict(MemoryObjects)
    return lambda name, faults: ObjectStorage(FaultyObjects(stores[name], faults))


def _memory_with_large_documents(_directory) -> SharedFactory:
    stores: defaultdict[str, MemoryObjects] = defaultdict(MemoryObjects)
    return lambda name, faults: ObjectStorage(FaultyObjects(stores[name], faults), document_bytes_max=LARGE_FROM_BYTES)


def _file(directory) -> SharedFactory:
    return lambda name, faults: ObjectStorage(FaultyObjects(FileObjects(directory / name), faults))


@pytest.fixture(params=[_memory, _memory_with_large_documents, _file], ids=lambda make: make.__name__.strip("_"))
def factory(request, tmp_path) -> SharedFactory:
    make: Callable[..., SharedFactory] = request.param
    return make(tmp_path)


@pytest.mark.parametrize("check", CONTRACT_CHECKS, ids=lambda check: check.__name__)
async def test_backend_keeps_the_contract(factory: SharedFactory, check: Check):
    """Each check of every storage passes."""
    await check(lambda name: factory(name, SharedFaults()))


@pytest.mark.parametrize("check", SHARED_CHECKS, ids=lambda check: check.__name__)
async def test_backend_keeps_the_shared_contract(factory: SharedFactory, check: SharedCheck):
    """Each check of shared storages passes."""
    await check(factory)


async def test_a_violation_names_its_check():
    """A store that takes stale writes is detected, and the message names the check."""

    class Careless(MemoryObjects):
        async def put_if(self, key: str, content: bytes, expected: str | None) -> str:
            return await super().put_if(key, content, self._version(key))

    stores: defaultdict[str, MemoryObjects] = defaultdict(Careless)
    with pytest.raises(ContractViolation, match="the_last_opener_owns_a_tracker"):
        await check_shared_storage(lambda name, faults: ObjectStorage(FaultyObjects(stores[name], faults)))


async def test_the_url_of_a_directory_opens_it(tmp_path):
    """Two storages of one ``file:`` URL share their content."""

    async def opened() -> SnapshotStore:
        storage = open_storage(f"file://{tmp_path / 'shared'}")
        await storage.start()
        return storage

    first, second = await opened(), await opened()
    await first.replace("topic", "cursor", remove=[], add=[], epoch=3)
    assert (await second.list("topic", "cursor")).epoch == 3
    await first.close()
    await second.close()
