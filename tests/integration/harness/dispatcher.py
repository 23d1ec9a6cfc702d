"""A dispatcher under load: it offers, polls, acknowledges, records all of it, and audits the service after a kill."""

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from delayed_tracker.client import (
    AddAnswer,
    Bucket,
    BucketState,
    CallTimedOut,
    ClientSettings,
    DelayedTrackerClient,
    Position,
    TrackerSession,
    Unavailable,
)

TOPIC = "persistent://lab/load/events"
SUBSCRIPTION = "workers / 100%"

BUSY_LEASE_MS = 2_000
LEDGER_ENTRIES = 30

SETTINGS = {
    "isDelayedDeliveryDeliverAtTimeStrict": "true",
    "delayedDeliveryMinIndexCountPerBucket": "50",
    "delayedDeliveryMaxIndexesPerBucketSnapshotSegment": "10",
}

PATIENT = ClientSettings(connect_timeout_s=60.0, call_timeout_s=60.0, wait_for_ready=False)
"""Settings of a client on a machine that may stand still for seconds. A service that is gone fails the call at once."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Dispatcher:
    """One cursor over an endless topic. A message is finished when its ack was answered, or it was due on offer."""

    rng: random.Random
    soon_share: float = 2 / 3
    """Share of messages that are due within a second or so; the others are due in hours."""
    offered: dict[Position, int] = field(default_factory=dict)
    due_soon: set[Position] = field(default_factory=set)
    """Positions that were offered with a deadline within seconds."""
    finished: set[Position] = field(default_factory=set)
    ack_sent: set[Position] = field(default_factory=set)
    """Finished, or being acknowledged when the service was killed; the service may have applied it or not."""
    unanswered: list[Position] = field(default_factory=list)
    """Positions of the offer that was under way when the service was killed."""
    killed_at_ms: int = 0
    """Time at which the service was gone."""
    early: list[tuple[Position, int]] = field(default_factory=list)
    strangers: list[Position] = field(default_factory=list)
    sealed_seen: dict[int, Bucket] = field(default_factory=dict)
    delivered_count: int = 0
    next_ledger_id: int = 1
    keep_ledgers: int | None = None
    """Number of ledgers that a retention policy keeps: the cursor moves past older ones. None keeps all."""
    mark_delete: Position | None = None
    """Mark-delete position that the last trim sent, answered or not."""
    claims: bool = False
    """True if each offer claims that everything up to its last message was offered."""
    merges_seen: int = 0
    orphans_swept: int = 0

    @property
    def unfinished(self) -> list[Position]:
        return sorted(self.offered.keys() - self.finished)

    def new_ledger(self) -> list[Position]:
        """Return the messages of the next ledger."""
        ledger_id = self.next_ledger_id
        self.next_ledger_id += 1
        positions = [Position(ledger_id, entry_id) for entry_id in range(LEDGER_ENTRIES)]
        for position in positions:
            soon = self.rng.random() < self.soon_share
            wait_ms = self.rng.randrange(0, 1_200) if soon else self.rng.randrange(3_600_000, 36_000_000)
            self.offered[position] = now_ms() + wait_ms
            if soon:
                self.due_soon.add(position)
        return positions

    async def offer(self, session: TrackerSession, positions: list[Position]) -> AddAnswer:
        self.unanswered = positions
        answer = await session.add_columns(
            [self.offered[position] for position in positions],
            [position.ledger_id for position in positions],
            [position.entry_id for position in positions],
            offered_through=positions[-1] if self.claims else None,
        )
        self.unanswered = []
        self.finished.update(positions[offset] for offset in answer.due_offsets)
        return answer

    async def work(self, session: TrackerSession) -> None:
        """Offer, poll, acknowledge and list the buckets until the service is gone or this is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self._keep_offering, self._keep_delivering, self._keep_watching, self._keep_trimming):
                tasks.create_task(_until_gone(part(session)))

    async def deliver_once(self, session: TrackerSession, *, wait_ms: int) -> int:
        lease = await session.poll(1_000, wait_ms=wait_ms, lease_ms=BUSY_LEASE_MS)
        messages = lease.messages
        for deliver_at_ms, position in zip(messages.deliver_at_ms, messages, strict=True):
            self.delivered_count += 1
            if position not in self.offered:
                self.strangers.append(position)
            if messages.server_time_ms < deliver_at_ms:
                self.early.append((position, messages.server_time_ms - deliver_at_ms))
        returned = [position for position in messages if self.rng.random() < 0.05]
        if returned:
            await lease.nack(returned)
        acked = lease.unsettled
        self.ack_sent.update(acked)
        await lease.ack()
        self.finished.update(acked)
        return len(messages)

    async def _keep_offering(self, session: TrackerSession) -> None:
        while True:
            await self.offer(session, self.new_ledger())
            await asyncio.sleep(self.rng.random() / 25)

    async def _keep_delivering(self, session: TrackerSession) -> None:
        while True:
            await self.deliver_once(session, wait_ms=100)

    async def _keep_watching(self, session: TrackerSession) -> None:
        while True:
            for bucket in await session.buckets():
                if bucket.state is BucketState.SEALED and bucket.bucket_id is not None:
                    self.sealed_seen[bucket.bucket_id] = bucket
            await asyncio.sleep(0.01)

    async def _keep_trimming(self, session: TrackerSession) -> None:
        while self.keep_ledgers is not None:
            await asyncio.sleep(0.1)
            expired = self.next_ledger_id - self.keep_ledgers
            if expired > 0:
                self.mark_delete = Position(expired, LEDGER_ENTRIES - 1)
                self.finished.update(position for position in self.offered if position <= self.mark_delete)
                await session.advance_mark_delete(*self.mark_delete)
            stats = await session.stats()
            self.merges_seen = max(self.merges_seen, stats.merge_count)
            self.orphans_swept = max(self.orphans_swept, stats.orphans_swept_count)

    @property
    def maybe_answered_due(self) -> set[Position]:
        """Positions that the service may have answered as due in an answer that the kill lost."""
        return {position for position in self.unanswered if self.offered[position] <= self.killed_at_ms}

    def snapshots_that_must_be_there(self) -> Iterator[int]:
        """Yield the buckets that were seen committed and contain a message for which no ack was sent."""
        kept = {position.ledger_id for position in self.offered.keys() - self.ack_sent - self.finished}
        for bucket_id, bucket in self.sealed_seen.items():
            if any(ledger_id in kept for ledger_id in range(bucket.first.ledger_id, bucket.last.ledger_id + 1)):
                yield bucket_id

    async def lost(self, session: TrackerSession) -> list[Position]:
        """Return the messages that are neither finished nor tracked."""
        left = self.unfinished
        tracked = await session.contains([row.ledger_id for row in left], [row.entry_id for row in left])
        return [position for position, there in zip(left, tracked, strict=True) if not there]


async def _until_gone(part) -> None:
    try:
        await part
    except CallTimedOut:
        # The service is there: without this part the rest of the load would go on, and the test would prove less.
        raise
    except Unavailable:
        # Killed during the call; any other error fails the test.
        return


def connect(address: str):
    return DelayedTrackerClient.connect(address, settings=PATIENT)
