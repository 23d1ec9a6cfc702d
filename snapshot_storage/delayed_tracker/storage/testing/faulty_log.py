"""An add log that fails on purpose: a wrapper around another one, with the same plan as a faulty storage."""

import asyncio
from collections.abc import Iterable, Sequence

from delayed_tracker.storage.add_log import AddLog, LogAppend, LogExtent, LogPage
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.testing.faults import FaultPlan, Faults, Sleep, split_faulty


class FaultyAddLog(Faults):
    """Another add log, with faults as planned.

    An operation on several trackers is chosen if any of them is of the plan's topic.
    """

    def __init__(self, inner: AddLog, plan: FaultPlan, *, sleep: Sleep = asyncio.sleep) -> None:
        super().__init__(inner, plan, sleep=sleep)
        self.inner = inner

    async def start(self) -> None:
        """Start the wrapped log; never faulty."""
        await self.inner.start()

    async def close(self) -> None:
        """Close the wrapped log; never faulty."""
        await self.inner.close()

    async def log_id(self) -> str:
        """Return the id of the wrapped log; never faulty."""
        return await self.inner.log_id()

    async def append(self, parts: Sequence[LogAppend], *, writer: str) -> list[tuple[str, str]]:
        """Call the wrapped log, with faults."""
        topic = self._planned_of(part.topic for part in parts)
        return await self._with_faults("append", topic, lambda: self.inner.append(parts, writer=writer))

    async def take_over(self, topic: str, cursor: str, *, epoch: int, writer: str) -> LogExtent:
        """Call the wrapped log, with faults."""
        return await self._with_faults(
            "take_over", topic, lambda: self.inner.take_over(topic, cursor, epoch=epoch, writer=writer)
        )

    async def read(self, topic: str, cursor: str, *, after: int, bytes_max: int) -> LogPage:
        """Call the wrapped log, with faults."""
        return await self._with_faults(
            "read", topic, lambda: self.inner.read(topic, cursor, after=after, bytes_max=bytes_max)
        )

    async def cut(self, cuts: Sequence[tuple[str, str, int]]) -> None:
        """Call the wrapped log, with faults."""
        await self._with_faults("cut", self._planned_of(topic for topic, _, _ in cuts), lambda: self.inner.cut(cuts))

    async def extents(self) -> list[LogExtent]:
        """Call the wrapped log, with faults."""
        return await self._with_faults("extents", None, self.inner.extents)

    async def size_bytes(self) -> int:
        """Return the size of the wrapped log; never faulty."""
        return await self.inner.size_bytes()

    def _planned_of(self, topics: Iterable[str]) -> str | None:
        """Return the plan's topic if it is among these, else None."""
        return self.plan.topic if self.plan.topic in set(topics) else None


def open_faulty_log(rest: str) -> FaultyAddLog:
    """Return the add log beside the storage of ``faulty:OPTIONS;URL``, with the faults of its options; not started."""
    plan, url = split_faulty(rest)
    return FaultyAddLog(open_add_log(url), plan)
