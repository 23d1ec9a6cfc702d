"""Last part of the demo: messages become due, are delivered, survive a kill -9, and are counted one by one.

The deadlines are shifted to shortly before the busiest minute of the topic, whose producer used whole minutes: 112
messages are due at one millisecond and 118 a minute later. Delivery is strict here, so that "never early" means the
deadline itself. Between the two waves, the service is killed while messages are added.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from delayed_tracker.cli.demo.checks import Checks
from delayed_tracker.cli.demo.crash import Recovery, add_and_kill, committed, restart_and_recover
from delayed_tracker.cli.demo.cursor import Cursor, EndReason
from delayed_tracker.cli.demo.first_wave import first_wave, offer_first
from delayed_tracker.cli.demo.lateness import LatenessSummary
from delayed_tracker.cli.demo.sample import Sample
from delayed_tracker.cli.demo.stage import SUBSCRIPTION, TOPIC, Stage
from delayed_tracker.cli.terminal.output import duration, instant, table
from delayed_tracker.cli.tracker.offering import server_now_ms, shifted
from delayed_tracker.cli.tracker.replay import read_pending
from delayed_tracker.client import TrackerSession

SOURCE_SUBSCRIPTION = "workers"
FIRST_WAVE_MS = 1_795_256_640_000
"""2026-11-21T10:24:00Z: first of the two minutes of the producer."""
SECOND_WAVE_MS = FIRST_WAVE_MS + 60_000
HEAD_START_MS = 6_000
"""Milliseconds from now to the first wave, after the shift."""
_FIRST_LEDGERS = 3
"""Ledgers that are added at once; the rest is being added when the service is killed."""


@dataclass(frozen=True, slots=True)
class MessageAccount:
    """Counts of the messages of the delivery part by their end; each is in exactly one count."""

    offered_count: int
    due_on_offer_count: int
    acked_count: int
    trimmed_count: int
    pending_count: int
    leased_count: int
    lost_count: int
    """Messages that neither ended nor are tracked: must be 0."""

    @property
    def balanced(self) -> bool:
        """True if offered = due on offer + pending + leased + acked + trimmed, so that nothing is lost."""
        ended = self.due_on_offer_count + self.acked_count + self.trimmed_count
        return self.offered_count == ended + self.pending_count + self.leased_count


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """Results of the delivery part."""

    account: MessageAccount
    lateness: tuple[LatenessSummary, ...]
    early_count: int
    lease_returned_after_ms: int
    delivered_again_count: int
    """Messages returned again after the crash although acknowledged before it: must be 0, for adds of later were answered."""
    recovery: Recovery


async def show_delivery(
    sample: Sample, work_directory: Path, storage_url: str, console: Console, checks: Checks
) -> DeliveryReport:
    """Play the part and reconcile the counts.

    Raises:
        LedgerError: the sample's ledgers cannot be read.
        ServiceDidNotStart, TrackerCallError: the service failed unexpectedly.
    """
    stage = Stage(work_directory, storage_url, console, checks)
    pending = read_pending([sample.log_directory], sample.metadata, TOPIC, SOURCE_SUBSCRIPTION, ignore_acks=True)
    service = await stage.start_service()
    try:
        async with (
            stage.connect(service) as client,
            await client.open_tracker(TOPIC, SUBSCRIPTION, owner="demo") as session,
        ):
            shift_ms = await server_now_ms(session) - (FIRST_WAVE_MS - HEAD_START_MS)
            indexes = shifted(pending.indexes, shift_ms)
            stage.cursor = Cursor(indexes)
            console.print(
                f"Topic {TOPIC}, all deadlines shifted so that {instant(FIRST_WAVE_MS - HEAD_START_MS)} is now. "
                "Delivery is strict: never before the deadline.\n"
            )
            last_at_once = sorted(set(indexes.ledger_id.tolist()))[_FIRST_LEDGERS - 1]
            at_once = indexes.ledger_id <= last_at_once
            offers = session.offers()
            await offer_first(stage, session, offers, indexes.take(at_once))
            returned_after_ms = await first_wave(stage, session, FIRST_WAVE_MS + shift_ms)
            crash = await add_and_kill(stage, offers, service, await committed(session), indexes.take(~at_once))
    finally:
        await service.ensure_stopped()
    async with AsyncExitStack() as stack:
        service, session, recovery = await restart_and_recover(stage, crash, stack)
        await _second_wave(stage, session, SECOND_WAVE_MS + shift_ms)
        checks.equal("handed out again though acknowledged before the kill", stage.delivered_again_count, 0)
        account = await _reconcile(stage, session)
        report = DeliveryReport(
            account=account,
            lateness=tuple(stage.lateness.summaries()),
            early_count=stage.lateness.early_count,
            lease_returned_after_ms=returned_after_ms,
            delivered_again_count=stage.delivered_again_count,
            recovery=recovery,
        )
        checks.equal("the service stopped in order on SIGTERM, with exit status", await service.stop(), 0)
    _print(console, report)
    return report


async def _second_wave(stage: Stage, session: TrackerSession, wave_ms: int) -> None:
    wait_ms = wave_ms - await server_now_ms(session)
    count = stage.cursor.unfinished_until(wave_ms)
    stage.say(f"{count} messages are due on one millisecond, in {duration(wait_ms)}")
    polls = await stage.deliver_until(session, wave_ms, "second wave")
    stage.say(f"delivered and acknowledged in {polls} polls")
    stage.checks.equal("left undelivered of all that was due", stage.cursor.unfinished_until(wave_ms), 0)


async def _reconcile(stage: Stage, session: TrackerSession) -> MessageAccount:
    checks = stage.checks
    first_ledger = int(stage.cursor.indexes.ledger_id[0])
    last_entry = int(stage.cursor.indexes.entry_id[stage.cursor.indexes.ledger_id == first_ledger].max())
    trimmed = await session.advance_mark_delete(first_ledger, last_entry)
    passed = [row for row in stage.cursor.positions() if row.ledger_id == first_ledger]
    trimmed_here = sum(stage.cursor.finish(position, EndReason.TRIMMED) for position in passed)
    stage.say(f"mark-delete moved to {trimmed.mark_delete}: {trimmed.trimmed_count} messages acknowledged by it")
    checks.equal("trimmed by the mark-delete position", trimmed.trimmed_count, trimmed_here)

    stats = await session.stats()
    positions = stage.cursor.positions()
    tracked = await session.contains([row.ledger_id for row in positions], [row.entry_id for row in positions])
    expected = [position not in stage.cursor.end_reasons for position in positions]
    lost = sum(open_here and not there for open_here, there in zip(expected, tracked, strict=True))
    kept = sum(there and not open_here for open_here, there in zip(expected, tracked, strict=True))
    checks.equal("messages lost", lost, 0)
    checks.equal("finished messages that are still tracked", kept, 0)
    checks.equal("messages handed out early", stage.lateness.early_count, 0)
    checks.equal("positions in none of the service's own accounts", stats.unaccounted_count, 0)
    ended = stage.cursor.counts()
    account = MessageAccount(
        offered_count=len(positions),
        due_on_offer_count=ended[EndReason.DUE_ON_OFFER],
        acked_count=ended[EndReason.ACKED],
        trimmed_count=ended[EndReason.TRIMMED],
        pending_count=stats.pending_count,
        leased_count=stats.leased_count,
        lost_count=lost,
    )
    checks.claim(
        "offered = due on offer + pending + leased + acked + trimmed",
        account.balanced,
        seen=f"{account.offered_count} = {account.due_on_offer_count} + {account.pending_count} + "
        f"{account.leased_count} + {account.acked_count} + {account.trimmed_count}",
    )
    return account


def _print(console: Console, report: DeliveryReport) -> None:
    late = table(
        "Lateness, from the deadline to the service's answer",
        "messages", "count", "earliest", "median", "99 %", "latest",
        numbers=("count", "earliest", "median", "99 %", "latest"),
    )  # fmt: skip
    for row in report.lateness:
        spread = (row.earliest_ms, row.median_ms, row.p99_ms, row.latest_ms)
        late.add_row(row.group, str(row.count), *(duration(value) for value in spread))
    console.print(late)
    recovery = report.recovery
    crash = table("kill -9 and after", "what", "value", numbers=("value",))
    for name, value in (
        ("single adds answered before the kill", str(recovery.answered_before_kill)),
        ("adds not answered: on their way or not begun", str(recovery.unknown_at_kill)),
        ("new process ready after", duration(recovery.process_ready_ms)),
        ("first answer after", duration(recovery.first_answer_ms)),
        ("positions recovered from snapshots and the add log", str(recovery.recovered_count)),
        ("answered before the kill and lost", str(recovery.answered_lost_count)),
        (
            "answered, and to be offered again if the dispatcher had been killed, too",
            str(recovery.answered_above_claim_count),
        ),
        ("offered, because there was no answer", str(recovery.offered_count)),
        ("  tracked, only the answer was lost", str(recovery.tracked_unanswered_count)),
        ("  added", str(recovery.added_count)),
        ("  due and sent", str(recovery.due_count)),
        ("delivered again though acknowledged before the kill", str(report.delivered_again_count)),
    ):
        crash.add_row(name, value)
    console.print(crash)
    account = report.account
    ended = table("Every message", "offered", "due on offer", "acked", "trimmed", "pending", "leased", "lost", "early")
    counts = (account.offered_count, account.due_on_offer_count, account.acked_count, account.trimmed_count)
    left = (account.pending_count, account.leased_count, account.lost_count, report.early_count)
    ended.add_row(*map(str, (*counts, *left)))
    console.print(ended)
