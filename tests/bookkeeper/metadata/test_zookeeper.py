"""Tests of asking a real ZooKeeper from asyncio: answers, refusals, outages, lost replies."""

import asyncio
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from kazoo.security import make_digest_acl

from delayed_tracker.bookkeeper.metadata.errors import (
    AccessDenied,
    NodeChanged,
    NodeExists,
    NodeMissing,
    NodeNotEmpty,
    RequestTooLarge,
    ZooKeeperUnavailable,
)
from delayed_tracker.bookkeeper.metadata.zookeeper import (
    REQUEST_BYTES_MAX,
    Check,
    Create,
    Delete,
    Node,
    SetValue,
    ZooKeeperClient,
)
from delayed_tracker.core.values.errors import InvalidInput
from tests.bookkeeper.servers.cluster import ZooKeeperServer
from tests.bookkeeper.servers.proxy import running_proxy
from tests.bookkeeper.servers.server_process import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
async def client(zookeeper: ZooKeeperServer) -> AsyncIterator[ZooKeeperClient]:
    async with ZooKeeperClient(zookeeper.address) as connected:
        yield connected


@pytest.fixture
async def root(client: ZooKeeperClient) -> str:
    """Return a node of the test's own."""
    return await client.create(f"/{uuid4()}")


async def test_nodes_are_created_changed_and_deleted(client: ZooKeeperClient, root: str):
    """A node has a value and a version, which conditional writes name."""
    path = f"{root}/node"
    assert await client.get(path) is None
    assert await client.create(path, b"one") == path
    assert await client.get(path) == Node(b"one", 0)
    assert await client.set(path, b"two", 0) == 1
    assert await client.exists(path)
    assert await client.children(root) == ["node"]
    await client.sync(path)
    await client.delete(path, 1)
    assert not await client.exists(path)


async def test_refusals_have_their_own_errors(client: ZooKeeperClient, root: str):
    """A refusal names the node, and is no outage."""
    await client.create(f"{root}/a")
    refused = [
        (NodeExists, client.create(f"{root}/a")),
        (NodeMissing, client.create(f"{root}/b/c")),
        (NodeMissing, client.set(f"{root}/b", b"")),
        (NodeMissing, client.children(f"{root}/b")),
        (NodeChanged, client.set(f"{root}/a", b"", 1)),
        (NodeChanged, client.delete(f"{root}/a", 1)),
        (NodeNotEmpty, client.delete(root)),
    ]
    for kind, call in refused:
        with pytest.raises(kind, match=root) as raised:
            await call
        assert raised.value.path.startswith(root)


async def test_a_refused_multi_changes_nothing(client: ZooKeeperClient, root: str):
    """All operations of a multi happen, or none; the error is that of the operation that was refused."""
    await client.multi([Create(f"{root}/a", b"1"), Create(f"{root}/b"), Check(root, 0)])
    with pytest.raises(NodeChanged) as raised:
        await client.multi([Delete(f"{root}/b"), SetValue(f"{root}/a", b"2", 7), Create(f"{root}/c")])
    assert raised.value.path == f"{root}/a"
    assert await client.children(root) == ["a", "b"]
    await client.multi([Delete(f"{root}/b", 0), SetValue(f"{root}/a", b"2", 0)])
    assert await client.get(f"{root}/a") == Node(b"2", 1)


async def test_missing_parents_are_created(client: ZooKeeperClient, root: str):
    await client.ensure(f"{root}/a/b/c")
    await client.ensure(f"{root}/a/b/c")
    assert await client.children(f"{root}/a/b") == ["c"]


async def test_sequential_nodes_are_numbered_and_ephemeral_ones_end_with_the_session(
    zookeeper: ZooKeeperServer, client: ZooKeeperClient, root: str
):
    """Numbers are those of the parent; closing a client ends its ephemeral nodes at once."""
    async with ZooKeeperClient(zookeeper.address) as other:
        for number in range(2):
            assert await other.create(f"{root}/ID-", ephemeral=True, sequential=True) == f"{root}/ID-000000000{number}"
    await client.sync(root)
    assert await client.children(root) == []


async def test_a_watch_is_called_once_when_children_come(client: ZooKeeperClient, root: str):
    """The callback runs in the event loop, once for each call of children."""
    changes: asyncio.Queue[asyncio.AbstractEventLoop] = asyncio.Queue()
    assert await client.children(root, lambda: changes.put_nowait(asyncio.get_running_loop())) == []
    await client.create(f"{root}/a")
    assert await changes.get() is asyncio.get_running_loop()
    await client.create(f"{root}/b")
    await client.sync(root)
    assert changes.empty()


