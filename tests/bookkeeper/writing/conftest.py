"""A client with bookies in memory, whose metadata are in a real ZooKeeper."""

from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore
from delayed_tracker.bookkeeper.metadata.zookeeper import ZooKeeperClient
from delayed_tracker.bookkeeper.settings import ClientSettings
from tests.bookkeeper.model_bookie import ModelBookie, serving
from tests.bookkeeper.servers.cluster import ZooKeeperServer


class Setting:
    """A client, another client's view of the metadata, and the bookies."""

    def __init__(self, client, store, zookeeper, root, bookies):
        self.client = client
        self.store = store
        self.zookeeper = zookeeper
        self.root = root
        self.bookies = {bookie.name: bookie for bookie in bookies}

    async def create(self, ensemble=3, write=2, ack=2, **others):
        return await self.client.create(ensemble=ensemble, write_quorum=write, ack_quorum=ack, **others)

    def place(self, writer, index):
        """Return the bookie at an index of the ensemble in force."""
        return self.bookies[writer.metadata.segments[-1][1][index]]

    async def rewrite(self, writer, change):
        """Change the metadata as another client."""
        found = await self.store.read(writer.ledger_id)
        return await self.store.replace(found, change(found.metadata))


@pytest.fixture
def setting_of(zookeeper: ZooKeeperServer):
    """Return what makes a client and bookies named a, b, c, and so on."""

    @asynccontextmanager
    async def make(count=5, address=zookeeper.address, **settings):
        root = f"/{uuid4()}"
        bookies = [ModelBookie(name) for name in "abcdefgh"[:count]]
        zookeeper.make_tree(root, bookies=[bookie.name for bookie in bookies])
        async with serving(*bookies), ZooKeeperClient(zookeeper.address) as other:
            ports = {bookie.name: ("127.0.0.1", bookie.port) for bookie in bookies}
            client = BookKeeper(address, ledgers=root, settings=ClientSettings(**settings), address_of=ports.get)
            async with client:
                yield Setting(client, await LedgerStore.open(other, root), other, root, bookies)

    return make
