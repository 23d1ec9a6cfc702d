"""The session with ZooKeeper expires although the process lives: its log stays its own, or it begins another one."""

import asyncio
import uuid

import pytest

from delayed_tracker.bookkeeper.metadata.zookeeper import ZooKeeperClient
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.bookkeeper.connecting import client_of
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.log.owners import Owners
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from tests.bookkeeper.servers.proxy import running_proxy

pytestmark = pytest.mark.slow


class Process:
    """An add log whose way to ZooKeeper can be closed."""

    def __init__(self, cluster, address, root):
        self._zookeeper = cluster.zookeeper
        self._clients = []
        url = BookKeeperUrl.parse(f"zk://{address}/ledgers?root={root}&ensemble=1&writeQuorum=1&ackQuorum=1")
        self.log = BookKeeperAddLog(url, connect=self._connect)
        self.epoch = 1

    def _connect(self, url):
        self._clients.append(client_of(url))
        return self._clients[-1]

    @property
    def zookeeper(self) -> ZooKeeperClient:
        return self._clients[-1].zookeeper

    @property
    def instance(self):
        return self.log._opened.owners.instance

    async def expire(self):
        """End the session while the process is away."""
        await asyncio.to_thread(self._zookeeper.expire, self.zookeeper._session)

    async def append(self, name, number, *, epoch=1):
        return await self.log.append([LogAppend("topic", name, epoch, number, [b"%d" % number])], writer="one")


async def read(log, name):
    page = await log.read("topic", name, after=0, bytes_max=1 << 20)
    return [logged.record for logged in page.records]


@pytest.fixture
async def world(cluster):
    """Return a process behind a proxy, one with its own way to ZooKeeper, and the proxy."""
    cluster.require(1)
    root = f"/{uuid.uuid4().hex}"
    async with running_proxy(cluster.zookeeper.port) as proxy:
        away, other = Process(cluster, proxy.address, root), Process(cluster, cluster.zookeeper.address, root)
        await other.log.start()
        await other.zookeeper.ensure(root)
        await away.log.start()
        yield away, other, proxy
        await away.log.close()
        await other.log.close()


async def come_back(process, proxy):
    """Let a process reach ZooKeeper again, and wait until it has said that it lives."""
    sessions = process.zookeeper.session_count
    proxy.serve_again()
    async with asyncio.timeout(30):
        assert await process.zookeeper.until_session(sessions) == sessions + 1
        owners = Owners(process.zookeeper, process.log._url.root, "")
        while not await owners.is_alive(process.instance):  # noqa: ASYNC110  # ZooKeeper has no news of that
            await asyncio.sleep(0.01)


async def test_a_log_outlives_its_session(world):
    """An instance that has trackers goes on in the ledger that it had, and counts as alive again."""
    away, other, proxy = world
    await away.append("a", 1)
    ledgers, instance = await other.log._opened.owners.ledgers(away.instance), away.instance
    proxy.turn_away()
    await away.append("a", 2)  # bookies need no ZooKeeper
    await away.expire()
    assert not await other.log._opened.owners.is_alive(instance)
    await other.log._opened.sources.sweep(instance)
    await come_back(away, proxy)
    await away.append("a", 3)
    assert away.instance == instance
    assert await other.log._opened.owners.ledgers(instance) == ledgers
    await other.log.take_over("topic", "a", epoch=2, writer="two")
    assert await read(other.log, "a") == [b"1", b"2", b"3"]


async def test_a_buried_instance_begins_another_one(world):
    """The ledgers of an expired instance go with the last of its trackers; it goes on under another name."""
    away, other, proxy = world
    await away.append("a", 1)
    instance = away.instance
    proxy.turn_away()
    await away.expire()
    await other.log.take_over("topic", "a", epoch=2, writer="two")
    assert await other.log._opened.owners.ledgers(instance) == []
    await come_back(away, proxy)
    assert away.instance != instance
    assert await away.append("a", 2) == [("topic", "a")]
    assert await away.append("b", 1) == []
    assert await read(away.log, "b") == [b"1"]
    assert await read(other.log, "a") == [b"1"]
    assert instance not in await other.log._opened.owners.instances()


async def test_an_instance_that_is_alive_is_not_buried(world):
    """Not even one without trackers; and one that has ended is, with its nodes."""
    away, other, _ = world
    instance = away.instance
    await other.log._opened.sources.sweep(instance)
    assert await away.append("a", 1) == []
    await other.log.take_over("topic", "a", epoch=2, writer="two")
    await away.log.close()
    await other.log._opened.sources.sweep(instance)
    assert instance not in await other.log._opened.owners.instances()
