"""A dispatcher with its topic's cursor, and the auditor of what it is handed out.

The auditor's rules: nothing is handed out before its deadline allows; nothing is handed out twice while it is leased;
every offered message is handed out at least once before it is acknowledged, through any failures in between.
"""

import asyncio
import random

from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position, PositionColumns
from delayed_tracker.service.errors import Fenced, LeasesExhausted, PollEnded, TrackerNotOpen
from tests.service.harness.shell import settle

LEASE_MS = 4_000


class Dispatcher:
    """The dispatcher's part of a world. The service's part sets ``clock``, ``limits``, ``host`` and ``epoch``."""

    delays_ms = (0, 30, 500, 3_000, 20_000, 60_000)

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.trace = []
        self.ledger, self.entry = 1, 0
        self.deadlines = {}  # position -> deadline of the message
        self.not_before = {}  # position -> deadline of a nack or a reschedule, while no crash can have lost it
        self.lowered = {}  # position -> deadline of a nack after the clock was set back, before that of its message
        self.acked = set()
        self.delivered = set()
        self.cleared = set()  # gone for good: the cursor was cleared as well
        self.leases = {}  # lease id -> (expires, in elapsed time; positions)
        self.handed_out = {}  # lease id -> all that it handed out, in this epoch
        self.mark_delete = BEFORE_ALL
        self.polls = []
        self.failures = []

    def note(self, *event):
        self.trace.append((self.clock.now_ms(), *event))

    def offer(self, positions):
        now = self.clock.now_ms()
        rows = [(self.deadlines[position], *position) for position in positions]
        outcome = self.host.add(self.epoch, IndexColumns.of(rows))
        due = [positions[offset] for offset in outcome.due]
        self.note("offered", len(rows), outcome.added_count, len(due))
        for position in due:
            # Refused as due: the dispatcher sends it, and the consumer acknowledges it at some later time.
            assert self.deadlines[position] <= self.limits.cutoff_ms(now), f"{position} is called due too early"
            self.delivered.add(position)
            self.acked.add(position)
        known = {*outcome.due.tolist(), *outcome.duplicate.tolist(), *outcome.below_mark_delete.tolist()}
        for offset in set(range(len(positions))) - known:
            self.not_before.pop(positions[offset], None)  # lost with a snapshot, and added anew
        for offset in outcome.below_mark_delete:
            assert positions[offset] in self.acked or positions[offset] <= self.mark_delete
        if positions and self.random.random() < 0.3:
            self.check_contains(positions)

    def check_contains(self, positions):
        answers = self.host.contains(PositionColumns.of(positions)).tolist()
        for position, tracked in zip(positions, answers, strict=True):
            assert tracked or position in self.acked or position <= self.mark_delete, (
                f"{position} was offered and is not tracked"
            )

    def publish(self):
        self.offer(self.published())

    def published(self):
        """Return the positions of new messages, ascending."""
        positions = []
        for _ in range(self.random.randrange(1, 12)):
            if self.random.random() < 0.15:
                self.ledger, self.entry = self.ledger + self.random.randrange(1, 3), 0
            position = Position(self.ledger, self.entry)
            self.entry += self.random.choice((1, 1, 1, 5))
            delay_ms = self.random.choice(self.delays_ms)
            self.deadlines[position] = self.clock.now_ms() + delay_ms + self.random.randrange(100)
            positions.append(position)
        return positions

    def offer_again(self):
        unacked = sorted(position for position in self.deadlines if position not in self.acked)
        if unacked:
            self.offer(self.random.sample(unacked, min(5, len(unacked))))

    def take(self, delivery):
        now, elapsed = self.host.now()
        taken = [Position(ledger, entry) for _, ledger, entry in delivery.indexes]
        self.note("polled", len(taken))
        for position in taken:
            # A crash may have lost the deadline of a nack, or kept it.
            own = min(self.deadlines[position], self.lowered.get(position, self.deadlines[position]))
            deadline = self.not_before.get(position, own)
            assert deadline <= self.limits.cutoff_ms(now), f"{position} was handed out before {deadline}"
            assert position not in self.cleared, f"{position} came back after a clear"
            self.check_not_consumed(position)
            for expires_ms, others in self.leases.values():
                assert elapsed >= expires_ms or position not in others, f"{position} is leased"
            self.delivered.add(position)
        if taken and delivery.lease_id:
            assert delivery.expires_at_ms == now + LEASE_MS
            self.leases[delivery.lease_id] = (elapsed + LEASE_MS, set(taken))
            self.handed_out[delivery.lease_id] = set(taken)
        elif taken:
            self.acked.update(taken)  # handed off: now the dispatcher's
        return taken

    def check_not_consumed(self, position):
        """Check that the service keeps to the mark-delete position that it knows: a crash may have taken it back."""
        known = min(self.mark_delete, self.host.mark_delete)
        assert position not in self.acked or position > known, f"{position} is below mark-delete"

    async def poll(self):
        hand_off = self.random.random() < 0.2
        wait_ms = self.random.choice((0, 0, 1_000))
        polling = self.host.poll(
            self.epoch,
            max_count=self.random.randrange(1, 20),
            wait_ms=wait_ms,
            lease_ms=0 if hand_off else LEASE_MS,
        )
        await self.begin_poll(polling)

    async def begin_poll(self, polling):
        """Start a poll, which is audited when it is answered, and cancel some right after they began."""
        task = asyncio.create_task(polling)
        task.add_done_callback(self._polled)
        self.polls.append(task)
        if self.random.random() < 0.1:
            await asyncio.sleep(0)
            task.cancel()
        await settle()

    def _polled(self, task):
        """Audit a poll at the time of its answer, before time passes; errors are kept for the next step."""
        if task.cancelled() or isinstance(task.exception(), PollEnded | TrackerNotOpen | LeasesExhausted | Fenced):
            return
        try:
            self.take(task.result())
        except AssertionError as error:
            self.failures.append(error)

    def part_of_a_lease(self):
        """Return a random lease, what is left of it, and a random part of that, ascending."""
        lease_id = self.random.choice(sorted(self.leases))
        _, positions = self.leases[lease_id]
        return lease_id, positions, sorted(position for position in positions if self.random.random() < 0.7)

    def settle_lease(self):
        if not self.leases:
            return
        lease_id, positions, chosen = self.part_of_a_lease()
        columns = PositionColumns.of(chosen)
        if self.random.random() < 0.6:
            outcome = self.host.ack(self.epoch, lease_id, columns)
            stale = {chosen[offset] for offset in outcome.stale}
            self.acked.update(set(chosen) - stale)
            self.note("acked", len(chosen), outcome.changed_count)
            positions -= set(chosen)
        else:
            later = self.host.now_ms() + self.random.randrange(5_000) if self.random.random() < 0.5 else None
            outcome = self.host.nack(self.epoch, lease_id, columns, deliver_at_ms=later)
            unchanged = {chosen[offset] for offset in (*outcome.stale, *outcome.unknown)}
            positions -= set(chosen)
            for position in set(chosen) - unchanged if later is not None else ():
                self.not_before[position] = later
                if later < self.deadlines[position]:
                    self.lowered[position] = min(later, self.lowered.get(position, later))
            self.note("nacked", len(chosen), outcome.changed_count, later)
        if not positions:
            del self.leases[lease_id]

    def reschedule(self):
        """Give some positions another deadline, not before that of their message: a crash may bring the old one back."""
        unacked = sorted(position for position in self.deadlines if position not in self.acked)
        chosen = self.random.sample(unacked, min(5, len(unacked)))
        rows = [(self.deadlines[position] + self.random.randrange(5_000), *position) for position in chosen]
        outcome = self.host.reschedule(self.epoch, IndexColumns.of(rows))
        unchanged = {chosen[offset] for offset in (*outcome.leased, *outcome.unknown)}
        for later, ledger_id, entry_id in rows:
            if (ledger_id, entry_id) not in unchanged:
                self.not_before[Position(ledger_id, entry_id)] = later
        self.note("rescheduled", len(chosen), outcome.rescheduled_count)

    def slip(self):
        """Acknowledge, with a lease of this epoch, positions that it never handed out: nothing must change."""
        if not self.handed_out:
            return
        lease_id = self.random.choice(sorted(self.handed_out))
        others = sorted(set(self.deadlines) - self.acked - self.handed_out[lease_id])
        chosen = self.random.sample(others, min(5, len(others)))
        outcome = self.host.ack(self.epoch, lease_id, PositionColumns.of(chosen))
        assert (outcome.changed_count, len(outcome.stale) + len(outcome.unknown)) == (0, len(chosen))
        self.note("slipped", len(chosen))

    def advance_mark_delete(self):
        for position in sorted(self.deadlines):
            if position not in self.acked:
                break
            self.mark_delete = max(self.mark_delete, position)
        if self.mark_delete != BEFORE_ALL:
            trimmed = self.host.advance_mark_delete(self.epoch, self.mark_delete)
            self.note("mark-delete", self.mark_delete, trimmed.trimmed_count)
