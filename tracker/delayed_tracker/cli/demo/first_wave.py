"""First scene: messages are added, become due, are delivered; one lease expires, and its positions return."""

from delayed_tracker.cli.demo.stage import LEASE_MS, POLL_MAX, POLL_WAIT_MS, Stage
from delayed_tracker.cli.terminal.output import duration, progress
from delayed_tracker.cli.tracker.offering import offer, server_now_ms
from delayed_tracker.client import Lease, Offers, Position, TrackerSession
from delayed_tracker.core.values.columns import IndexColumns

HELD_COUNT = 20
"""Messages of the lease that is left to expire ..."""
HELD_LEASE_MS = 3_000
"""... after this time, in milliseconds."""


async def offer_first(stage: Stage, session: TrackerSession, offers: Offers, indexes: IndexColumns) -> None:
    """Add the first ledgers at once; the dispatcher delivers the messages that are already due."""
    outcome = await offer(session, indexes, offers=offers)
    stage.cursor.finish_due(indexes, outcome.due)
    stage.say(
        f"offered {outcome.offered_count} messages: {outcome.added_count} tracked, "
        f"{len(outcome.due)} due already and sent"
    )
    stage.checks.claim("every offered message is tracked or due", outcome.balanced)


async def first_wave(stage: Stage, session: TrackerSession, wave_ms: int) -> int:
    """Deliver the first wave, except one unsettled lease; return the milliseconds until its positions returned."""
    wait_ms = wave_ms - await server_now_ms(session)
    stage.say(f"{(await session.stats()).pending_count} are pending; the first wave is due in {duration(wait_ms)}")
    held = await _hold_some(session)
    for deliver_at_ms in held.messages.deliver_at_ms:
        stage.lateness.record("first wave", held.messages.server_time_ms - deliver_at_ms)
    stage.say(f"leased {len(held)} of them for {duration(HELD_LEASE_MS)}; this dispatcher will forget about them")
    held_positions = set(held.messages)
    polls = 0
    more_is_due = True
    while more_is_due:
        async with await session.poll(POLL_MAX, lease_ms=LEASE_MS) as lease:
            stage.finish("first wave", lease.messages)
        polls += bool(lease.messages)
        next_ms = lease.messages.next_delivery_at_ms
        # A slow disk may still be loading due positions. The leased ones follow when their lease expires.
        more_is_due = bool(lease.messages) or (next_ms is not None and next_ms <= wave_ms)
    delivered = len(stage.lateness.groups["first wave"])
    stage.say(f"{delivered} were due on one millisecond; delivered and acknowledged the others in {polls} polls")
    stats = await session.stats()
    stage.checks.equal("leased while one lease is out", stats.leased_count, len(held_positions))
    return await _take_back(stage, session, held)


async def _hold_some(session: TrackerSession) -> Lease:
    held = await session.poll(HELD_COUNT, wait_ms=POLL_WAIT_MS, lease_ms=HELD_LEASE_MS)
    while not held:
        held = await session.poll(HELD_COUNT, wait_ms=POLL_WAIT_MS, lease_ms=HELD_LEASE_MS)
    return held


async def _take_back(stage: Stage, session: TrackerSession, held: Lease) -> int:
    expected = set(held.messages)
    returned: set[Position] = set()
    first_back_ms = 0
    with progress("waiting for the lease to expire", "messages") as shown:
        while len(returned) < len(expected):
            async with await session.poll(HELD_COUNT, wait_ms=2 * HELD_LEASE_MS, lease_ms=LEASE_MS) as lease:
                stage.finish("came back from the expired lease", lease.messages)
            if not lease.messages:
                break
            first_back_ms = first_back_ms or lease.messages.server_time_ms
            returned.update(lease.messages)
            shown(len(returned), len(expected))
    leased_at_ms = held.expires_at_ms - HELD_LEASE_MS
    stage.say(f"the lease expired: {len(returned)} messages came back after {duration(first_back_ms - leased_at_ms)}")
    stage.checks.claim("exactly the messages of the expired lease came back", returned == expected, seen=len(returned))
    stage.checks.claim("and not before it expired", first_back_ms >= held.expires_at_ms)
    return first_back_ms - leased_at_ms
