"""Every backend keeps the storage contract."""

from collections.abc import Callable

import pytest

from delayed_tracker.service.clock import SystemClock
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.protocol import SnapshotStore
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from delayed_tracker.storage.testing.contract import (
    CONTRACT_CHECKS,
    Check,
    ContractViolation,
    StorageFactory,
    check_snapshot_storage,
)
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage


def _memory(_directory) -> StorageFactory:
    storages: dict[str, SnapshotStore] = {}
    return lambda name: storages.setdefault(name, MemoryStorage())


def _sqlite(directory) -> StorageFactory:
    return lambda name: open_storage(f"sqlite:{directory / name}")


def _sqlite_in_chunks(directory) -> StorageFactory:
    """Return a factory whose storages commit after every few entries."""
    return lambda name: SqliteStorage(directory / name, chunk_bytes=1_000)


def _faulty_memory(_directory) -> StorageFactory:
    storages: dict[str, SnapshotStore] = {}
    return lambda name: FaultyStorage(storages.setdefault(name, MemoryStorage()), FaultPlan())


def _faulty_sqlite(directory) -> StorageFactory:
    return lambda name: open_storage(f"faulty:seed=1;sqlite:{directory / name}")


def _faulty_file(directory) -> StorageFactory:
    return lambda name: open_storage(f"faulty:seed=1;file://{directory / name}")


def _measured_sqlite(directory) -> StorageFactory:
    return lambda name: MeasuredStorage(open_storage(f"sqlite:{directory / name}"), "sqlite", SystemClock())


FACTORIES = [_memory, _sqlite, _sqlite_in_chunks, _faulty_memory, _faulty_sqlite, _faulty_file, _measured_sqlite]


@pytest.fixture(params=FACTORIES, ids=lambda make: make.__name__.strip("_"))
def factory(request, tmp_path) -> StorageFactory:
    make: Callable[..., StorageFactory] = request.param
    return make(tmp_path)


@pytest.mark.parametrize("check", CONTRACT_CHECKS, ids=lambda check: check.__name__)
async def test_backend_keeps_the_contract(factory: StorageFactory, check: Check):
    """Each check passes on each backend."""
    await check(factory)


async def test_one_call_runs_all_checks(tmp_path):
    """Authors of backends need one call only."""
    await check_snapshot_storage(_memory(tmp_path))


async def test_a_violation_names_its_check():
    """A backend that loses its content at close is detected, and the message names the check."""

    class Forgetful(MemoryStorage):
        async def close(self) -> None:
            await super().close()
            self.__init__()

    storages: dict[str, SnapshotStore] = {}
    with pytest.raises(ContractViolation, match="bucket_ids_are_never_used_again"):
        await check_snapshot_storage(lambda name: storages.setdefault(name, Forgetful()))
