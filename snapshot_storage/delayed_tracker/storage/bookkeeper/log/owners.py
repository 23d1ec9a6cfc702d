"""Nodes that say which instance has the log of which tracker, and which ledgers are an instance's log.

::

    ROOT/log/id                         the id of the log, which all instances share
    ROOT/log/t/HH/NAME                  epoch, writer, the instance whose ledgers have the records, whether they move
    ROOT/log/i/INSTANCE                 an instance: one start of one process
    ROOT/log/i/INSTANCE/alive           ephemeral: missing if the instance is dead, or has not been heard of for 10 s
    ROOT/log/i/INSTANCE/l/LEDGER        a ledger of its log, created in one step with the ledger
    ROOT/log/i/INSTANCE/t/NAME          a tracker whose records are there
    ROOT/log/i/INSTANCE/r/NAME          a tracker that another instance is taking over: its records are needed until then;
                                        which tracker, and which instance

An instance that takes a tracker over first changes these nodes, then lists the ledgers of the former owner and fences
them. An owner that begins a new ledger first registers it, then reads which trackers it still has. Whichever comes first,
no record of the former owner is acknowledged behind the new one's back.

An instance whose session has expired may still be alive, and says so in its next session. It is removed before its ledgers
are deleted: in one step it is seen to be dead and to have no trackers, and loses the nodes without which it cannot have any.
"""

import contextlib
import json
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Self

from delayed_tracker.bookkeeper.metadata.errors import NodeChanged, NodeExists, NodeMissing, NodeNotEmpty
from delayed_tracker.bookkeeper.metadata.zookeeper import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Operation,
    SetValue,
    ZooKeeperClient,
)
from delayed_tracker.storage.bookkeeper.log.content import TrackerName
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.shared.names import tracker_named, tracker_path

LEDGERS, TRACKERS, LEAVING = "l", "t", "r"


class OwnerChanged(Exception):
    """Another process changed a tracker's node meanwhile; read it again."""


class InstanceRemoved(Exception):
    """Another process took this instance for dead and removed it; its ledgers had nothing that is needed. Begin another one."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Content of a tracker's node."""

    epoch: int
    writer: str
    instance: str
    """Instance whose ledgers have the records: 16 hexadecimal digits."""
    moving: bool = False
    """True while the writer takes the records over from the instance."""
    version: int = -1
    """Version of the node; -1 for one that does not exist."""

    @classmethod
    def parse(cls, path: str, value: bytes, version: int) -> Self:
        """Return the content of a node. Raises SnapshotCorrupt."""
        try:
            found = json.loads(value)
            owner = cls(found["epoch"], found["writer"], found["instance"], found["moving"], version)
        except (ValueError, KeyError, TypeError) as error:
            raise SnapshotCorrupt(f"the node {path} has {value[:80]!r}, which names no owner; delete it") from error
        types = type(owner.epoch), type(owner.writer), type(owner.instance), type(owner.moving)
        if types != (int, str, str, bool):
            raise SnapshotCorrupt(f"the node {path} has {value[:80]!r}, which names no owner; delete it")
        return owner

    def value(self) -> bytes:
        """Return the node's bytes."""
        content = {"epoch": self.epoch, "writer": self.writer, "instance": self.instance, "moving": self.moving}
        return json.dumps(content).encode()


