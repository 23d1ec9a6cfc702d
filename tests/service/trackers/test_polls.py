"""Long polls: events that wake and end them, without busy waiting and without taking positions for lost callers."""

import asyncio

import pytest

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import Fenced, LeasesExhausted, Overloaded, PollEnded, ShuttingDown
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import clear_tracker
from tests.service.harness.shell import (
    KEY,
    TINY,
    ControlledStorage,
    Gate,
    bucketful,
    elapse,
    indexes,
    make_registry,
    rows,
    settle,
)

LEASE_MS = 10_000


@pytest.fixture
async def opened(registry):
    opened = await registry.open(KEY, owner="tests", mark_delete=None)
    return registry.host(KEY), opened.epoch


def _poll(host, epoch, *, max_count=10, wait_ms=60_000, lease_ms=LEASE_MS, **kwargs):
    return asyncio.create_task(host.poll(epoch, max_count=max_count, wait_ms=wait_ms, lease_ms=lease_ms, **kwargs))


async def test_poll_without_wait_answers_at_once(opened, clock):
    """A poll without a wait returns at once, with a lease on what is due or with nothing."""
    host, epoch = opened
    assert rows(await host.poll(epoch, max_count=10, wait_ms=0, lease_ms=LEASE_MS)) == []
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 5)))
    await elapse(clock, 5)
    delivery = await host.poll(epoch, max_count=10, wait_ms=0, lease_ms=LEASE_MS)
    assert rows(delivery) == [(1, 0)]
    assert delivery.expires_at_ms == clock.now_ms() + LEASE_MS


async def test_poll_is_woken_at_the_very_moment_something_becomes_due(opened, clock):
    """A poll is woken at the deadline, also for positions that are added while it waits."""
    host, epoch = opened
    poll = _poll(host, epoch)
    await settle()
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 700), (1, 1, 900)))
    await elapse(clock, 699)
    assert not poll.done()
    await elapse(clock, 1)
    assert rows(poll.result()) == [(1, 0)]


async def test_poll_is_woken_by_a_nack(opened, clock):
    """A waiting poll gets a position that is given back."""
    host, epoch = opened
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 5)))
    await elapse(clock, 5)
    first = await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=LEASE_MS)
    poll = _poll(host, epoch)
    await settle()
    assert not poll.done()
    host.nack(epoch, first.lease_id, PositionColumns.of([(1, 0)]), deliver_at_ms=None)
    await settle()
    assert rows(poll.result()) == [(1, 0)]


async def test_poll_is_woken_by_a_lease_that_ends(opened, clock):
    """A poll is woken at the end of a lease without any other call."""
    host, epoch = opened
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 5)))
    await elapse(clock, 5)
    await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=LEASE_MS)
    poll = _poll(host, epoch)
    await elapse(clock, LEASE_MS - 1)
    assert not poll.done()
    await elapse(clock, 1)
    assert rows(poll.result()) == [(1, 0)]


async def test_poll_is_woken_by_a_segment_that_was_loaded(opened, clock, storage):
    """A poll waits without spinning while a due position is loading, and the load's end wakes it (row 16)."""
    host, epoch = opened
    host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=10_000))
    host.add(epoch, bucketful(clock.now_ms(), 2, delay_ms=90_000))
    await settle()
    storage.before["get_bucket_snapshot_segments"] = gate = Gate()
    poll = _poll(host, epoch)
    await elapse(clock, 20_000)
    assert gate.held_count
    assert host.next_delivery_ms() <= clock.now_ms()
    assert not poll.done()
    gate.open()
    await settle()
    assert rows(poll.result()) == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)]


@pytest.mark.parametrize("waits", [True, False], ids=["while it waits", "before it came"])
async def test_poll_does_not_wait_on_when_a_snapshot_is_lost(opened, clock, storage, waits):
    """Lost positions may be due, so one poll returns at once that a replay is required, and later ones wait."""
    host, epoch = opened
    host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=10_000))
    host.add(epoch, indexes(clock.now_ms(), (2, 0, 1_000_000)))
    await settle()
    for snapshot in await storage.inner.list_bucket_snapshots(*KEY):
        await storage.inner.delete_bucket_snapshot(snapshot.bucket_id)
    waiting = [_poll(host, epoch), _poll(host, epoch)] if waits else []
    await elapse(clock, 10_000)
    assert host.replay_required
    told, later = waiting or (_poll(host, epoch), _poll(host, epoch))
    await settle()
    assert (told.done(), later.done()) == (True, False)
    assert rows(told.result()) == []
    assert host.add(epoch, indexes(clock.now_ms(), (1, 0, -1))).due.tolist() == [0]
    await elapse(clock, 1_000)
    assert not later.done()
    later.cancel()


