"""Tests of the known bookies, as a real ZooKeeper lists them: the choice among them, and where each listens."""

import asyncio
import random
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from delayed_tracker.bookkeeper.errors import BookieUnavailable, ClientClosed, NotEnoughBookies
from delayed_tracker.bookkeeper.metadata.errors import ZooKeeperUnavailable
from delayed_tracker.bookkeeper.metadata.zookeeper import ZooKeeperClient
from delayed_tracker.bookkeeper.placement.bookies import Bookies
from delayed_tracker.bookkeeper.placement.connections import BookieConnections
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.stats import OTHERS, OUTCOMES_MAX, BookieCounters
from delayed_tracker.bookkeeper.wire.batch_reads import BatchReadRequest
from delayed_tracker.bookkeeper.wire.connection import Endpoint
from delayed_tracker.pulsar.v1.bookie_service_info_pb2 import BookieServiceInfo
from tests.bookkeeper.servers.cluster import Cluster, ZooKeeperServer
from tests.bookkeeper.servers.proxy import running_proxy
from tests.bookkeeper.wire.scripted_bookie import add_of, bookie_of, echo

pytestmark = pytest.mark.slow
NAMES = ("a:1", "b:1", "c:1", "d:1")


@pytest.fixture
async def other(zookeeper: ZooKeeperServer) -> AsyncIterator[ZooKeeperClient]:
    """Return another client, which registers bookies."""
    async with ZooKeeperClient(zookeeper.address) as connected:
        yield connected


@pytest.fixture
def root(zookeeper: ZooKeeperServer) -> str:
    made = f"/{uuid4()}"
    zookeeper.make_tree(made, bookies=NAMES)
    return made


def service_info(host: str, port: int, protocol: str = "bookie-rpc") -> bytes:
    http = BookieServiceInfo.Endpoint(id="httpserver", host="elsewhere", port=8000, protocol="http")
    bookie = BookieServiceInfo.Endpoint(id="bookie", host=host, port=port, protocol=protocol)
    return BookieServiceInfo(endpoints=[http, bookie]).SerializeToString()


async def until_listed(bookies: Bookies, client: ZooKeeperClient, *names: str) -> None:
    """Ask until the watch has said that the list changed, which comes from a thread."""
    async with asyncio.timeout(10):
        while await bookies.writable() != set(names):
            await client.sync("/")


async def test_writable_bookies_are_chosen_at_random(other, root):
    """Every bookie has its turn, none is chosen twice or is among those that the ensemble has."""
    bookies = Bookies(other, root, ClientSettings(), chance=random.Random(7))
    chosen = [await bookies.choose(2, exclude=["b:1"]) for _ in range(50)]
    assert {name for pair in chosen for name in pair} == {"a:1", "c:1", "d:1"}
    assert all(first != second for first, second in chosen)
    assert await bookies.choose(0) == []
    assert sorted(await bookies.choose(4)) == [*NAMES]
    with pytest.raises(NotEnoughBookies, match=r"has 3 of 4 that are needed, besides a:1; start bookies"):
        await bookies.choose(4, exclude=["a:1"])


async def test_bookies_come_and_go(other, root):
    """The list is read again when it changed; read-only bookies take no entries."""
    bookies = Bookies(other, root, ClientSettings())
    assert await bookies.writable() == set(NAMES)
    assert await bookies.read_only() == set()
    await other.delete(f"{root}/available/a:1")
    await other.create(f"{root}/available/readonly/a:1")
    await until_listed(bookies, other, "b:1", "c:1", "d:1")
    assert await bookies.read_only() == {"a:1"}
    await other.create(f"{root}/available/e:1")
    await until_listed(bookies, other, "b:1", "c:1", "d:1", "e:1")


async def test_a_list_is_asked_for_only_after_a_change(zookeeper, root):
    """Choosing costs no request while nothing changed."""
    async with running_proxy(zookeeper.port) as proxy, ZooKeeperClient(proxy.address) as client:
        bookies = Bookies(client, root, ClientSettings())
        await asyncio.gather(*(bookies.choose(2) for _ in range(5)))
        asked = proxy.chunks_sent
        await bookies.choose(2)
        assert proxy.chunks_sent == asked


