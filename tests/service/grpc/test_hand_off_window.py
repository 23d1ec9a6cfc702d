"""Hand-offs wait for the consumption window right before they take positions, however long they have waited already."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened
from tests.service.harness.shell import as_time_passes, elapse, failing, running_service, settle, until

WINDOW = 10
EACH = 4
TAKERS = 3
"""Polls that fill the window, together."""


@pytest.fixture
async def log():
    return MemoryAddLog()


@pytest.fixture
async def service(log):
    limits = ServiceLimits(consumption_window_positions=WINDOW)
    async with running_service(add_log=log, service_limits=limits) as service:
        yield service


def polled(service, epoch, **terms):
    """Begin a poll, a hand-off unless it has a lease; its result is the number of messages."""
    request = pb.PollScheduledMessagesRequest(
        tracker=REF, epoch=epoch, max_messages=EACH, wait_ms=30_000, hand_off="lease_ms" not in terms, **terms
    )
    return asyncio.ensure_future(_count(service, request))


async def _count(service, request):
    return len((await service.stub.PollScheduledMessages(request)).entry_ids)


async def waiting_hand_offs(service, count):
    """Begin hand-offs that wait for as many messages as they take, which are due in a second; return the epoch and them."""
    epoch = await opened(service)
    now_ms = service.clock.now_ms()
    await service.stub.AddMessages(add(epoch, *((now_ms + 1_000, 1, entry) for entry in range(count * EACH))))
    polls = [polled(service, epoch) for _ in range(count)]
    await until(lambda: service.registry.waiting_poll_count == count)
    return epoch, polls


@asynccontextmanager
async def log_down_when_due(service, log, monkeypatch, hand_offs):
    """Let the log fail in the block, which begins when the messages are due and hand-offs have filled the window."""
    with monkeypatch.context() as patch:
        patch.setattr(log, "append", failing(*[StorageUnavailable("down")] * 1_000))
        await elapse(service.clock, 2_000)
        await until(lambda: sum(poll.done() for poll in hand_offs) == TAKERS)
        yield


async def test_polls_that_wait_hand_off_no_more_than_the_window(service, log, monkeypatch):
    """The log fails before the messages are due; they are handed off when it works again."""
    _, polls = await waiting_hand_offs(service, 10)
    async with log_down_when_due(service, log, monkeypatch, polls):
        await settle()
        taken = sum(poll.result() for poll in polls if poll.done())
        assert WINDOW <= taken == service.registry.log.unwritten_removed_count < WINDOW + EACH
    await elapse(service.clock, 10_000)
    assert sum(await asyncio.gather(*polls)) == 40


async def test_one_commit_lets_through_no_more_than_the_window(log, monkeypatch):
    """A commit wakes all polls that wait for room, and the first of them may fill the window again."""
    append, commits = log.append, [asyncio.Event(), asyncio.Event()]
    held = iter(commits)

    async def append_later(*arguments, **named):
        if (commit := next(held, None)) is not None:
            await commit.wait()
        return await append(*arguments, **named)

    limits = ServiceLimits(consumption_window_positions=WINDOW, consumption_window_ms=60_000)
    async with running_service(add_log=log, service_limits=limits) as service:
        _, polls = await waiting_hand_offs(service, 20)
        monkeypatch.setattr(log, "append", append_later)
        await elapse(service.clock, 2_000)
        await until(lambda: sum(poll.done() for poll in polls) == TAKERS)
        commits[0].set()
        await until(lambda: sum(poll.done() for poll in polls) > TAKERS)
        await settle()
        unwritten = service.registry.log.unwritten_removed_count
        commits[1].set()
        assert sum(await as_time_passes(service.clock, asyncio.gather(*polls), step_ms=50)) == 20 * EACH
        assert WINDOW <= unwritten < WINDOW + EACH


async def test_a_poll_with_a_lease_does_not_wait_behind_a_hand_off(service, log, monkeypatch):
    """A lease consumes nothing."""
    epoch, hand_offs = await waiting_hand_offs(service, 4)
    leased = polled(service, epoch, lease_ms=60_000)
    await until(lambda: service.registry.waiting_poll_count == 5)
    async with log_down_when_due(service, log, monkeypatch, hand_offs):
        assert await leased == EACH
    await elapse(service.clock, 60_000)
    assert await hand_offs[-1] == 0, "its time was over, and the rest is leased"


async def test_a_poll_that_waits_for_the_window_keeps_to_its_time(service, log, monkeypatch):
    """The log does not work for longer than the poll waits."""
    _, polls = await waiting_hand_offs(service, 6)
    async with log_down_when_due(service, log, monkeypatch, polls):
        waiting = [poll for poll in polls if not poll.done()]
        assert service.registry.waiting_poll_count == len(waiting) > 0
        await elapse(service.clock, 30_000)
        assert [await poll for poll in waiting] == [0] * len(waiting)
    await elapse(service.clock, 10_000)


@pytest.mark.parametrize("end", ["open", "clear"])
async def test_a_poll_that_waits_for_the_window_is_told_its_end(service, log, monkeypatch, end):
    """The tracker is taken over or cleared while the log does not work."""
    epoch, polls = await waiting_hand_offs(service, 6)
    async with log_down_when_due(service, log, monkeypatch, polls):
        waiting = [poll for poll in polls if not poll.done()]
        clearing = pb.ClearMessagesRequest(tracker=REF, epoch=epoch)
        ending = asyncio.ensure_future(opened(service) if end == "open" else _cleared(service, clearing))
        for poll in waiting:
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await poll
            assert ended.value.code() in {grpc.StatusCode.ABORTED, grpc.StatusCode.FAILED_PRECONDITION}
    await elapse(service.clock, 10_000)
    await ending


async def _cleared(service, request):
    return await service.stub.ClearMessages(request)
