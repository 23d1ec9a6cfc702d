"""Acknowledgements with the add log and without it: what the consumption window costs."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

import numpy as np

from delayed_tracker.client import Lease, TrackerSession
from tests.benchmarks.inputs.serving import TOPIC, Served, at_a_time, served
from tests.benchmarks.inputs.shapes import Shape, batches, offered
from tests.benchmarks.measure import Reading, Run, require
from tests.benchmarks.rows import Row, Unit, per_second

ABOUT = (
    "One client with one tracker; its positions are leased 1,000 at a time before the clock starts, and then acknowledged, "
    "8 leases at a time: as a whole, and every position but the last by name, which is what a consumer of single messages "
    "comes to. Two services run side by side, one without the add log (trackerDurableAdds=false); repeats alternate "
    "between them, and a share is that of two repeats in a row. The window has its default, 50,000 positions or 200 ms: "
    "acknowledgements wait when as many are unwritten."
)
LEASE = 1_000
IN_FLIGHT = 8
_subscriptions = (f"acks {number}" for number in itertools.count())
_WAYS = {"whole": "leases of 1,000 acknowledged as a whole", "named": "999 of each 1,000 acknowledged by name"}


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure both ways of acknowledging on both services in turn."""
    settings = {"isDelayedDeliveryDeliverAtTimeStrict": "true"}
    async with (
        served(run, {**settings, "trackerDurableAdds": "true"}) as durable,
        served(run, {**settings, "trackerDurableAdds": "false"}) as volatile,
    ):
        for way, what in _WAYS.items():
            with_log: list[Reading] = []
            without: list[Reading] = []
            for counts in run.repeats(f"{what}, with the add log and without"):
                pair = [await _repeat(run, service, way) for service in (durable, volatile)]
                if counts:
                    with_log.append(pair[0])
                    without.append(pair[1])
            count = _count(run)
            yield per_second("acks", f"{what}, without the add log", without, count)
            yield per_second("acks", f"{what}, with the add log", with_log, count)
            shares = tuple(off.wall_ns / on.wall_ns for on, off in zip(with_log, without, strict=True))
            yield Row("durable acks", f"{what}, with the add log", Unit.SHARE, shares, count)


def _count(run: Run) -> int:
    return max(1, 4 * run.scale.polled // LEASE) * LEASE


async def _repeat(run: Run, service: Served, way: str) -> Reading:
    session, leases = await _leased(run, service)

    async def ack(lease: Lease) -> None:
        messages = lease.messages
        if way == "whole":
            answer = await session.ack_whole(lease.lease_id, messages.ledger_ids, messages.entry_ids)
        else:
            answer = await session.ack(lease.lease_id, messages.ledger_ids[:-1], messages.entry_ids[:-1])
        require("acks", answer.acked_count == len(messages) - (way == "named"))

    with service.stopwatch() as watch:
        await at_a_time(IN_FLIGHT, ack, leases)
    left = len(leases) if way == "named" else 0
    stats = await session.stats()
    require("acks", (stats.pending_count, stats.leased_count) == (0, left))
    await session.delete()
    return watch.reading


async def _leased(run: Run, service: Served) -> tuple[TrackerSession, list[Lease]]:
    """Add positions to a new tracker, and lease them all when they are due."""
    session = await service.client.open_tracker(TOPIC, next(_subscriptions))
    count = _count(run)
    due_ms = time.time_ns() // 1_000_000 + run.scale.poll_lead_ms
    for part in batches(offered(Shape.ONE, count, per_ledger=run.scale.bucket), 10 * LEASE):
        answer = await session.add_columns(np.full(len(part), due_ms), part.ledger_id, part.entry_id)
        require("adds", answer.added_count == len(part))
    await asyncio.sleep(max(0.0, due_ms / 1e3 - time.time()))
    leases = []
    while (left := count - sum(len(lease.messages) for lease in leases)) > 0:
        leases.append(await session.poll(min(LEASE, left), wait_ms=10_000, lease_ms=600_000))
    return session, [lease for lease in leases if len(lease.messages)]