async def test_a_bookie_that_failed_is_avoided_for_its_time(other, root):
    """It is chosen when there are too few others, and again when its time is over."""
    bookies = Bookies(other, root, ClientSettings(quarantine_ms=60_000))
    bookies.quarantine("a:1")
    assert bookies.quarantined() == {"a:1"}
    assert "a:1" not in {name for _ in range(20) for name in await bookies.choose(3)}
    assert "a:1" in await bookies.choose(4)
    assert "a:1" in await bookies.choose(3, exclude=["b:1"])

    forgiving = Bookies(other, root, ClientSettings(quarantine_ms=0))
    forgiving.quarantine("a:1")
    assert forgiving.quarantined() == set()


async def test_a_bookie_listens_where_its_node_says(other, root):
    """The endpoint of the bookies' protocol counts; an empty node leaves it to the id, and ``address_of`` overrides both."""
    bookies = Bookies(other, root, ClientSettings(), address_of={"b:1": ("forwarded", 9)}.get)
    assert await bookies.endpoint_of("a:1") == Endpoint("a", 1)
    assert await bookies.endpoint_of("b:1") == Endpoint("forwarded", 9)
    assert await bookies.endpoint_of("[::1]:3181") == Endpoint("::1", 3181)
    await other.set(f"{root}/available/a:1", service_info("bookie-0.cluster", 3181))
    assert await bookies.endpoint_of("a:1") == Endpoint("bookie-0.cluster", 3181)
    await other.create(f"{root}/available/readonly/uuid-of-a-bookie", service_info("127.0.0.9", 3182))
    assert await bookies.endpoint_of("uuid-of-a-bookie") == Endpoint("127.0.0.9", 3182)


@pytest.mark.parametrize(
    ("bookie_id", "value", "problem"),
    [
        ("broken:1", b"\xff\xff", "its node in ZooKeeper is damaged"),
        ("broken:1", service_info("host", 3181, "other"), "has no endpoint of protocol bookie-rpc"),
        ("broken:1", service_info("host", 70_000), "its address host:70000 is none; port: 70000"),
        ("nobody", None, "its id is no HOST:PORT"),
        ("nobody:\u0663", None, "its id is no HOST:PORT"),
        ("nobody:99999", None, "its address nobody:99999 is none"),
        ("../../x", None, "this is no id of a bookie"),
        ("..", None, "this is no id of a bookie"),
        ("", None, "this is no id of a bookie"),
        ("a b:1", None, "this is no id of a bookie"),
    ],
)
async def test_a_bookie_without_an_address_is_named(other, root, bookie_id, value, problem):
    """Nodes and ids come from outside; the error has the bookie and what is wrong with it."""
    if value is not None:
        await other.create(f"{root}/available/{bookie_id}", value)
    with pytest.raises(BookieUnavailable, match=f"bookie {bookie_id}: .*{problem}"):
        await Bookies(other, root, ClientSettings()).endpoint_of(bookie_id)


async def test_without_zookeeper_a_bookie_is_where_it_was(zookeeper, other, root):
    """Connections are made again while ZooKeeper is away; bookies that are new are asked at the address of their id."""
    await other.set(f"{root}/available/a:1", service_info("127.0.0.9", 3181))
    async with (
        running_proxy(zookeeper.port) as proxy,
        ZooKeeperClient(proxy.address, timeout_s=60, session_s=20) as client,
    ):
        bookies = Bookies(client, root, ClientSettings(connect_timeout_ms=60_000))
        assert await bookies.endpoint_of("a:1") == Endpoint("127.0.0.9", 3181)
        await bookies.writable()
        bookies._settings = ClientSettings(connect_timeout_ms=200)
        proxy.hold_replies()
        async with asyncio.timeout(30):  # ZooKeeper's own time is not waited for
            assert await bookies.endpoint_of("a:1") == Endpoint("127.0.0.9", 3181)
            assert await bookies.endpoint_of("b:1") == Endpoint("b", 1)
        assert await bookies.writable() == set(NAMES)
        proxy.release()


async def test_a_list_that_cannot_be_read_is_an_error(zookeeper, root):
    """The next call asks again."""
    async with (
        running_proxy(zookeeper.port) as proxy,
        ZooKeeperClient(proxy.address, timeout_s=30, session_s=20) as client,
    ):
        bookies = Bookies(client, root, ClientSettings())
        proxy.hold_replies()
        client._timeout_s = 0.3
        with pytest.raises(ZooKeeperUnavailable):
            await bookies.writable()
        client._timeout_s = 30
        proxy.release()
        await client.until_connected()
        assert await bookies.writable() == set(NAMES)


