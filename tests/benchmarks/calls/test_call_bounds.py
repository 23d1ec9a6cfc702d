"""Bounds on the work of one AddMessages over gRPC: tasks and commits. No clock is read.

Client and service are in one event loop here, so each count is of both.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import pytest

from delayed_tracker.client import DelayedTrackerClient, TrackerSession
from delayed_tracker.storage.sqlite.add_log import SqliteAddLog
from tests.service.harness.shell import KEY, RunningService, running_service

CALLS = 50
TASKS_PER_CALL_MAX = 5
"""Four of gRPC, which an echo over it takes as well, and the commit's."""
TASKS_BESIDE_MAX = 10
"""Tasks that do not belong to a call."""
FAR_MS = 3_600_000


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[tuple[RunningService, TrackerSession]]:
    async with (
        running_service(add_log=SqliteAddLog(directory / "log")) as service,
        DelayedTrackerClient.connect(service.address) as client,
        await client.open_tracker(KEY.topic, KEY.subscription) as session,
    ):
        yield service, session


class CountingTasks:
    """Counter of the tasks that a loop makes inside the block."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        asyncio.get_running_loop().set_task_factory(self._make)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().set_task_factory(None)

    def _make(self, loop, coroutine, **options) -> asyncio.Task:
        self.count += 1
        return asyncio.Task(coroutine, loop=loop, **options)


@pytest.mark.slow
async def test_a_call_makes_few_tasks_and_one_commit(tmp_path):
    """A call costs no more tasks than gRPC's own and the commit's, and its commit is one."""
    async with opened(tmp_path) as (service, session):
        due_ms = service.clock.now_ms() + FAR_MS
        await session.add_columns([due_ms], [1], [0])
        commits = service.registry.log.commit_count
        with CountingTasks() as tasks:
            for entry in range(1, 1 + CALLS):
                await session.add_columns([due_ms], [1], [entry])
        assert service.registry.log.commit_count - commits == CALLS
        assert tasks.count <= TASKS_PER_CALL_MAX * CALLS + TASKS_BESIDE_MAX


@pytest.mark.slow
async def test_single_adds_through_a_stream_share_commits(tmp_path):
    """1,000 single positions take at most 20 commits instead of one for each."""

    async def batches(due_ms: int):
        for entry in range(1_000):
            yield [due_ms], [1], [entry]

    async with opened(tmp_path) as (service, session):
        commits = service.registry.log.commit_count
        answers = [answer async for answer in session.add_stream(batches(service.clock.now_ms() + FAR_MS))]
        assert [answer.added_count for answer in answers] == [1] * 1_000
        assert service.registry.log.commit_count - commits <= 20
