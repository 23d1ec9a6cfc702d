"""Tests of ledgers' metadata in a real ZooKeeper, with ledgers that BookKeeper's own client made."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest
from kazoo.client import KazooState

from delayed_tracker.bookkeeper.metadata.errors import (
    LedgerExists,
    LedgerMetadataInvalid,
    LedgerNotFound,
    MetadataConflict,
    NodeExists,
    NodeMissing,
)
from delayed_tracker.bookkeeper.metadata.layout import SHORT_IDS_END, Layout
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, serialize
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore
from delayed_tracker.bookkeeper.metadata.zookeeper import Create, Delete, ZooKeeperClient
from delayed_tracker.bookkeeper.wire.digest import DigestType
from tests.bookkeeper.servers.cluster import Cluster, ZooKeeperServer
from tests.bookkeeper.servers.java_ledgers import JavaFailed, JavaLedgers
from tests.bookkeeper.servers.proxy import running_proxy

pytestmark = pytest.mark.slow


def new_ledger(ledger_id: int, bookie: str = "127.0.0.1:1", **others: bytes) -> LedgerMetadata:
    return LedgerMetadata(
        ledger_id=ledger_id,
        format_version=3,
        state=LedgerState.OPEN,
        last_entry_id=-1,
        payload_bytes=0,
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        digest_type=DigestType.CRC32C,
        password=b"",
        segments=((0, (bookie,)),),
        custom=others,
    )


def layout_value(layout: Layout) -> bytes:
    return f"2\norg.apache.bookkeeper.meta.{layout.value}LedgerManagerFactory:1".encode()


@pytest.fixture
async def client(zookeeper: ZooKeeperServer) -> AsyncIterator[ZooKeeperClient]:
    async with ZooKeeperClient(zookeeper.address) as connected:
        yield connected


@pytest.fixture
def root(zookeeper: ZooKeeperServer) -> str:
    """Return the root of an empty cluster of the test's own, without bookies."""
    made = f"/{uuid4()}"
    zookeeper.make_tree(made)
    return made


@pytest.fixture
async def store(client: ZooKeeperClient, root: str) -> LedgerStore:
    return await LedgerStore.open(client, root)


@pytest.mark.parametrize("digest", DigestType)
async def test_a_ledger_of_java_is_read(
    cluster: Cluster, java_ledgers: JavaLedgers, client: ZooKeeperClient, digest: DigestType
):
    """The metadata of an open and of a closed ledger of Java's client are read, and written as Java wrote them."""
    (bookie,) = cluster.require(1)
    store = await LedgerStore.open(client)
    name = "MAC" if digest is DigestType.HMAC else digest.name
    ledger_id = java_ledgers.create(cluster.uri, digest=name, password=b"secret", custom={"key": b"\x00\xff"})
    java_ledgers.add(cluster.uri, ledger_id, [b"one", b"three"])
    opened = await store.read(ledger_id, newest=True)
    java_ledgers.close(cluster.uri, ledger_id)
    closed = await store.read(ledger_id, newest=True)

    assert (opened.metadata.state, opened.version) == (LedgerState.OPEN, 0)
    assert opened.metadata.segments == ((0, (bookie.bookie_id,)),)
    assert (opened.metadata.digest_type, opened.metadata.password) == (digest, b"secret")
    assert opened.metadata.custom == {"key": b"\x00\xff"}
    assert opened.metadata.creation_token is not None
    # Java forgets its own token once the ledger exists.
    forgotten = replace(opened.metadata, creation_token=0)
    assert closed.metadata == forgotten.with_state(LedgerState.CLOSED, last_entry_id=1, payload_bytes=8)
    node = await client.get(store.path_of(ledger_id))
    assert node is not None
    assert node.value == serialize(closed.metadata)

    java_ledgers.delete(cluster.uri, ledger_id)
    with pytest.raises(LedgerNotFound, match=f"ledger {ledger_id} does not exist below /ledgers"):
        await store.read(ledger_id, newest=True)


@pytest.mark.parametrize("layout", Layout)
async def test_ids_of_all_ledgers_are_found(zookeeper: ZooKeeperServer, client: ZooKeeperClient, layout: Layout):
    """In each layout, short and long ones; nodes that are no ledgers, and folders without ledgers, are none."""
    root = f"/{uuid4()}"
    zookeeper.make_tree(root, layout_value(layout))
    store = await LedgerStore.open(client, root)
    assert [ledger_id async for ledger_id in store.ids()] == []
    wanted = {0, 9_999, 10_000, SHORT_IDS_END - 1} | ({SHORT_IDS_END, 2**62} if layout.takes_long_ids else set())
    for ledger_id in wanted:
        await store.create(new_ledger(ledger_id))
    for other in ("12/3456", "12/3456/L78", "000/0000/0000", "underreplication/ledgers/00", "idgen/ID-0000000001"):
        await client.ensure(f"{root}/{other}")
    assert {ledger_id async for ledger_id in store.ids()} == wanted


