"""Storage and add log of one URL share a client, which the last of them closes."""

import asyncio
import uuid

import pytest

from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.bookkeeper import connecting
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.registry import open_storage
from tests.bookkeeper.servers.proxy import running_proxy

pytestmark = pytest.mark.slow


async def _segments():
    yield b"segment"


async def _use(storage, log):
    await storage.create_bucket_snapshot(b"metadata", _segments(), bucket_key="key", topic="t", cursor="c", epoch=1)
    await log.append([LogAppend("t", "c", 1, 1, [b"record"])], writer="writer")


async def test_one_session_and_one_connection_a_bookie(cluster):
    """A storage and its add log make one connection to ZooKeeper and one to a bookie, whichever is closed first."""
    [bookie] = cluster.require(1)
    async with running_proxy(cluster.zookeeper.port) as proxy:
        for closes_log_first in (True, False):
            place = f"ledgers?root=/{uuid.uuid4().hex}&ensemble=1&writeQuorum=1&ackQuorum=1"
            url = f"bookkeeper:zk://{proxy.address}/{place}"
            storage, log = open_storage(url), open_add_log(url)
            connections = proxy.connection_count
            await storage.start()
            await log.start()
            await _use(storage, log)
            [shared] = connecting._SHARED.values()
            stats = shared.client.stats()[bookie.bookie_id]
            assert proxy.connection_count == connections + 1
            assert stats.connections == 1
            assert stats.operations["ADD_ENTRY"].outcomes["OK"] == 3
            first, last = (log, storage) if closes_log_first else (storage, log)
            await first.close()
            assert shared.client.zookeeper.connected
            await last.close()
            assert connecting._SHARED == {}


async def test_urls_that_connect_alike_share_and_others_do_not(zookeeper):
    """Root, quorums and digest say nothing of the connection."""
    url = BookKeeperUrl.parse(f"zk://{zookeeper.address}/ledgers")
    alike = BookKeeperUrl.parse(f"zk://{zookeeper.address}/ledgers?root=/other&ensemble=3&digest=crc32")
    assert url.cluster == alike.cluster
    others = ["zk://other:1/ledgers", f"zk://{zookeeper.address}/others", f"{url.text[11:]}?tls=all&tlsCa=/ca"]
    assert url.cluster not in [BookKeeperUrl.parse(other).cluster for other in others]
    async with connecting.shared_client_of(url) as one, connecting.shared_client_of(alike) as two:
        assert one is two


async def test_a_client_that_cannot_be_started_is_made_anew(zookeeper):
    """A failed start leaves nothing behind, also where storage and log are started together."""
    url = f"bookkeeper:zk://{zookeeper.address}/nothing"
    storage, log = open_storage(url), open_add_log(url)
    for _ in range(2):
        failures = await asyncio.gather(storage.start(), log.start(), return_exceptions=True)
        assert [type(failure) for failure in failures] == [SnapshotCorrupt, SnapshotCorrupt]
        assert connecting._SHARED == {}
