"""Second scene: the service is killed with -9 while messages are added, restarts, and the messages are added again."""

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import monotonic

import numpy as np

from delayed_tracker.cli.demo.cursor import EndReason
from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.cli.demo.stage import SUBSCRIPTION, TOPIC, Stage
from delayed_tracker.cli.terminal.output import duration
from delayed_tracker.cli.tracker.offering import offer
from delayed_tracker.client import AddResult, BucketState, Position, TrackerSession, Unavailable
from delayed_tracker.core.values.columns import IndexColumns

ADD_PAUSE_S = 0.004
"""Seconds between single adds, so that the kill happens among them."""
_ANSWERED_BEFORE_KILL = range(20, 80)


@dataclass(frozen=True, slots=True)
class Crash:
    """State at the time when the service was killed."""

    answered_count: int
    """Single adds that were answered."""
    unknown_count: int
    """Adds in flight or not begun."""
    stored_bucket_ids: frozenset[int]
    """Snapshots that were committed."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Measurements of the restart, and results of adding the messages again."""

    answered_before_kill: int
    unknown_at_kill: int
    process_ready_ms: int
    """Milliseconds from the start of the new process until it accepted calls."""
    first_answer_ms: int
    """Milliseconds from the start of the new process until the tracker was recovered and had answered a call."""
    recovered_count: int
    """Positions found in the snapshots."""
    offered_again_count: int
    due_count: int
    still_tracked_count: int
    """Positions answered as duplicates: the snapshots contained them."""
    added_again_count: int
    """Positions that were only in memory before the kill."""


async def add_and_kill(stage: Stage, session: TrackerSession, service: ServiceProcess, indexes: IndexColumns) -> Crash:
    """Add messages one by one and kill the service at a random time among them."""
    stored = frozenset(
        bucket.bucket_id
        for bucket in await session.buckets()
        if bucket.state is BucketState.SEALED and bucket.bucket_id is not None
    )
    kill_after = random.choice(_ANSWERED_BEFORE_KILL)  # noqa: S311 -- any time is good
    answered: dict[Position, AddResult] = {}
    enough = asyncio.Event()

    async def add(deliver_at_ms: int, ledger_id: int, entry_id: int) -> None:
        position = Position(ledger_id, entry_id)
        try:
            answered[position] = await session.add(deliver_at_ms, ledger_id, entry_id)
        except Unavailable:
            # Killed before the answer: it may be tracked or not. It is added again after the restart.
            return
        if len(answered) >= kill_after:
            enough.set()

    async def add_all() -> None:
        async with asyncio.TaskGroup() as adds:
            for row in indexes:
                adds.create_task(add(*row))
                await asyncio.sleep(ADD_PAUSE_S)

    adding = asyncio.create_task(add_all())
    reached = asyncio.create_task(enough.wait())
    await asyncio.wait({adding, reached}, return_when=asyncio.FIRST_COMPLETED)
    in_flight = not adding.done()
    if not reached.done():
        reached.cancel()
        await adding
    await service.kill()
    known = dict(answered)
    adding.cancel()
    await asyncio.wait({adding})
    for position, result in known.items():
        if result is AddResult.DUE:
            stage.cursor.finish(position, EndReason.DUE_ON_OFFER)
    stage.say(f"[bold]kill -9[/] after {len(known)} of {len(indexes)} single adds had been answered")
    stage.checks.claim("the service was killed while adds were running", in_flight and len(known) < len(indexes))
    return Crash(len(known), len(indexes) - len(known), stored)


async def restart_and_recover(
    stage: Stage, crash: Crash, stack: AsyncExitStack
) -> tuple[ServiceProcess, TrackerSession, Recovery]:
    """Start the service on the same data, open the tracker, and add the messages that the cursor has not finished.

    ``stack`` closes the service and the connection.
    """
    started_s = monotonic()
    service = await stage.start_service()
    stack.push_async_callback(service.ensure_stopped)
    ready_s = monotonic()
    client = await stack.enter_async_context(stage.connect(service))
    session = await stack.enter_async_context(await client.open_tracker(TOPIC, SUBSCRIPTION, owner="demo"))
    positions = stage.cursor.positions()
    await session.contains([row.ledger_id for row in positions], [row.entry_id for row in positions])
    answered_s = monotonic()
    stage.say(
        f"restarted: process ready after {duration((ready_s - started_s) * 1_000)}, "
        f"first answer after {duration((answered_s - started_s) * 1_000)}, "
        f"{session.opened.recovered_count} positions recovered from {session.opened.bucket_count} snapshots"
    )
    found = {bucket.bucket_id for bucket in await session.buckets() if bucket.state is BucketState.SEALED}
    stage.checks.claim(
        "every snapshot committed before the kill is there",
        bool(crash.stored_bucket_ids) and crash.stored_bucket_ids <= found,
        seen=len(crash.stored_bucket_ids),
    )
    stats = await session.stats()
    stage.checks.equal("snapshots missing or corrupt", stats.snapshots_missing_count + stats.snapshots_corrupt_count, 0)

    again = stage.cursor.unfinished()
    outcome = await offer(session, again)
    stage.cursor.finish_due(again, outcome.due)
    stage.say(
        f"offered again {outcome.offered_count} messages that the cursor had not acknowledged: "
        f"{len(outcome.duplicate)} still tracked, {outcome.added_count} added anew, {len(outcome.due)} due and sent"
    )
    stage.checks.claim("every message offered again is tracked or due", outcome.balanced)
    left = stage.cursor.unfinished()
    tracked = await session.contains(left.ledger_id, left.entry_id)
    stage.checks.equal("lost in the crash", int(np.count_nonzero(~np.array(tracked, np.bool_))), 0)
    recovery = Recovery(
        answered_before_kill=crash.answered_count,
        unknown_at_kill=crash.unknown_count,
        process_ready_ms=round((ready_s - started_s) * 1_000),
        first_answer_ms=round((answered_s - started_s) * 1_000),
        recovered_count=session.opened.recovered_count,
        offered_again_count=outcome.offered_count,
        due_count=len(outcome.due),
        still_tracked_count=len(outcome.duplicate),
        added_again_count=outcome.added_count,
    )
    return service, session, recovery