class Owners:
    """Nodes of owners below one root.

    Args:
        zookeeper: started and closed by the caller.
        root: path of the node above ``log``, which exists.
        instance: of this process: 16 hexadecimal digits.
    """

    def __init__(self, zookeeper: ZooKeeperClient, root: str, instance: str) -> None:
        self._zookeeper = zookeeper
        self._root: Final = f"{root}/log"
        self.instance: Final = instance

    async def register(self) -> None:
        """Create the nodes of this instance, which lives as long as it says so in each session."""
        await self._zookeeper.ensure(f"{self._root}/t")
        await self._zookeeper.ensure(f"{self._root}/i")
        paths = (self._path(self.instance, *names) for names in ((), (LEDGERS,), (TRACKERS,), (LEAVING,)))
        await self._zookeeper.multi([*map(Create, paths), self._alive()])

    async def announce(self) -> None:
        """Say in a new session that this instance lives. Raises InstanceRemoved."""
        alive = self._alive()
        not_removed = Check(self._path(self.instance, TRACKERS), ANY_VERSION)
        while True:
            try:
                await self._zookeeper.multi([not_removed, alive])
            except NodeMissing as error:
                raise InstanceRemoved(error.message) from error
            except NodeExists:
                # Left by an announcement whose answer was lost, or by the last session; then it may vanish with that.
                with contextlib.suppress(NodeMissing):
                    await self._zookeeper.multi([Delete(alive.path), alive])
                    return
            else:
                return

    def _alive(self) -> Create:
        return Create(self._path(self.instance, "alive"), ephemeral=True)

    async def log_id(self) -> str:
        """Return the id of the log, which the first instance that is asked makes."""
        path = f"{self._root}/id"
        with suppress(NodeExists):
            await self._zookeeper.create(path, uuid.uuid4().hex.encode())
        await self._zookeeper.sync(path)
        node = await self._zookeeper.get(path)
        if node is None:
            raise SnapshotCorrupt(f"the node {path} was deleted meanwhile; nothing but the service may write below it")
        return node.value.decode("ascii", "replace")

    def ledger_node(self, ledger_id: int, instance: str | None = None) -> str:
        """Return the node of a ledger, of this instance if none is named."""
        return self._path(instance or self.instance, LEDGERS, str(ledger_id))

    async def ledgers(self, instance: str) -> list[int]:
        """Return the ledgers of an instance, oldest first; none if the instance is gone."""
        names = await self._newest(self._path(instance, LEDGERS))
        return sorted(int(name) for name in names if name.isdigit())

    async def names(self, instance: str, kind: str) -> set[str]:
        """Return the trackers that an instance has (``TRACKERS``), or those that leave it (``LEAVING``)."""
        return set(await self._newest(self._path(instance, kind)))

    async def abandoned(self) -> list[tuple[TrackerName, Owner]]:
        """Return the trackers of this instance that others were taking over when they died."""
        found: list[tuple[TrackerName, Owner]] = []
        for listed in await self.names(self.instance, LEAVING):
            path = self._path(self.instance, LEAVING, listed)
            node = await self._zookeeper.get(path)
            if node is None or not node.value:  # it has left, or an earlier version of this program takes it over
                continue
            try:
                taker, topic, cursor = json.loads(node.value)
            except (ValueError, TypeError) as error:
                raise SnapshotCorrupt(
                    f"the node {path} has {node.value[:80]!r}, which names no instance; delete it"
                ) from error
            if taker != self.instance and await self.is_alive(taker):
                continue
            owner = await self.owner_of((topic, cursor))
            if owner is not None and owner.moving and owner.instance == self.instance:
                found.append(((topic, cursor), owner))
        return found

    async def _newest(self, path: str) -> list[str]:
        await self._zookeeper.sync(path)
        try:
            return await self._zookeeper.children(path)
        except NodeMissing:
            return []

    async def instances(self) -> list[str]:
        """Return all instances, dead or alive."""
        return await self._newest(f"{self._root}/i")

    async def is_alive(self, instance: str) -> bool:
        """Return True if the process of an instance holds its session."""
        return await self._zookeeper.exists(self._path(instance, "alive"))

    async def owner_of(self, name: TrackerName) -> Owner | None:
        """Return the owner of a tracker; None if no log has it."""
        path = self._tracker_node(name)
        await self._zookeeper.sync(path)
        node = await self._zookeeper.get(path)
        return None if node is None else Owner.parse(path, node.value, node.version)

    async def claim(self, name: TrackerName, epoch: int, writer: str) -> Owner:
        """Become the owner of a tracker that has none. Raises OwnerChanged."""
        owner = Owner(epoch, writer, self.instance)
        return await self._change(name, owner, [Create(self._listed(self.instance, TRACKERS, name))])

    async def renew(self, name: TrackerName, before: Owner, epoch: int, writer: str) -> Owner:
        """Record another epoch or writer, without moving the records. Raises OwnerChanged."""
        return await self._change(name, replace(before, epoch=epoch, writer=writer), [])

    async def begin_move(self, name: TrackerName, before: Owner, epoch: int, writer: str) -> Owner:
        """Fence the owner by name; its ledgers come next. The records stay where they are. Raises OwnerChanged."""
        leaving = self._listed(before.instance, LEAVING, name)
        taker = json.dumps([self.instance, *name]).encode()
        also: list[Operation] = [SetValue(leaving, taker)]
        if not before.moving:
            also = [Delete(self._listed(before.instance, TRACKERS, name)), Create(leaving, taker)]
        return await self._change(name, replace(before, epoch=epoch, writer=writer, moving=True), also)

    async def end_move(self, name: TrackerName, moving: Owner) -> Owner:
        """Become the owner of records that this instance's log has now. Raises OwnerChanged."""
        also: list[Operation] = [
            Delete(self._listed(moving.instance, LEAVING, name)),
            Create(self._listed(self.instance, TRACKERS, name)),
        ]
        return await self._change(name, replace(moving, instance=self.instance, moving=False), also)

    async def _change(self, name: TrackerName, owner: Owner, also: list[Operation]) -> Owner:
        """Write the node of a tracker that has the owner's version, and return the owner at the next one."""
        path = self._tracker_node(name)
        first: Operation
        if owner.version < 0:
            await self._zookeeper.ensure(path.rpartition("/")[0])
            first = Create(path, owner.value())
        else:
            first = SetValue(path, owner.value(), owner.version)
        try:
            await self._zookeeper.multi([first, *also])
        except (NodeChanged, NodeExists, NodeMissing) as error:
            raise OwnerChanged(error.message) from error
        return replace(owner, version=owner.version + 1)

    async def remove_if_dead(self, instance: str) -> bool:
        """Remove an instance that is dead and has no trackers: it can never have any again. Return True if it is removed."""
        alive = self._path(instance, "alive")
        nodes = (self._path(instance, name) for name in (TRACKERS, LEAVING))
        try:
            # The first two refuse an instance that is alive.
            await self._zookeeper.multi([Create(alive), Delete(alive), *map(Delete, nodes)])
        except (NodeExists, NodeNotEmpty):
            return False
        except NodeMissing:
            return True  # by an earlier call
        return True

    async def forget(self, instance: str) -> None:
        """Delete the nodes of an instance that was removed, if it has no ledgers any more."""
        try:
            await self._zookeeper.delete(self._path(instance, LEDGERS))
            await self._zookeeper.delete(self._path(instance))
        except (NodeMissing, NodeNotEmpty):
            return

    async def retire(self) -> None:
        """Say that this instance is dead, before its session ends."""
        try:
            await self._zookeeper.delete(self._path(self.instance, "alive"))
        except NodeMissing:
            return

    def _path(self, instance: str, *names: str) -> str:
        return "/".join((self._root, "i", instance, *names))

    def _listed(self, instance: str, kind: str, name: TrackerName) -> str:
        return self._path(instance, kind, self.listed_name(name))

    @staticmethod
    def listed_name(name: TrackerName) -> str:
        """Return the name of a tracker's node below an instance."""
        return tracker_path(*name).rpartition("/")[2]

    @staticmethod
    def name_of(listed: str) -> TrackerName | None:
        """Return the tracker of a node below an instance; None if its name ends in a hash."""
        return tracker_named(listed)

    def _tracker_node(self, name: TrackerName) -> str:
        return f"{self._root}/t/{tracker_path(*name)}"
