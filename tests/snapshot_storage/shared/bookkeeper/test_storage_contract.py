"""The storage over BookKeeper keeps both contracts, over a cluster in memory and over real servers."""

import random
from collections import defaultdict

import pytest

from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.capabilities import entry_bytes_max
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.testing.contract import CONTRACT_CHECKS
from delayed_tracker.storage.testing.contract_shared import SHARED_CHECKS
from delayed_tracker.storage.testing.faulty import FaultPlan
from delayed_tracker.storage.testing.faulty import FaultyStorage as Faulty
from delayed_tracker.storage.testing.shared_faults import SharedFaults
from tests.snapshot_storage.shared.bookkeeper.faulty_storage import FaultyStorage
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import (
    PAYLOAD_BYTES_MAX,
    MemoryBookKeeper,
    MemoryCluster,
)

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
LARGE_FROM_BYTES = 300
"""With this bound most documents of the checks keep their rows in a ledger."""


def in_memory(document_bytes_max):
    """Return a factory of storages over clusters in memory."""
    clusters = defaultdict(MemoryCluster)
    chance = random.Random(1)
    return lambda name, faults: FaultyStorage(
        URL,
        faults,
        document_bytes_max=document_bytes_max,
        chance=chance,
        connect=lambda _url: MemoryBookKeeper(clusters[name], random.Random(2)),
    )


@pytest.fixture(params=[256 * 1024, LARGE_FROM_BYTES], ids=["documents in nodes", "documents in ledgers"])
def factory(request):
    """Return a factory of storages."""
    return in_memory(request.param)


@pytest.mark.parametrize("check", CONTRACT_CHECKS, ids=lambda check: check.__name__)
async def test_backend_keeps_the_contract(factory, check):
    """Each check of every storage passes."""
    await check(lambda name: factory(name, SharedFaults()))


@pytest.mark.parametrize("check", SHARED_CHECKS, ids=lambda check: check.__name__)
async def test_backend_keeps_the_shared_contract(factory, check):
    """Each check of shared storages passes."""
    await check(factory)


async def test_the_largest_entry_is_said_through_wrappers(factory):
    """Wrappers that measure, or plan faults, pass on the maximum of the bookies, and none if there is none."""
    inner = factory("limits", SharedFaults())
    wrapped = MeasuredStorage(Faulty(inner, FaultPlan()), "bookkeeper", ManualClock())
    assert entry_bytes_max(wrapped) is None
    await wrapped.start()
    assert entry_bytes_max(wrapped) == PAYLOAD_BYTES_MAX
    await wrapped.close()
    assert entry_bytes_max(wrapped) is None
    assert entry_bytes_max(MeasuredStorage(MemoryStorage(), "memory", ManualClock())) is None
