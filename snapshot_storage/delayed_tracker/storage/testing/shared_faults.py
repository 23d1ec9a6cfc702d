"""Faults between one process and a store that it shares, at moments that a test chooses.

A ``SharedFaults`` object belongs to one opened storage; ``FaultyObjects`` and ``FaultyDocuments`` perform each operation
of the store through it. The operations are ``read`` and ``write`` of documents, ``put``, ``get`` and ``delete`` of what
never changes, and ``list``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.objects.object_store import ListedObject, Objects
from delayed_tracker.storage.shared.document_store import DocumentStore, StoredDocument

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Hold:
    """An operation that waits before it reaches the store."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the operation waits."""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to let the operation go on."""


class SharedFaults:
    """Planned faults of the operations of one storage; none at first."""

    def __init__(self) -> None:
        self._holds: dict[str, list[Hold]] = {}
        self._late: dict[str, list[Hold]] = {}
        self._failing: dict[str, list[bool]] = {}
        self._stale_listings = False
        # What each listing found last, by prefix: objects, or versions by name.
        self._listings: dict[str, Any] = {}
        self._late_operations: set[asyncio.Task[object]] = set()
        self.counts: dict[str, int] = {}
        """Operations that were asked for, by their names."""

    def hold(self, operation: str) -> Hold:
        """Let the next operation of a kind wait."""
        return self._planned(self._holds, operation)

    def deliver_late(self, operation: str) -> Hold:
        """Let the next operation of a kind fail at once, and reach the store only when the hold is let go."""
        return self._planned(self._late, operation)

    def _planned(self, plan: dict[str, list[Hold]], operation: str) -> Hold:
        hold = Hold()
        plan.setdefault(operation, []).append(hold)
        return hold

    def fail_before(self, operation: str) -> None:
        """Let the next operation of a kind fail without reaching the store."""
        self._failing.setdefault(operation, []).append(False)

    def drop_reply(self, operation: str) -> None:
        """Let the next operation of a kind fail although the store has done it."""
        self._failing.setdefault(operation, []).append(True)

    def lag(self) -> None:
        """Let a listing show, from now on, what the same listing has shown before; nothing if there was none."""
        self._stale_listings = True

    async def perform(self, operation: str, work: Callable[[], Awaitable[T]]) -> T:
        """Perform an operation, with the faults that are planned for it."""
        self.counts[operation] = self.counts.get(operation, 0) + 1
        if holds := self._holds.get(operation):
            hold = holds.pop(0)
            hold.reached.set()
            await hold.go_on.wait()
        if late := self._late.get(operation):
            task: asyncio.Task[object] = asyncio.create_task(_later(late.pop(0), work))
            self._late_operations.add(task)
            raise StorageUnavailable(f"a planned fault: {operation} is on its way for too long")
        failing = self._failing.get(operation)
        done_nevertheless = failing.pop(0) if failing else None
        if done_nevertheless is False:
            raise StorageUnavailable(f"a planned fault before {operation}; nothing was done")
        answer = await work()
        if done_nevertheless:
            raise StorageUnavailable(f"a planned fault after {operation}; it was done nevertheless")
        return answer

    async def late_operations(self) -> list[object]:
        """Wait for the operations that were delivered late; return their answers, errors included."""
        return await asyncio.gather(*self._late_operations, return_exceptions=True)

    def shown(self, prefix: str, found: T) -> T:
        """Return what a listing shows: what was found, or what it showed before the lag began."""
        if not self._stale_listings:
            self._listings[prefix] = found
            return found
        shown: T = self._listings.get(prefix, type(found)())
        return shown


async def _later(hold: Hold, work: Callable[[], Awaitable[object]]) -> object:
    hold.reached.set()
    await hold.go_on.wait()
    return await work()


class FaultyObjects:
    """Another store of objects, with faults as planned."""

    def __init__(self, inner: Objects, faults: SharedFaults) -> None:
        self._inner = inner
        self._faults = faults

    @property
    def name(self) -> str:
        """Place of the objects, as the wrapped store names it."""
        return self._inner.name

    @property
    def min_interval_s(self) -> float:
        """Time between two writes of one key, as the wrapped store needs it."""
        return self._inner.min_interval_s

    async def start(self) -> None:
        """Start the wrapped store; never faulty."""
        await self._inner.start()

    async def close(self) -> None:
        """Close the wrapped store; never faulty."""
        await self._inner.close()

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Call the wrapped store, with faults."""
        return await self._faults.perform("put", lambda: self._inner.put(key, chunks))

    async def put_if(self, key: str, content: bytes, expected: str | None) -> str:
        """Call the wrapped store, with faults."""
        return await self._faults.perform("write", lambda: self._inner.put_if(key, content, expected))

    async def get(self, key: str) -> StoredDocument | None:
        """Call the wrapped store, with faults."""
        return await self._faults.perform("read", lambda: self._inner.get(key))

    async def get_range(self, key: str, first: int, end: int) -> bytes | None:
        """Call the wrapped store, with faults."""
        return await self._faults.perform("get", lambda: self._inner.get_range(key, first, end))

    async def delete(self, key: str) -> bool:
        """Call the wrapped store, with faults."""
        return await self._faults.perform("delete", lambda: self._inner.delete(key))

    async def listing(self, prefix: str) -> list[ListedObject]:
        """Call the wrapped store, with faults; the answer may lag."""
        found = await self._faults.perform("list", lambda: self._inner.listing(prefix))
        return self._faults.shown(prefix, found)


class FaultyDocuments:
    """Another store of documents, with faults as planned."""

    def __init__(self, inner: DocumentStore, faults: SharedFaults) -> None:
        self._inner = inner
        self._faults = faults

    @property
    def max_bytes(self) -> int:
        """Size that a document should not exceed, as in the wrapped store."""
        return self._inner.max_bytes

    @property
    def min_interval_s(self) -> float:
        """Time between two writes of one name, as the wrapped store needs it."""
        return self._inner.min_interval_s

    async def read(self, name: str) -> StoredDocument | None:
        """Call the wrapped store, with faults."""
        return await self._faults.perform("read", lambda: self._inner.read(name))

    async def write(self, name: str, content: bytes, expected: str | None) -> str:
        """Call the wrapped store, with faults."""
        return await self._faults.perform("write", lambda: self._inner.write(name, content, expected))

    async def listing(self, folder: str) -> dict[str, str]:
        """Call the wrapped store, with faults; the answer may lag."""
        found = await self._faults.perform("list", lambda: self._inner.listing(folder))
        return self._faults.shown(folder, found)