async def test_a_watch_is_called_when_the_connection_breaks(zookeeper: ZooKeeperServer):
    """After a broken connection the children have to be read again."""
    changed = asyncio.Event()
    async with running_proxy(zookeeper.port) as proxy, ZooKeeperClient(proxy.address) as client:
        await client.children("/", changed.set)
        proxy.cut()
        await changed.wait()
        await client.until_connected()
        assert "zookeeper" in await client.children("/")


async def test_requests_that_zookeeper_does_not_take_are_not_sent(client: ZooKeeperClient, root: str):
    """A request that would make the server drop the connection is refused, and the largest that is allowed is stored."""
    most = REQUEST_BYTES_MAX - 1_000
    await client.create(f"{root}/a", bytes(most))
    too_much = [
        client.create(f"{root}/b", bytes(REQUEST_BYTES_MAX)),
        client.set(f"{root}/a", bytes(REQUEST_BYTES_MAX)),
        client.multi([SetValue(f"{root}/a", bytes(most)), Create(f"{root}/c", bytes(2_000))]),
    ]
    for call in too_much:
        with pytest.raises(RequestTooLarge, match=r"a request of 92\d,\d\d\d bytes is above 921,600; store less"):
            await call
    assert await client.children(root) == ["a"]


async def test_an_answer_that_does_not_come_fails_in_time(zookeeper: ZooKeeperServer, root: str):
    """A frozen server blocks neither the event loop nor a call for longer than its time-out; the writes come late."""
    async with ZooKeeperClient(zookeeper.address, timeout_s=30, session_s=20) as client:
        zookeeper.process.freeze()
        try:
            patient = asyncio.create_task(client.create(f"{root}/patient"))
            for _ in range(20):
                await asyncio.wait([patient], timeout=0.01)
            # A call that keeps the event loop to itself would be over by now.
            assert not patient.done()
            client._timeout_s = 2
            began = time.monotonic()
            with pytest.raises(ZooKeeperUnavailable, match=r"late: ZooKeeper at .* did not answer within 2 s"):
                await client.create(f"{root}/late")
            assert 1.9 < time.monotonic() - began < 30
        finally:
            zookeeper.process.thaw()
        client._timeout_s = 30
        await patient
        await client.sync(root)
        assert await client.exists(f"{root}/late")


async def test_a_lost_reply_is_no_refusal(zookeeper: ZooKeeperServer, root: str):
    """A connection that breaks before the answer leaves it open whether the write happened; this one did."""
    async with running_proxy(zookeeper.port) as proxy, ZooKeeperClient(proxy.address, session_s=20) as client:
        proxy.lose_next_reply()
        with pytest.raises(ZooKeeperUnavailable, match="ConnectionLoss"):
            await client.create(f"{root}/lost")
        await client.until_connected()
        assert await client.exists(f"{root}/lost")


async def test_calls_fail_at_once_while_the_connection_is_down(zookeeper: ZooKeeperServer):
    """Nothing waits in kazoo's queue, so nothing is performed later without anybody knowing."""
    broken = asyncio.Event()
    async with ZooKeeperClient(zookeeper.address, timeout_s=60) as direct:
        async with running_proxy(zookeeper.port) as proxy:
            client = ZooKeeperClient(proxy.address, timeout_s=60)
            await client.start()
            await client.children("/", broken.set)
        await broken.wait()
        async with asyncio.timeout(10):
            with pytest.raises(ZooKeeperUnavailable, match="is not connected; try again later"):
                await client.create("/unwanted")
        assert not await direct.exists("/unwanted")
        await client.close()


async def test_a_server_that_does_not_exist_is_named():
    """Connecting fails after its time-out with the addresses and a remedy."""
    hosts = f"127.0.0.1:{free_port()}"
    with pytest.raises(ZooKeeperUnavailable, match=f"ZooKeeper at {hosts} does not answer within 0.2 s; start it or"):
        await ZooKeeperClient(hosts, timeout_s=0.2).start()


async def test_a_node_of_others_is_refused(zookeeper: ZooKeeperServer, client: ZooKeeperClient, root: str):
    """An ACL that does not allow this client is no outage."""
    with zookeeper.connected() as other:
        other.create(f"{root}/private", b"", acl=[make_digest_acl("somebody", "secret", all=True)])
    with pytest.raises(
        AccessDenied, match=r"private at ZooKeeper .* is not allowed to this client; correct the node's ACL"
    ):
        await client.get(f"{root}/private")


@pytest.mark.parametrize("hosts", ["", "a:1,,b:2", "a:1/root", " "])
def test_addresses_are_checked(hosts: str):
    with pytest.raises(InvalidInput, match=r"zookeeper: .* give HOST:PORT"):
        ZooKeeperClient(hosts)
