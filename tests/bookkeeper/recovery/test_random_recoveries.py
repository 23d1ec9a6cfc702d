"""Tests of recoveries of ledgers that random writers left, while random bookies fail: no acknowledged entry is lost."""

import random
from dataclasses import dataclass, replace

import pytest

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import LedgerUnreadable, NotEnoughBookies
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore
from delayed_tracker.bookkeeper.placement.quorums import Quorums
from delayed_tracker.bookkeeper.wire.replies import Status
from tests.bookkeeper.model_bookie import ModelBookie, body_of
from tests.bookkeeper.reading.test_entry_reads import metadata_of
from tests.bookkeeper.reading.test_reader import client_of, root, store
from tests.bookkeeper.servers.cluster import ZooKeeperServer

pytestmark = pytest.mark.slow
__all__ = ["root", "store"]
NAMES = "abcdefg"
PAYLOAD = b"payload"


@dataclass(frozen=True)
class Left:
    """A ledger as its writer left it."""

    metadata: LedgerMetadata
    quorums: Quorums
    acknowledged: int
    """The last entry of which the writer told its caller."""


def leave(seed: int, bookies: dict[str, ModelBookie]) -> Left:
    """Let a writer store entries at some of their bookies, and then some of the bookies fail."""
    draw = random.Random(seed)
    ensemble_size = draw.randint(1, 4)
    write = draw.randint(1, ensemble_size)
    quorums = Quorums(ensemble_size, write, draw.randint(1, write))
    for bookie in bookies.values():
        bookie.entries, bookie.is_fenced, bookie.faults = {}, False, []
    metadata = replace(
        metadata_of(quorums.write, quorums.ack),
        ledger_id=seed,
        ensemble_size=ensemble_size,
        segments=((0, tuple(draw.sample(NAMES, ensemble_size))),),
    )
    acknowledged = -1
    for entry_id in range(draw.randint(0, 6)):
        if acknowledged == entry_id - 1 and draw.random() < 0.2:
            metadata = metadata.with_segment(entry_id, draw.sample(NAMES, ensemble_size))
        ensemble = metadata.segments[-1][1]
        holders = draw.sample(quorums.write_set(entry_id), draw.randint(0, write))
        body = body_of(entry_id, PAYLOAD, ledger_id=seed, last_confirmed=draw.randint(-1, acknowledged))
        for index in holders:
            bookies[ensemble[index]].entries[entry_id] = body
        if len(holders) >= quorums.ack and acknowledged == entry_id - 1:
            acknowledged = entry_id
    for name in draw.sample(NAMES, draw.randint(0, 3)):
        bookies[name].fail(draw.choice([Status.IO_ERROR, Status.TOO_MANY_REQUESTS]))
    return Left(metadata, quorums, acknowledged)


async def require_recovered(client: BookKeeper, left: Left, bookies: dict[str, ModelBookie]) -> None:
    """Recover the ledger, and look for each of its entries at the bookies where readers will."""
    reader = await client.recover(left.metadata.ledger_id)
    assert reader.last_confirmed >= left.acknowledged
    assert reader.metadata.payload_bytes == (reader.last_confirmed + 1) * len(PAYLOAD)
    for entry_id in range(reader.last_confirmed + 1):
        ensemble = reader.metadata.bookies_of(entry_id)
        copies = [ensemble[n] for n in left.quorums.write_set(entry_id) if entry_id in bookies[ensemble[n]].entries]
        assert len(copies) >= left.quorums.ack, (entry_id, copies)
    assert reader.metadata.segments[: len(left.metadata.segments) - 1] == left.metadata.segments[:-1]


async def run_seeds(zookeeper: ZooKeeperServer, root: str, store: LedgerStore, seeds: range) -> tuple[int, int]:
    """Return how many recoveries ended at once, and how many had to wait for bookies."""
    counts = [0, 0]
    bookies = {name: ModelBookie(name) for name in NAMES}
    with zookeeper.connected() as kazoo:
        for name in NAMES:
            kazoo.create(f"{root}/available/{name}", b"")
    async with client_of(zookeeper, root, list(bookies.values())) as client:
        for seed in seeds:
            left = leave(seed, bookies)
            await store.create(left.metadata)
            try:
                await require_recovered(client, left, bookies)
                counts[0] += 1
            except (LedgerUnreadable, NotEnoughBookies):
                counts[1] += 1
                for bookie in bookies.values():
                    bookie.faults.clear()
                await require_recovered(client, left, bookies)
    return counts[0], counts[1]


async def test_no_acknowledged_entry_is_lost(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Each entry up to the end has its quorum. A recovery that fails leaves the ledger to the next one."""
    at_once, later = await run_seeds(zookeeper, root, store, range(150))
    assert at_once > 60
    assert later > 20


@pytest.mark.deep
async def test_no_acknowledged_entry_is_lost_in_many_ledgers(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    await run_seeds(zookeeper, root, store, range(1_000, 11_000))
