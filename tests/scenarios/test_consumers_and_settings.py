"""Rows of Pulsar's defects in dispatchers, consumers and settings: the actions of such callers on a tracker."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from delayed_tracker.core.values.columns import Position, PositionColumns, index_columns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.scenarios.desk import Desk
from tests.service.harness.rpc import REF, add, opened, poll, stats_of
from tests.service.harness.shell import (
    KEY,
    ControlledStorage,
    elapse,
    indexes,
    make_registry,
    rows,
    running_service,
    settle,
)

FAR = 3_600_000


@pytest.mark.parametrize(
    "changed",
    [
        {"tick_ms": 700},
        {"min_index_count_per_bucket": 1, "mutable_indexes_max": 2},
        {"max_step_per_segment_ms": 1_000, "max_indexes_per_segment": 1},
        {"max_num_buckets": 1},
    ],
)
def test_row_62_changed_settings_make_no_second_entry(changed: dict[str, int]) -> None:
    """After a restart with other settings, a replay adds nothing twice, and each position comes once."""
    desk = Desk(seal_at=3, seg=2, tick_ms=1_000)
    desk.add([(1, entry_id, 10_000 + 700 * entry_id) for entry_id in range(4)])
    desk.add([(2, entry_id, 10_000 + 700 * entry_id) for entry_id in range(4)])
    desk.A(3, 0, FAR)
    desk.limits = replace(desk.limits, **changed)
    desk.restart()
    assert desk.rescan() == []
    assert desk.count == 9
    assert sorted(desk.drain()) == sorted(desk.unacked)


def test_row_71_delayed_messages_hold_up_no_other() -> None:
    """Two consumers that take ten at a time and acknowledge nothing get all 40 due and all 40 plain messages."""
    desk = Desk()
    desk.add([(1, entry_id, FAR) for entry_id in range(0, 120, 3)])
    desk.add([(1, entry_id, 1_000) for entry_id in range(1, 120, 3)])
    plain = list(range(2, 120, 3))
    readable = [entry for low, high in desk.core.filter_range(1, 0, 119) for entry in range(low, high + 1)]
    assert readable == plain, "what was never delayed may be read at once"
    desk.sleep(1_000)
    polls = [desk.due(10, lease_ms=60_000) for _ in range(5)]
    assert [len(taken) for taken in polls] == [10, 10, 10, 10, 0]
    assert sorted(position for taken in polls for position in taken) == [
        Position(1, entry_id) for entry_id in range(1, 120, 3)
    ]


async def test_row_72_peeking_takes_nothing() -> None:
    """Messages with delays of 10 s and 5 s are each delivered when due, while another caller peeks continuously."""
    async with running_service() as service:
        epoch, now_ms = await opened(service), service.clock.now_ms()
        await service.stub.AddMessages(add(epoch, (now_ms + 10_000, 1, 0), (now_ms + 5_000, 1, 1)))
        delivered = []
        for _ in range(11):
            before = await stats_of(service)
            for _ in range(3):
                await service.stub.PeekMessages(pb.PeekMessagesRequest(tracker=REF, max_messages=10))
            assert await stats_of(service) == before
            answer = await service.stub.PollScheduledMessages(poll(epoch))
            delivered += [(service.clock.now_ms() - now_ms, entry_id) for entry_id in answer.entry_ids]
            service.clock.advance(1_000)
        assert delivered == [(5_000, 1), (10_000, 0)]


async def test_row_73_an_idle_consumer_gets_what_a_full_one_leaves() -> None:
    """If A takes two of three, B gets the third at once, and A's two when A gives them back or its lease ends."""
    clock = ManualClock()
    registry = make_registry(ControlledStorage(), clock)
    await registry.start()
    epoch = (await registry.open(KEY, owner="two consumers", mark_delete=None)).epoch
    host = registry.host(KEY)
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 10), (1, 1, 10), (1, 2, 10)))
    await elapse(clock, 10)
    full = await host.poll(epoch, max_count=2, wait_ms=0, lease_ms=5_000)
    idle = await host.poll(epoch, max_count=9, wait_ms=60_000, lease_ms=60_000)
    assert (rows(full), rows(idle)) == ([(1, 0), (1, 1)], [(1, 2)])
    waiting = asyncio.create_task(host.poll(epoch, max_count=9, wait_ms=60_000, lease_ms=60_000))
    await settle()
    host.nack(epoch, full.lease_id, PositionColumns.of([(1, 1)]), deliver_at_ms=None)
    await settle()
    assert rows(waiting.result()) == [(1, 1)]
    waiting = asyncio.create_task(host.poll(epoch, max_count=9, wait_ms=60_000, lease_ms=60_000))
    await elapse(clock, 5_000)
    assert rows(waiting.result()) == [(1, 0)]
    await registry.close()


def test_row_75_delayed_messages_in_front_of_a_plain_one_cost_no_waiting() -> None:
    """100,000 delayed messages are tracked without time passing; the same answer has the plain one behind as due."""
    desk = Desk()
    now_ms = desk.now_ms
    for first in range(0, 100_000, 1_000):
        desk.core.add(
            index_columns(np.full(1_000, now_ms + FAR), np.ones(1_000, np.int64), np.arange(first, first + 1_000)),
            desk.now,
        )
    assert desk.A(1, 100_000, 0).due.tolist() == [0]
    assert list(desk.core.filter_range(1, 0, 100_000)) == [(100_000, 100_000)]
    assert desk.count == 100_000


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
async def test_row_78_acknowledgements_survive_an_orderly_restart(killed: bool) -> None:
    """After a million acknowledgements around one far message, an orderly restart brings none of them back.

    A kill may: positions acknowledged since their bucket was sealed are tracked again. The dispatcher's cursor has
    their acknowledgements, so it sends each at most once more. The opposite never happens.
    """
    count = 1_000_000
    clock, storage = ManualClock(), ControlledStorage()
    # One segment, so that the far message keeps the acknowledged ones in the snapshot.
    limits = TrackerLimits(
        strict=True, mutable_indexes_max=2 * count, max_step_per_segment_ms=90 * 24 * FAR, max_indexes_per_segment=-1
    )
    registry = make_registry(storage, clock, limits=limits, service_limits=ServiceLimits(leased_positions_max=count))
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    host, now_ms = registry.host(KEY), clock.now_ms()
    host.add(epoch, indexes(now_ms, (1, 1, 30 * 24 * FAR)))
    holes = 2 * np.arange(1, count + 1)  # every other entry
    for part in np.array_split(holes, 20):
        host.add(epoch, index_columns(now_ms + 1_000 + part % 977, np.ones(len(part), np.int64), part))
    host.seal(epoch)
    await elapse(clock, 2_000)
    delivery = await host.poll(epoch, max_count=count, wait_ms=0, lease_ms=60_000)
    assert len(delivery.indexes) == count
    for part in np.array_split(np.random.default_rng(78).permutation(count), 10):
        host.ack(epoch, delivery.lease_id, delivery.indexes.positions.take(part))
    assert (host.stats().acked_count, host.stats().pending_count) == (count, 1)
    if killed:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await storage.inner.close()
    else:
        await registry.close_tracker(KEY, epoch)
        await registry.close()
    again = make_registry(storage, clock, limits=limits)
    await again.start()
    recovered = await again.open(KEY, owner="tests", mark_delete=None)
    assert recovered.recovered_count == (count + 1 if killed else 1)
    assert again.host(KEY).contains(PositionColumns.of([(1, 1)])).all()
    await again.close()
