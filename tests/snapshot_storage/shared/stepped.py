"""A store of objects in which one operation at a time goes on, chosen by a scheduler that may also let it fail."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.objects.documents import _key
from delayed_tracker.storage.shared.document import Document, decode_head, decode_rows
from delayed_tracker.storage.testing.memory_objects import MemoryObjects

Choose = Callable[[int], int]
"""Returns a number from 0 to less than the given one."""

IDLE_TURNS = 12
"""Turns of the event loop after which nearly every task waits for the scheduler, or has ended."""
STUCK_TURNS = 1_000
"""Turns after which a task that does not wait for the scheduler waits for something else, and for ever."""

GO, FAIL, DROP_REPLY, DELIVER_LATE = range(4)


@dataclass(eq=False)
class Operation:
    """An operation that waits for its turn."""

    turn: asyncio.Future[int]
    faults: tuple[int, ...]
    process: int


@dataclass
class Scheduler:
    """Lets operations go on, one at a time."""

    choose: Choose
    faults_left: int
    waiting: list[Operation] = field(default_factory=list)
    steps: int = 0

    async def turn(self, process: int, *faults: int) -> int:
        """Wait for the scheduler, and return what is to happen."""
        operation = Operation(asyncio.get_running_loop().create_future(), faults, process)
        self.waiting.append(operation)
        return await operation.turn

    async def run(self, work: list[asyncio.Task]) -> None:
        """Choose until all tasks have ended and nothing waits."""
        turns = 0
        while True:
            for _ in range(IDLE_TURNS):
                await asyncio.sleep(0)
            if not self.waiting:
                if all(task.done() for task in work):
                    return
                turns += IDLE_TURNS
                assert turns < STUCK_TURNS, "a task waits for something else than the store"
                continue
            turns = 0
            options = [(operation, GO) for operation in self.waiting]
            if self.faults_left:
                options += [(operation, fault) for operation in self.waiting for fault in operation.faults]
            operation, outcome = options[self.choose(len(options))]
            self.faults_left -= outcome != GO
            self.waiting.remove(operation)
            self.steps += 1
            operation.turn.set_result(outcome)


class SteppedObjects(MemoryObjects):
    """The objects of one process; the content is shared."""

    def __init__(self, scheduler: Scheduler, process: int, shared: "SteppedObjects | None" = None) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._process = process
        self._late: set[asyncio.Task] = set()
        self.history: list[Document] = []
        self._home = self if shared is None else shared
        if shared is not None:
            self.content, self._versions, self.history = shared.content, shared._versions, shared.history

    async def put_if(self, key, content, expected):
        outcome = await self._scheduler.turn(self._process, FAIL, DROP_REPLY, DELIVER_LATE)
        if outcome == DELIVER_LATE:
            task = asyncio.create_task(self._write_late(key, content, expected))
            self._late.add(task)
        if outcome in {FAIL, DELIVER_LATE}:
            raise StorageUnavailable("a planned fault")
        version = await self._write(key, content, expected)
        if outcome == DROP_REPLY:
            raise StorageUnavailable("a planned fault; it was done nevertheless")
        return version

    async def _write_late(self, key, content, expected):
        await self._scheduler.turn(self._process)
        await asyncio.gather(self._write(key, content, expected), return_exceptions=True)

    async def _write(self, key, content, expected):
        # The home store counts the versions of all processes.
        version = await MemoryObjects.put_if(self._home, key, content, expected)
        if key.startswith("c/"):
            head = decode_head(content, key)
            body = content[head.head_bytes :] if not head.body_pointer else self._body(head)
            document = head.document
            rows = decode_rows(head, body, key)
            self.history.append(
                Document(document.topic, document.cursor, epoch=document.epoch, writer=document.writer, rows=rows)
            )
        return version

    def _body(self, head):
        return self.content[str(_key(head.document.topic, head.document.cursor, head.body_pointer))]

    async def put(self, key, chunks):
        outcome = await self._scheduler.turn(self._process, FAIL, DROP_REPLY)
        if outcome == FAIL:
            raise StorageUnavailable("a planned fault")
        size = await super().put(key, chunks)
        if outcome == DROP_REPLY:
            raise StorageUnavailable("a planned fault; it was done nevertheless")
        return size

    async def get(self, key):
        await self._go_or_fail()
        return await super().get(key)

    async def get_range(self, key, first, end):
        await self._go_or_fail()
        return await super().get_range(key, first, end)

    async def delete(self, key):
        await self._go_or_fail()
        await super().delete(key)

    async def listing(self, prefix):
        await self._go_or_fail()
        return await super().listing(prefix)

    async def _go_or_fail(self):
        if await self._scheduler.turn(self._process, FAIL) == FAIL:
            raise StorageUnavailable("a planned fault")