async def test_a_real_bookie_is_found(cluster: Cluster, other: ZooKeeperClient):
    """The node of a bookie has its address."""
    (bookie,) = cluster.require(1)
    bookies = Bookies(other, "/ledgers", ClientSettings())
    assert bookie.bookie_id in await bookies.writable()
    assert (await other.get(f"/ledgers/available/{bookie.bookie_id}")).value
    assert await bookies.endpoint_of(bookie.bookie_id) == Endpoint("127.0.0.1", bookie.port)


async def test_each_bookie_has_one_connection_and_its_counts():
    """Callers share it; its address is asked for at each attempt, and its requests are counted by outcome."""
    asked = []
    async with bookie_of(echo) as bookie:

        async def endpoint_of(bookie_id: str) -> Endpoint:
            asked.append(bookie_id)
            if len(asked) == 1:
                raise BookieUnavailable(bookie_id, "not registered")
            return Endpoint("127.0.0.1", bookie.port)

        connections = BookieConnections(endpoint_of, ClientSettings(backoff_min_ms=1))
        connection = connections.of("b1")
        assert connections.of("b1") is connection
        with pytest.raises(BookieUnavailable, match="not registered"):
            await connection.call(add_of())
        connection._retry_at = 0.0
        await asyncio.gather(*(connections.of("b1").call(add_of(entry)) for entry in range(3)))
        assert asked == ["b1", "b1"]
        assert bookie.connections == 1

        stats = connections.stats()["b1"]
        adds = stats.operations["ADD_ENTRY"]
        assert adds.outcomes == {"BOOKIE_UNAVAILABLE": 1, "OK": 3}
        assert adds.sent_bytes == 4 * add_of().frame_bytes
        assert sum(adds.latencies) == 3
        assert adds.latency_s > 0
        assert (stats.bookie, stats.connections, stats.requests_in_flight, stats.bytes_in_flight) == ("b1", 2, 0, 0)

        await connections.close()
        with pytest.raises(ClientClosed):
            connections.of("b1")


@pytest.mark.parametrize("are_for_batches", [False, True])
async def test_bookies_with_counts_of_their_own_are_bounded(monkeypatch: pytest.MonkeyPatch, are_for_batches: bool):
    """Those that are gone make room for new ones, whatever they were asked for; further ones are counted together."""
    monkeypatch.setattr("delayed_tracker.bookkeeper.placement.connections.BOOKIES_MAX", 3)
    async with bookie_of(echo) as bookie:

        async def endpoint_of(bookie_id: str) -> Endpoint:
            if bookie_id.startswith("gone"):
                raise BookieUnavailable(bookie_id, "not registered")
            return Endpoint("127.0.0.1", bookie.port)

        connections = BookieConnections(endpoint_of, ClientSettings())
        gone = connections.for_batches if are_for_batches else connections.of
        request = BatchReadRequest(7, 0, 9, 100) if are_for_batches else add_of()
        for number in range(6):
            with pytest.raises(BookieUnavailable, match="not registered"):
                await gone(f"gone{number}").call(request)
        assert connections.stats().keys() == {"gone3", "gone4", "gone5"}
        for number in range(6):
            await connections.of(f"b{number}").call(add_of())
            connections.replaced(f"b{number}")
        stats = connections.stats()
        assert stats.keys() == {"b0", "b1", "b2", OTHERS}
        assert [(each.connections, each.replacements) for each in stats.values()] == [(1, 1), (1, 1), (1, 1), (3, 3)]
        assert stats[OTHERS].operations["ADD_ENTRY"].outcomes == {"OK": 3}
        held = [connections.of("b4").call(add_of(7)), connections.of("b5").call(add_of(8))]
        sending = asyncio.gather(*held)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert connections.stats()[OTHERS].requests_in_flight == 2
        await sending
        await connections.close()


def test_outcomes_that_are_told_apart_are_bounded():
    """A bookie that answers ever new numbers as status does not fill the memory."""
    counters = BookieCounters()
    for status in range(1_000):
        counters.answered("ADD_ENTRY", str(status), 1, 0, 0.001)
        counters.failed("ADD_ENTRY", "BOOKIE_TIMED_OUT", 1)
    outcomes = counters.read("b1", 0, 0).operations["ADD_ENTRY"].outcomes
    assert len(outcomes) == OUTCOMES_MAX + 1
    assert outcomes["BOOKIE_TIMED_OUT"] == 1_000
    assert sum(outcomes.values()) == 2_000
