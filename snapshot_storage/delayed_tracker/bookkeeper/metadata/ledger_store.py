"""Creates, reads, replaces and deletes ledgers' metadata in ZooKeeper, and draws their ids.

A write whose answer was lost is read back: a created ledger is known by its token, a replaced one by version and value.
"""

import contextlib
import re
import secrets
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from delayed_tracker.bookkeeper.metadata.errors import (
    LedgerExists,
    LedgerMetadataInvalid,
    LedgerNotFound,
    MetadataConflict,
    NodeChanged,
    NodeExists,
    NodeMissing,
    NodeNotEmpty,
    ZooKeeperUnavailable,
)
from delayed_tracker.bookkeeper.metadata.layout import LAYOUT_NODE, SHORT_IDS_END, Layout
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, parse, serialize
from delayed_tracker.bookkeeper.metadata.zookeeper import (
    ANY_VERSION,
    Create,
    Delete,
    Operation,
    SetValue,
    ZooKeeperClient,
)

_ATTEMPTS: Final = 3
_FOLDER: Final = re.compile(r"[0-9]{2,4}")
"""Names of the nodes between the root and the ledgers."""
_FIRST_HIGH_PART: Final = 1
"""High parts of long ids begin at 1, so that no long id is a short one."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """Metadata of a ledger and the version of its node."""

    metadata: LedgerMetadata
    version: int


class LedgerStore:
    """The ledgers of one cluster.

    ``also`` are operations that happen together with a write, or not at all. Every method raises
    :class:`~delayed_tracker.bookkeeper.metadata.errors.ZooKeeperUnavailable` if ZooKeeper does not answer; the write may
    then have happened.
    """

    def __init__(self, zookeeper: ZooKeeperClient, root: str, layout: Layout) -> None:
        self._zookeeper = zookeeper
        self._root = root
        self.layout = layout

    @classmethod
    async def open(cls, zookeeper: ZooKeeperClient, root: str = "/ledgers") -> "LedgerStore":
        """Read the layout of the cluster whose ledgers are below ``root``.

        Raises:
            LedgerMetadataInvalid: there is no cluster, or its layout is unknown.
        """
        node = await zookeeper.get(f"{root}/{LAYOUT_NODE}")
        if node is None:
            raise LedgerMetadataInvalid(
                f"{root}/{LAYOUT_NODE} does not exist at ZooKeeper {zookeeper.hosts}; give the root of a BookKeeper cluster, "
                "which is /ledgers unless zkLedgersRootPath or the metadataServiceUri says otherwise"
            )
        return cls(zookeeper, root, Layout.parse(node.value))

    def path_of(self, ledger_id: int) -> str:
        """Return the path of a ledger's node.

        Raises:
            LedgerMetadataInvalid: the layout has no place for the id.
        """
        return f"{self._root}/{self.layout.path_of(ledger_id)}"

    async def new_id(self) -> int:
        """Return an id that no other client of the cluster gets, short as long as there are short ones.

        Raises:
            LedgerMetadataInvalid: short ids are used up, and the layout has no others.
        """
        # Once one client has found the short ids used up, it creates this node, and all draw long ones.
        if not self.layout.takes_long_ids or not await self._zookeeper.exists(f"{self._root}/idgen-long"):
            # The flat layout counts the children of the root itself.
            drawn = await self._draw(self._root if self.layout is Layout.FLAT else f"{self._root}/idgen")
            if 0 <= drawn < SHORT_IDS_END:
                return drawn
            if not self.layout.takes_long_ids:
                raise LedgerMetadataInvalid(
                    f"layout: {self.layout.value} has no ids above {SHORT_IDS_END - 1}, and they are used up; use a cluster "
                    f"with the layout {Layout.HIERARCHICAL.value}"
                )
        return await self._new_long_id()

    async def create(self, metadata: LedgerMetadata, also: Sequence[Operation] = ()) -> Versioned:
        """Create a ledger's node with a new creation token, in format 3.

        Raises:
            LedgerExists: another client's ledger has this id.
            NodeExists, NodeChanged, NodeMissing: an operation of ``also`` is refused.
        """
        path = self.path_of(metadata.ledger_id)
        made = replace(metadata, format_version=3, creation_token=secrets.randbits(63)).require_usable()
        value = serialize(made)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._zookeeper.multi([Create(path, value), *also])
            except NodeExists as error:
                if error.path != path:
                    raise
                node = await self._zookeeper.get(path)
                if node is not None and node.value == value:
                    return Versioned(made, node.version)
                if node is not None or attempt == _ATTEMPTS:
                    raise LedgerExists(f"ledger {metadata.ledger_id} exists; take a new id") from error
            except NodeMissing as error:
                # Another client deletes parents that it finds empty.
                if error.path != path or attempt == _ATTEMPTS:
                    raise
                await self._zookeeper.ensure(path.rpartition("/")[0])
            except ZooKeeperUnavailable:
                # The next attempt finds the node if this one was performed, and else performs it.
                if attempt == _ATTEMPTS:
                    raise
                await self._zookeeper.until_connected()
            else:
                break
        return Versioned(made, 0)

    async def ids(self) -> AsyncGenerator[int, None]:
        """Yield the ids of all ledgers, in no order. Those that come or go meanwhile may be among them.

        One request for each node that has ledgers below it; its children are in memory, which are 10,000 at most unless the
        layout is flat.

        Raises:
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            try:
                names = await self._zookeeper.children(f"{self._root}/{folder}".rstrip("/"))
            except NodeMissing:
                # The last ledger below it was deleted.
                continue
            for name in names:
                path = f"{folder}/{name}".lstrip("/")
                ledger_id = self.layout.id_of(path)
                if ledger_id is not None:
                    yield ledger_id
                elif _FOLDER.fullmatch(name):
                    waiting.append(path)

    async def read(self, ledger_id: int, *, newest: bool = False) -> Versioned:
        """Return the metadata of a ledger; with ``newest`` not older than any write that was acknowledged before.

        Raises:
            LedgerNotFound: there is no such ledger.
            LedgerMetadataInvalid: the node's value is damaged, or no entry can be found with it.
        """
        path = self.path_of(ledger_id)
        if newest:
            await self._zookeeper.sync(path)
        node = await self._zookeeper.get(path)
        if node is None:
            raise LedgerNotFound(f"ledger {ledger_id} does not exist below {self._root}")
        return Versioned(parse(ledger_id, node.value).require_usable(), node.version)

    async def replace(self, read: Versioned, metadata: LedgerMetadata, also: Sequence[Operation] = ()) -> Versioned:
        """Replace metadata that nobody changed since it was read, and return it with its new version.

        Raises:
            MetadataConflict: another client changed or deleted it.
            LedgerMetadataInvalid: it is in format 1, or contradicts itself.
            NodeExists, NodeChanged, NodeMissing: an operation of ``also`` is refused.
        """
        path, value = self.path_of(metadata.ledger_id), serialize(metadata.require_usable())
        done = Versioned(metadata, read.version + 1)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._zookeeper.multi([SetValue(path, value, read.version), *also])
            except (NodeChanged, NodeMissing) as error:
                if error.path != path:
                    raise
                if attempt > 1:
                    # The answer of an earlier attempt was lost.
                    node = await self._zookeeper.get(path)
                    if node is not None and (node.value, node.version) == (value, done.version):
                        return done
                raise MetadataConflict(
                    f"metadata of ledger {metadata.ledger_id} was changed or deleted since version {read.version}; read it again"
                ) from error
            except ZooKeeperUnavailable:
                if attempt == _ATTEMPTS:
                    raise
                await self._zookeeper.until_connected()
            else:
                break
        return done

    async def delete(self, ledger_id: int, version: int = ANY_VERSION, also: Sequence[Operation] = ()) -> bool:
        """Delete a ledger's node, and the parents that it leaves empty; return False if there is no such ledger.

        Without it nothing happens, and the operations of ``also`` do not either.

        Bookies drop the entries later, when they compare their ledgers with ZooKeeper's.

        Raises:
            MetadataConflict: another client changed it since ``version``.
            NodeExists, NodeChanged, NodeMissing: an operation of ``also`` is refused, while the ledger exists.
        """
        path = self.path_of(ledger_id)
        try:
            await self._zookeeper.multi([Delete(path, version), *also])
        except NodeMissing as error:
            if error.path != path:
                raise
            return False
        except NodeChanged as error:
            if error.path != path:
                raise
            raise MetadataConflict(
                f"metadata of ledger {ledger_id} was changed since version {version}; read it again"
            ) from error
        parent = path.rpartition("/")[0]
        with contextlib.suppress(NodeNotEmpty, NodeMissing, ZooKeeperUnavailable):
            while parent != self._root:
                await self._zookeeper.delete(parent)
                parent = parent.rpartition("/")[0]
        return True

    async def _new_long_id(self) -> int:
        """Draw from the generator with the largest high part; make the next one if its low parts are used up."""
        place = f"{self._root}/idgen-long"
        await self._zookeeper.ensure(place)
        highs = [int(name.removeprefix("HOB-")) for name in await self._zookeeper.children(place) if name[:4] == "HOB-"]
        high = max(highs, default=_FIRST_HIGH_PART)
        while True:
            low = await self._draw(f"{place}/HOB-{high:010d}")
            if 0 <= low < SHORT_IDS_END:
                return high << 32 | low
            high += 1

    async def _draw(self, generator: str) -> int:
        """Return the next number of a node, which counts its children: negative after 2**31 - 1."""
        try:
            path = await self._zookeeper.create(f"{generator}/ID-", ephemeral=True, sequential=True)
        except NodeMissing:
            await self._zookeeper.ensure(generator)
            path = await self._zookeeper.create(f"{generator}/ID-", ephemeral=True, sequential=True)
        # Without an answer the node goes with the session.
        with contextlib.suppress(NodeMissing, ZooKeeperUnavailable):
            await self._zookeeper.delete(path)
        return int(path.rpartition("/ID-")[2])