@pytest.mark.parametrize("layout", Layout)
async def test_java_finds_our_ledgers_in_every_layout(
    cluster: Cluster, java_ledgers: JavaLedgers, client: ZooKeeperClient, layout: Layout
):
    """Java recovers and deletes a ledger that was created here, and its ledgers are found here, in each layout."""
    (bookie,) = cluster.require(1)
    root = f"/{uuid4()}"
    cluster.zookeeper.make_tree(root, layout_value(layout), [bookie.bookie_id])
    # Java takes the layout from its node.
    uri = f"zk+null://{cluster.zookeeper.address}{root}"
    store = await LedgerStore.open(client, root)
    assert store.layout is layout

    drawn = await store.new_id()
    # The bookie has ledgers of other trees, too, with other keys.
    ours = await store.create(new_ledger(2**30 + secrets.randbelow(2**30), bookie.bookie_id))
    assert java_ledgers.open(uri, ours.metadata.ledger_id, recover=True)["closed"]
    read = await store.read(ours.metadata.ledger_id, newest=True)
    assert read.metadata == replace(ours.metadata, creation_token=0).with_state(LedgerState.CLOSED)
    java_ledgers.delete(uri, ours.metadata.ledger_id)
    with pytest.raises(LedgerNotFound):
        await store.read(ours.metadata.ledger_id, newest=True)

    javas = java_ledgers.create(uri)
    # Both clients draw ids from one node; that of the flat layout counts its ledgers, too.
    assert javas == drawn + (2 if layout is Layout.FLAT else 1)
    assert (await store.read(javas, newest=True)).metadata.state is LedgerState.OPEN
    await store.delete(javas)
    with pytest.raises(JavaFailed, match="BKNoSuchLedgerExists"):
        java_ledgers.open(uri, javas)


async def test_long_ids_are_drawn_once_a_cluster_has_them(
    cluster: Cluster, java_ledgers: JavaLedgers, client: ZooKeeperClient
):
    """Both clients draw from the generator with the largest high part, and find each other's ledgers."""
    (bookie,) = cluster.require(1)
    root = f"/{uuid4()}"
    cluster.zookeeper.make_tree(root, bookies=[bookie.bookie_id])
    store = await LedgerStore.open(client, root)
    assert await store.new_id() == 0
    await client.ensure(f"{root}/idgen-long")
    assert await store.new_id() == 1 << 32
    assert await client.children(f"{root}/idgen-long") == ["HOB-0000000001"]
    await client.ensure(f"{root}/idgen-long/HOB-0000000003")
    ours = await store.create(new_ledger(await store.new_id(), bookie.bookie_id))
    assert ours.metadata.ledger_id == 3 << 32
    uri = f"zk+hierarchical://{cluster.zookeeper.address}{root}"
    assert java_ledgers.open(uri, 3 << 32, recover=True)["closed"]
    assert java_ledgers.create(uri) == 3 << 32 | 1


async def test_ids_differ_among_concurrent_clients(zookeeper: ZooKeeperServer, root: str):
    """Two clients that draw at once get different ids, and leave no nodes."""
    async with ZooKeeperClient(zookeeper.address) as one, ZooKeeperClient(zookeeper.address) as two:
        stores = [await LedgerStore.open(client, root) for client in (one, two)]
        drawn = await asyncio.gather(*[store.new_id() for store in stores * 20])
        assert sorted(drawn) == list(range(40))
        await one.sync(root)
        assert await one.children(f"{root}/idgen") == []


async def test_a_ledger_is_replaced_only_as_it_was_read(store: LedgerStore):
    """One of two clients that read the same version replaces it, and the other is refused."""
    made = await store.create(new_ledger(5, key=b"value"))
    assert await store.read(5) == made
    recovering = await store.replace(made, made.metadata.with_state(LedgerState.IN_RECOVERY))
    assert recovering == await store.read(5)
    closed = made.metadata.with_state(LedgerState.CLOSED, last_entry_id=3, payload_bytes=30)
    with pytest.raises(MetadataConflict, match="ledger 5 was changed or deleted since version 0; read it again"):
        await store.replace(made, closed)
    with pytest.raises(MetadataConflict):
        await store.delete(5, made.version)
    assert await store.read(5) == recovering
    await store.delete(5, recovering.version)
    with pytest.raises(MetadataConflict):
        await store.replace(recovering, closed)


async def test_a_ledger_of_another_client_is_not_taken(store: LedgerStore):
    """An id that is in use is refused, even if the metadata are the same but for the token."""
    made = await store.create(new_ledger(5))
    with pytest.raises(LedgerExists, match="ledger 5 exists; take a new id"):
        await store.create(new_ledger(5))
    assert await store.read(5) == made


