"""State that the scenes of the delivery part share: the dispatcher's cursor, the clock, and the delivery loop."""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from rich.console import Console

from delayed_tracker.cli.demo.buckets_part import PULSAR_SETTINGS
from delayed_tracker.cli.demo.checks import Checks
from delayed_tracker.cli.demo.cursor import Cursor, EndReason
from delayed_tracker.cli.demo.lateness import Lateness
from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.cli.terminal.output import progress
from delayed_tracker.cli.tracker.offering import server_now_ms
from delayed_tracker.client import ClientSettings, DelayedTrackerClient, DueMessages, TrackerSession
from delayed_tracker.core.values.columns import IndexColumns

TOPIC = "persistent://lab/main/delayed-all"
SUBSCRIPTION = "demo"

LEASE_MS = 20_000
POLL_MAX = 50
POLL_WAIT_MS = 1_000
AGAIN = "again, after the crash"
"""Group of messages that were delivered and acknowledged before the crash; the add log did not contain the acks yet."""
PATIENCE_MS = 20_000
"""Milliseconds after its deadline at which an undelivered message counts as a failure."""

_SETTINGS = {**PULSAR_SETTINGS, "isDelayedDeliveryDeliverAtTimeStrict": "true"}


@dataclass(slots=True)
class Stage:
    """One play of the scenes: one service process at a time, and a dispatcher that outlives it."""

    work_directory: Path
    storage_url: str
    console: Console
    checks: Checks
    cursor: Cursor = field(default_factory=lambda: Cursor(IndexColumns.empty()))
    lateness: Lateness = field(default_factory=Lateness)
    delivered_again_count: int = 0
    """Messages that polls returned although the dispatcher had finished them before the crash."""
    _began_s: float = field(default_factory=monotonic)

    def say(self, event: str) -> None:
        """Print an event with the seconds since the play began."""
        self.console.print(f"  [dim]{monotonic() - self._began_s:6.1f} s[/]  {event}", highlight=False)

    async def start_service(self) -> ServiceProcess:
        """Start a service on the play's data, with strict delivery."""
        return await ServiceProcess.start(self.work_directory, storage_url=self.storage_url, settings=_SETTINGS)

    def connect(self, service: ServiceProcess) -> contextlib.AbstractAsyncContextManager[DelayedTrackerClient]:
        """Connect a dispatcher with small batches and fast errors, so that a crash finds many adds in flight."""
        settings = ClientSettings(flush_count=5, wait_for_ready=False)
        return DelayedTrackerClient.connect(service.grpc_address, settings=settings)

    def finish(self, group: str, messages: DueMessages) -> None:
        """Record that messages were delivered: their lateness, and their end."""
        for deliver_at_ms, position in zip(messages.deliver_at_ms, messages, strict=True):
            first_time = self.cursor.finish(position, EndReason.ACKED)
            self.delivered_again_count += not first_time
            self.lateness.record(group if first_time else AGAIN, messages.server_time_ms - deliver_at_ms)

    async def deliver_until(self, session: TrackerSession, deliver_at_ms: int, group: str) -> int:
        """Poll, lease and acknowledge until every message up to a deadline has ended, or ``PATIENCE_MS`` has passed.

        Returns: number of answers with messages.
        """
        answers = 0
        began_ms = await server_now_ms(session)
        total_s = max(0, deliver_at_ms - began_ms) // 1_000
        with progress(f"waiting for the {group}", "seconds") as shown:
            while self.cursor.unfinished_until(deliver_at_ms):
                async with await session.poll(POLL_MAX, wait_ms=POLL_WAIT_MS, lease_ms=LEASE_MS) as lease:
                    self.finish(group, lease.messages)
                    answers += bool(lease)
                now_ms = lease.messages.server_time_ms
                shown(min((now_ms - began_ms) // 1_000, total_s), total_s)
                if not lease.messages and now_ms > deliver_at_ms + PATIENCE_MS:
                    break
        return answers
