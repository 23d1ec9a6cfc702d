"""Readers of ledgers that are kept are bounded, and one that was dropped is opened again."""

import random

import pytest

from delayed_tracker.storage.bookkeeper.log.ledgers import LogLedgers
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")


async def test_readers_of_log_ledgers_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """However many ledgers are fenced, the readers of the last ones are kept; the others are opened when they are read."""
    monkeypatch.setattr("delayed_tracker.storage.bookkeeper.kept_readers.READERS_MAX", 2)
    async with MemoryBookKeeper(MemoryCluster(), random.Random(1)) as client:
        await client.zookeeper.ensure("/logs")
        ledgers = LogLedgers(client, URL)
        fenced = []
        for _ in range(5):
            writer = await ledgers.create(lambda ledger_id: f"/logs/{ledger_id}")
            await writer.add(b"no items")
            assert await ledgers.fence(writer.ledger_id) == 0
            fenced.append(writer.ledger_id)
            assert len(ledgers._readers) <= 2
        assert [await ledgers.items(ledger_id, 0, 0) for ledger_id in fenced] == [[None]] * 5
        assert len(ledgers._readers) == 2
        await ledgers.delete(fenced[-1], f"/logs/{fenced[-1]}")
        assert len(ledgers._readers) == 1