async def test_other_nodes_change_with_the_ledger_or_not_at_all(store: LedgerStore, client: ZooKeeperClient, root: str):
    """Operations beside a create, a replace and a delete happen together with it."""
    note = f"{root}/note"
    made = await store.create(new_ledger(5), also=[Create(note)])
    with pytest.raises(NodeExists, match="note"):
        await store.create(new_ledger(6), also=[Create(note)])
    with pytest.raises(LedgerNotFound):
        await store.read(6)
    with pytest.raises(NodeMissing, match="nowhere"):
        await store.replace(made, made.metadata, also=[Delete(f"{root}/nowhere")])
    assert await store.read(5) == made
    await store.delete(5, also=[Delete(note)])
    assert not await client.exists(note)
    # A second delete, as after a lost answer, finds nothing to do.
    await store.delete(5, also=[Delete(note)])


async def test_empty_parents_go_with_the_last_ledger(store: LedgerStore, client: ZooKeeperClient, root: str):
    """Deleting leaves no empty nodes, and keeps those of other ledgers."""
    before = await client.children(root)
    for ledger_id in (12345678, 12340000, 1):
        await store.create(new_ledger(ledger_id))
    await store.delete(12345678)
    assert await client.children(f"{root}/00") == ["0000", "1234"]
    await store.delete(12340000)
    assert await client.children(f"{root}/00") == ["0000"]
    await store.delete(1)
    assert await client.children(root) == before


@pytest.mark.parametrize("verb", ["create", "replace"])
async def test_a_write_whose_reply_was_lost_is_found(
    zookeeper: ZooKeeperServer, store: LedgerStore, root: str, verb: str
):
    """A connection that breaks in the place of the answer is no failure: the write is read back, and not repeated."""
    made = await store.create(new_ledger(5))
    async with running_proxy(zookeeper.port) as proxy, ZooKeeperClient(proxy.address, session_s=20) as client:
        through_proxy = await LedgerStore.open(client, root)
        proxy.lose_next_reply()
        if verb == "create":
            written = await through_proxy.create(new_ledger(6), also=[Create(f"{root}/once")])
        else:
            changed = replace(made.metadata, custom={"key": b"value"})
            written = await through_proxy.replace(made, changed, also=[Create(f"{root}/once")])
    assert await store.read(written.metadata.ledger_id, newest=True) == written


class HearsLate(ZooKeeperClient):
    """A client whose requests fail long before kazoo tells that the connection broke."""

    def _note(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            super()._note(state)


async def test_attempts_wait_for_a_connection_of_whose_loss_they_hear_first(zookeeper: ZooKeeperServer, root: str):
    """A request in flight fails before the client hears that the connection broke: the next attempt waits all the same."""
    async with running_proxy(zookeeper.port) as proxy, HearsLate(proxy.address, session_s=20) as client:
        store = await LedgerStore.open(client, root)
        proxy.lose_next_reply()
        written = await store.create(new_ledger(6))
        assert await store.read(6, newest=True) == written


async def test_a_write_whose_reply_is_late_is_found(zookeeper: ZooKeeperServer, store: LedgerStore, root: str):
    """A reply after the time-out is no failure, either: the next attempt finds the ledger."""
    await store.create(new_ledger(5))
    async with (
        running_proxy(zookeeper.port) as proxy,
        ZooKeeperClient(proxy.address, timeout_s=30, session_s=20) as client,
    ):
        through_proxy = await LedgerStore.open(client, root)
        proxy.hold_replies()
        sent = proxy.chunks_sent
        client._timeout_s = 1
        creating = asyncio.create_task(through_proxy.create(new_ledger(6)))
        await proxy.until_sent(sent + 1)
        # The second attempt, whose reply is not late.
        client._timeout_s = 30
        await proxy.until_sent(sent + 2)
        proxy.release()
        assert await store.read(6, newest=True) == await creating


async def test_metadata_that_no_entry_can_be_found_with_is_refused(store: LedgerStore, client: ZooKeeperClient):
    """Damaged and contradictory values are refused with the ledger, and never written."""
    made = await store.create(new_ledger(5))
    with pytest.raises(LedgerMetadataInvalid, match="ledger 5 has ack quorum 2"):
        await store.replace(made, replace(made.metadata, ack_quorum=2))
    with pytest.raises(LedgerMetadataInvalid, match="ledger 6 has segments from entries"):
        await store.create(replace(new_ledger(6), segments=()))
    await client.set(store.path_of(5), b"damaged")
    with pytest.raises(LedgerMetadataInvalid, match="metadata of ledger 5: b'damaged' is not the start"):
        await store.read(5)


async def test_a_root_without_a_cluster_is_refused(client: ZooKeeperClient):
    with pytest.raises(LedgerMetadataInvalid, match=r"/nowhere/LAYOUT does not exist at ZooKeeper .* give the root"):
        await LedgerStore.open(client, "/nowhere")


async def test_ids_that_are_used_up_are_refused(zookeeper: ZooKeeperServer, client: ZooKeeperClient):
    """A layout without long ids has no place for ids above 2**31 - 2."""
    root = f"/{uuid4()}"
    zookeeper.make_tree(root, layout_value(Layout.FLAT))
    store = await LedgerStore.open(client, root)
    with pytest.raises(LedgerMetadataInvalid, match=f"ledger: {SHORT_IDS_END} has no place in the layout Flat"):
        await store.create(new_ledger(SHORT_IDS_END))