async def test_poll_answers_nothing_when_its_wait_is_over(opened, clock):
    """The wait ends at its time with an empty answer, and leaves nothing behind."""
    host, epoch = opened
    poll = _poll(host, epoch, wait_ms=500)
    await elapse(clock, 499)
    assert not poll.done()
    await elapse(clock, 1)
    assert rows(poll.result()) == []
    assert clock.next_timer_in_ms() is None


async def test_waiting_polls_are_served_in_their_order(opened, clock, registry):
    """The poll that came first is served first, and a new poll does not overtake it."""
    host, epoch = opened
    polls = [_poll(host, epoch, max_count=1) for _ in range(3)]
    await settle()
    assert registry.waiting_poll_count == 3
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 10), (1, 1, 11), (1, 2, 11)))
    await elapse(clock, 10)
    newcomer = _poll(host, epoch, max_count=1, wait_ms=0)
    await elapse(clock, 1)
    assert [rows(poll.result()) for poll in polls] == [[(1, 0)], [(1, 1)], [(1, 2)]]
    assert rows(newcomer.result()) == []
    assert registry.waiting_poll_count == 0


async def test_nobody_overtakes_a_poll_that_has_been_called(opened, clock):
    """A new poll does not overtake a poll that was woken but has not run yet."""
    host, epoch = opened
    first = _poll(host, epoch, max_count=1)
    await settle()
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 10)))
    clock.advance(10)  # the first is woken now, and has not run yet
    assert rows(await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=LEASE_MS)) == []
    await settle()
    assert rows(first.result()) == [(1, 0)]


async def test_what_one_poll_leaves_the_next_one_takes(opened, clock):
    """One wake-up serves all polls for which there are due positions."""
    host, epoch = opened
    polls = [_poll(host, epoch, max_count=2) for _ in range(3)]
    await settle()
    host.add(epoch, indexes(clock.now_ms(), *((1, entry, 10) for entry in range(4))))
    await elapse(clock, 10)
    assert [rows(poll.result()) for poll in polls[:2]] == [[(1, 0), (1, 1)], [(1, 2), (1, 3)]]
    assert not polls[2].done()
    polls[2].cancel()


async def test_a_poll_cancelled_after_its_call_takes_nothing_and_calls_the_next(opened, clock):
    """If a woken poll is cancelled before it runs, its position goes to the next poll."""
    host, epoch = opened
    first, second = _poll(host, epoch, lease_ms=0), _poll(host, epoch, lease_ms=0)
    await settle()
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 10)))
    clock.advance(10)  # the first is woken now, and has not run yet
    first.cancel()
    await settle()
    assert first.cancelled()
    assert rows(second.result()) == [(1, 0)]


async def test_an_abandoned_poll_takes_nothing(opened, clock):
    """A poll whose caller is gone takes no position, with a lease or without."""
    host, epoch = opened
    gone = [False]
    poll = _poll(host, epoch, lease_ms=0, abandoned=lambda: gone[0])
    await settle()
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 10)))
    gone[0] = True
    await elapse(clock, 10)
    with pytest.raises(PollEnded):
        poll.result()
    assert host.contains(PositionColumns.of([(1, 0)])).all()


@pytest.mark.parametrize(
    ("end", "error", "reason"),
    [
        (lambda registry, epoch: clear_tracker(registry, KEY, epoch), PollEnded, "CLEARED"),
        (lambda registry, epoch: registry.close_tracker(KEY, epoch), PollEnded, "CLOSED"),
        (lambda registry, _: registry.open(KEY, owner="other", mark_delete=None), PollEnded, "FENCED"),
        (lambda registry, _: registry.drain(0), ShuttingDown, "SHUTTING_DOWN"),
    ],
)
async def test_what_ends_waiting_polls(opened, registry, end, error, reason):
    """Clear, close, a new owner and the end of the service end every wait, with the reason."""
    host, epoch = opened
    polls = [_poll(host, epoch) for _ in range(2)]
    await settle()
    await end(registry, epoch)
    await settle()
    for poll in polls:
        with pytest.raises(error) as raised:
            poll.result()
        assert raised.value.reason == reason
    assert registry.waiting_poll_count == 0


async def test_a_poll_called_and_fenced_at_once_is_told_so(opened, clock, registry):
    """If the tracker gets a new owner before a woken poll runs, the poll ends with ABORTED and takes nothing."""
    host, epoch = opened
    poll = _poll(host, epoch)
    await settle()
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 10)))
    clock.advance(10)
    host._gate.polls.end_all(lambda: PollEnded(KEY, "FENCED"))
    await settle()
    with pytest.raises(PollEnded):
        poll.result()
    assert host.stats().leased_count == 0


