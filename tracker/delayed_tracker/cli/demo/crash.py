"""Second scene: the service is killed with -9 while messages are added, restarts, and nothing is offered again."""

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
from delayed_tracker.client import AddResult, BucketState, Offers, Position, TrackerSession, Unavailable
from delayed_tracker.core.values.columns import IndexColumns

ADD_PAUSE_S = 0.004
"""Seconds between single adds, so that the kill happens among them."""
_ANSWERED_BEFORE_KILL = range(20, 80)


@dataclass(frozen=True, slots=True)
class Crash:
    """State at the time when the service was killed."""

    answered_count: int
    """Single adds that were answered."""
    unanswered: IndexColumns
    """Adds in flight or not begun, in position order."""
    stored_bucket_ids: frozenset[int]
    """Snapshots that were committed."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Measurements of the restart, and results of the offers after it."""

    answered_before_kill: int
    unknown_at_kill: int
    process_ready_ms: int
    """Milliseconds from the start of the new process until it accepted calls."""
    first_answer_ms: int
    """Milliseconds from the start of the new process until the tracker was recovered and had answered a call."""
    recovered_count: int
    """Positions found in the snapshots and the add log."""
    answered_lost_count: int
    """Positions answered before the kill that were not tracked after it, before anything was offered: must be 0."""
    answered_above_claim_count: int
    """Positions answered before the kill that a dispatcher would offer again if it had been killed, too."""
    offered_count: int
    """Positions offered after the restart; no offer of them was answered before."""
    due_count: int
    tracked_unanswered_count: int
    """Positions answered as duplicates: only the answer was lost in the crash."""
    added_count: int


async def committed(session: TrackerSession) -> frozenset[int]:
    """Return the ids of the snapshots that are committed."""
    return frozenset(
        bucket.bucket_id
        for bucket in await session.buckets()
        if bucket.state is BucketState.SEALED and bucket.bucket_id is not None
    )


async def add_and_kill(
    stage: Stage, offers: Offers, service: ServiceProcess, stored: frozenset[int], indexes: IndexColumns
) -> Crash:
    """Add messages one by one and kill the service at a random time among them; ``stored`` are its snapshots."""
    kill_after = random.choice(_ANSWERED_BEFORE_KILL)  # noqa: S311 -- any time is good
    answered: dict[Position, AddResult] = {}
    enough = asyncio.Event()

    async def add(deliver_at_ms: int, ledger_id: int, entry_id: int) -> None:
        position = Position(ledger_id, entry_id)
        try:
            answer = await offers.offer(position, [deliver_at_ms], [ledger_id], [entry_id])
        except Unavailable:
            # Killed before the answer: it may be tracked or not. It is offered after the restart.
            return
        (answered[position],) = answer.results(1)
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
    unanswered = [Position(ledger_id, entry_id) not in known for _, ledger_id, entry_id in indexes]
    return Crash(len(known), indexes.take(np.array(unanswered, np.bool_)), stored)


async def restart_and_recover(
    stage: Stage, crash: Crash, stack: AsyncExitStack
) -> tuple[ServiceProcess, TrackerSession, Recovery]:
    """Start the service on the same data, open the tracker, look for what was answered, and offer only the rest.

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
        f"{session.opened.recovered_count} positions recovered from {session.opened.bucket_count} snapshots and the add log"
    )
    found = await committed(session)
    stage.checks.claim(
        "every snapshot committed before the kill is there",
        bool(crash.stored_bucket_ids) and crash.stored_bucket_ids <= found,
        seen=len(crash.stored_bucket_ids),
    )
    stats = await session.stats()
    stage.checks.equal("snapshots missing or corrupt", stats.snapshots_missing_count + stats.snapshots_corrupt_count, 0)

    rest = crash.unanswered
    first = Position(int(rest.ledger_id[0]), int(rest.entry_id[0]))
    lost_count = await _answered_lost(stage, session, rest)
    stage.checks.equal("answered before the kill and lost, with nothing offered again", lost_count, 0)
    begin = session.opened.replay_from or Position(0, 0)
    stage.checks.claim(
        "the service tells to go on no later than at the first unanswered add", begin <= first, seen=begin
    )
    covered = sum(position < begin for position in stage.cursor.positions())
    answered_count = len(stage.cursor.indexes) - len(rest)
    stage.say(
        f"nothing has to be offered again; replay_from {begin} is behind {covered} of {answered_count} answered adds"
    )
    outcome = await offer(session, rest, offers=session.offers())
    stage.cursor.finish_due(rest, outcome.due)
    stage.say(
        f"offered the {outcome.offered_count} messages that had no answer: {len(outcome.duplicate)} tracked already, "
        f"{outcome.added_count} added, {len(outcome.due)} due and sent"
    )
    stage.checks.claim("every message offered after the restart is tracked or due", outcome.balanced)
    left = stage.cursor.unfinished()
    tracked = await session.contains(left.ledger_id, left.entry_id)
    stage.checks.equal("lost in the crash", int(np.count_nonzero(~np.array(tracked, np.bool_))), 0)
    recovery = Recovery(
        answered_before_kill=crash.answered_count,
        unknown_at_kill=len(rest),
        process_ready_ms=round((ready_s - started_s) * 1_000),
        first_answer_ms=round((answered_s - started_s) * 1_000),
        recovered_count=session.opened.recovered_count,
        answered_lost_count=lost_count,
        answered_above_claim_count=answered_count - covered,
        offered_count=outcome.offered_count,
        due_count=len(outcome.due),
        tracked_unanswered_count=len(outcome.duplicate),
        added_count=outcome.added_count,
    )
    return service, session, recovery


async def _answered_lost(stage: Stage, session: TrackerSession, unanswered: IndexColumns) -> int:
    """Return how many unfinished messages are not tracked, except those whose add was not answered."""
    open_rows = stage.cursor.unfinished()
    without_answer = {(ledger_id, entry_id) for _, ledger_id, entry_id in unanswered}
    tracked = await session.contains(open_rows.ledger_id, open_rows.entry_id)
    rows = zip(open_rows, tracked, strict=True)
    return sum(not there and tuple(position) not in without_answer for (_, *position), there in rows)