async def test_polls_beyond_the_limit_are_refused(storage, clock):
    """The limit counts polls of the whole service, and an ended poll makes room."""
    registry = make_registry(storage, clock, service_limits=ServiceLimits(waiting_polls_max=1, retry_after_ms=77))
    await registry.start()
    opened = await registry.open(KEY, owner="tests", mark_delete=None)
    host = registry.host(KEY)
    first = _poll(host, opened.epoch, wait_ms=10)
    await settle()
    with pytest.raises(Overloaded) as refused:
        await host.poll(opened.epoch, max_count=1, wait_ms=10, lease_ms=LEASE_MS)
    assert refused.value.retry_after_ms == 77
    assert rows(await host.poll(opened.epoch, max_count=1, wait_ms=0, lease_ms=LEASE_MS)) == []
    await elapse(clock, 10)
    assert first.done()
    again = _poll(host, opened.epoch, wait_ms=10)
    await settle()
    again.cancel()
    await registry.close()


async def test_leases_beyond_the_limit_are_refused_until_some_end(storage, clock):
    """A poll gets as many positions as the limit allows, then LEASES_EXHAUSTED until an ack, unlike a hand-off."""
    registry = make_registry(storage, clock, service_limits=ServiceLimits(leased_positions_max=3))
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    host = registry.host(KEY)
    host.add(epoch, indexes(clock.now_ms(), *((1, entry, 1) for entry in range(6))))
    await elapse(clock, 1)
    delivery = await host.poll(epoch, max_count=10, wait_ms=0, lease_ms=LEASE_MS)
    assert len(rows(delivery)) == 3
    with pytest.raises(LeasesExhausted):
        await host.poll(epoch, max_count=10, wait_ms=1_000, lease_ms=LEASE_MS)
    assert len(rows(await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=0))) == 1
    host.ack(epoch, delivery.lease_id, PositionColumns.of([(1, 0)]))
    assert len(rows(await host.poll(epoch, max_count=10, wait_ms=0, lease_ms=LEASE_MS))) == 1
    await elapse(clock, LEASE_MS)
    assert len(rows(await host.poll(epoch, max_count=10, wait_ms=0, lease_ms=LEASE_MS))) == 3
    await registry.close()


async def test_polls_carry_the_epoch(opened, registry):
    """A poll with an older epoch is refused at once."""
    host, epoch = opened
    await registry.open(KEY, owner="other", mark_delete=None)
    with pytest.raises(Fenced, match="'other'"):
        await host.poll(epoch, max_count=1, wait_ms=10, lease_ms=LEASE_MS)


async def test_a_clock_that_steps_back_breaks_nothing(opened, clock):
    """After a step back no message is early by the wall clock, and none is lost."""
    host, epoch = opened
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 1_000), (1, 1, 3_000)))
    await elapse(clock, 1_000)
    assert rows(await host.poll(epoch, max_count=10, wait_ms=0, lease_ms=0)) == [(1, 0)]
    before = host.now_ms()
    clock.step_wall(-1_500)
    assert host.now_ms() == before - 1_500
    assert host.add(epoch, indexes(clock.now_ms(), (2, 0, 4_000))).due.tolist() == []
    poll = _poll(host, epoch)
    await elapse(clock, 3_499)
    assert not poll.done()
    await elapse(clock, 1)
    assert rows(poll.result()) == [(1, 1)]


async def test_a_clock_that_steps_back_prolongs_no_lease(opened, clock):
    """A lease ends after the requested duration, in spite of a step back."""
    host, epoch = opened
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 1_000)))
    await elapse(clock, 1_000)
    lost = await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=2_000)
    clock.step_wall(-600_000)
    host.add(epoch, indexes(clock.now_ms(), (2, 0, 1_000_000)))
    await elapse(clock, 1_999)
    assert host.stats().leased_count == 1
    await elapse(clock, 1)
    assert host.stats().leased_count == 0
    assert rows(await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=0)) == [], "not early by the clock as it is now"
    await elapse(clock, 598_000)
    assert rows(await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=0)) == rows(lost) == [(1, 0)]


async def test_an_idle_tracker_arms_no_timer_for_what_nobody_polls():
    """Due positions without a poll cause no wake-ups."""
    clock, storage = ManualClock(), ControlledStorage()
    registry = make_registry(storage, clock, limits=TINY)
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    registry.host(KEY).add(epoch, indexes(clock.now_ms(), (1, 0, 10)))
    assert clock.next_timer_in_ms() is None
    await elapse(clock, 100)
    assert clock.next_timer_in_ms() is None
    await registry.close()
