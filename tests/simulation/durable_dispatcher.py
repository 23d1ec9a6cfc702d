"""A dispatcher that repeats what was not answered, and the auditor of the answers it got.

The auditor knows each answered fact. An answered add comes out without being offered again, an answered cancel never
does, and a position that was acknowledged comes again only if a crash came before its record in the add log.
"""

import asyncio
from collections import Counter

from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.errors import PollEnded, Recovering
from delayed_tracker.service.trackers.gate import HostState
from delayed_tracker.storage.errors import StorageError
from tests.service.harness.shell import KEY
from tests.simulation.dispatcher import LEASE_MS
from tests.simulation.world import World

WINDOW = 4
BATCH_MAX = 8


class DurableDispatcher(World):
    """The dispatcher's part of a world with an add log, whose calls run at the same time."""

    def __init__(self, seed, kind):
        super().__init__(seed, kind)
        self.claims = self.random.random() < 0.5
        """True if the dispatcher sends claims and offers again what lies above the claim; else it never does."""
        self.answered = set()  # offered, and the answer has arrived
        self.once_answered = set()
        self.in_order = {}  # lease id -> what it handed out, in that order
        self.offer_counts = Counter()
        self.offer_number, self.last_offer = 0, {}
        self.move_count, self.last_move = 0, {}
        self.cancelled = set()
        self.calls = set()  # tasks of calls that wait for their answers
        self.sent = set()  # answered as due: if they were tracked, they are no more
        self.undone = set()  # acknowledged, and the log may not have it
        self.came_again = set()  # acknowledged positions that came again since the last crash
        self.in_doubt = set()  # their cancel has no answer: the dispatcher no longer sends them

    # -- offers ------------------------------------------------------------------------------------------------------

    def call(self, work, *args):
        task = asyncio.create_task(self._answered(work, *args))
        self.calls.add(task)
        task.add_done_callback(self.calls.discard)

    async def _answered(self, work, *args):
        try:
            await work(*args)
        except AssertionError as error:
            self.failures.append(error)
        except DelayedTrackerError as error:
            self.note("refused", error.reason)

    def offer(self, positions):
        self.call(self._offer, list(positions))

    async def _offer(self, positions):
        await self._offer_to(self.registry, self.epoch, positions)

    async def _offer_to(self, registry, epoch, positions):
        host = await registry.loaded_host(KEY)
        claim = self.claim() if self.claims else None
        self.offer_number += 1
        number = self.offer_number
        self.last_offer.update(dict.fromkeys(positions, number))
        self.answered.difference_update(positions)
        self.sent.difference_update(positions)
        self.offer_counts.update(positions)
        rows = [(self.deadlines[position], *position) for position in positions]
        cutoff_ms = self.limits.cutoff_ms(self.clock.now_ms())
        outcome = host.add(epoch, IndexColumns.of(rows), offered_through=claim)
        await host.until_durable()
        due = [positions[offset] for offset in outcome.due]
        self.note("offered", len(rows), outcome.added_count, len(due))
        for position in due:
            assert self.deadlines[position] <= cutoff_ms, f"{position} is called due too early"
            self.delivered.add(position)
            self.acked.add(position)
            if registry is not self.registry:
                # Who has lost the tracker may call due what it does not track. The new owner may, and hands it out.
                self.undone.add(position)
            elif self.last_offer[position] == number:
                self.sent.add(position)
        # A later offer of the same position may have another outcome, and its answer is still to come.
        self.answered.update(position for position in positions if self.last_offer[position] == number)
        self.once_answered.update(positions)

    def publish(self):
        positions = self.published()
        # The rest comes late, with what is offered again: positions below those of buckets that are sealed by then.
        if self.random.random() < 0.8:
            self.offer(positions)

    def claim(self):
        """Return the last position of the contiguous prefix of answered offers."""
        claimed = None
        for position in sorted(self.deadlines):
            if position not in self.answered and position not in self.acked:
                break
            claimed = position
        return claimed

    def offer_again(self):
        self.offer_in_batches(
            sorted(position for position in self.deadlines if position not in self.answered | self.acked)[:14]
        )

    def offer_in_batches(self, positions):
        for start in range(0, len(positions), 7):
            self.offer(positions[start : start + 7])

    # -- deliveries --------------------------------------------------------------------------------------------------

    async def loaded(self):
        """Bring the tracker back into memory if it was idle."""
        return await self.registry.loaded_host(KEY)

    def check_contains(self, positions):
        if self.host.state is not HostState.READY:
            return
        super().check_contains([position for position in positions if position in self.answered])

    def take(self, delivery):
        taken = super().take(delivery)
        self.sent.difference_update(taken)  # a crash has undone that: it is on record again when it is settled
        assert len(self.came_again) <= WINDOW + BATCH_MAX, f"{len(self.came_again)} positions came again"
        self.came_again_max = max(self.came_again_max, len(self.came_again))
        if taken and delivery.lease_id:
            self.in_order[delivery.lease_id] = taken
        return taken

    def check_not_consumed(self, position):
        """Count what comes again: its acknowledgement was not on record when a process ended."""
        assert position not in self.cancelled, f"{position} was cancelled"
        # An offer that is repeated may come after the hand-out of the first.
        if position in self.acked and position not in self.in_doubt and self.offer_counts[position] == 1:
            assert position in self.undone, f"{position} was acknowledged, and no crash has undone that"
            self.came_again.add(position)

    def not_on_record(self):
        """Return what was acknowledged, and the add log does not have it yet. The dispatcher's own doubts do not count."""
        missing = self.acked - self.log.inner.consumed - self.undone - self.cleared - self.in_doubt - self.sent
        missing = {position for position in missing if self.offer_counts[position] == 1}
        return missing | (self.sent & self.log.inner.tracked) - self.undone

    def lose_unwritten(self):
        """Note that what is not on record may come again."""
        self.undone |= self.not_on_record()

    async def poll(self):
        hand_off = self.random.random() < 0.2
        poll = self._hand_off if hand_off else self._poll
        polling = poll(
            self.epoch,
            max_count=self.random.randrange(1, BATCH_MAX),
            wait_ms=self.random.choice((0, 0, 1_000)),
            lease_ms=0 if hand_off else LEASE_MS,
        )
        await self.begin_poll(polling)

    async def _poll(self, epoch, **terms):
        try:
            host = await self.loaded()
            delivery = await host.poll(epoch, **terms)
        except (StorageError, Recovering) as error:
            raise PollEnded(KEY, error.reason) from error
        if host is not self.host:  # the dispatcher drops what comes from a process that has lost the tracker
            raise PollEnded(KEY, "FENCED")
        return delivery

    async def _hand_off(self, epoch, **terms):
        try:
            host = await self.loaded()
            delivery = await host.poll(epoch, **terms)
        except (StorageError, Recovering) as error:
            raise PollEnded(KEY, error.reason) from error
        if host is not self.host:  # a process that has lost the tracker meanwhile; the new owner knows nothing of this
            taken = {Position(ledger, entry) for _, ledger, entry in delivery.indexes}
            for known in (self.delivered, self.acked, self.undone):
                known.update(taken)
            raise PollEnded(KEY, "FENCED")
        return delivery

    def settle_lease(self):
        if not self.leases:
            return
        lease_id, positions, chosen = self.part_of_a_lease()
        if self.random.random() < 0.4:
            # The whole lease, in the order of the hand-out, as most dispatchers acknowledge.
            chosen = [position for position in self.in_order.get(lease_id, ()) if position in positions]
        positions -= set(chosen)
        if not positions:
            del self.leases[lease_id]
        if self.random.random() < 0.6:
            self.call(self._ack, lease_id, chosen)
        else:
            later = self.clock.now_ms() + self.random.randrange(5_000) if self.random.random() < 0.5 else None
            self.call(self._nack, lease_id, chosen, later)

    async def _ack(self, lease_id, chosen):
        epoch, host = self.epoch, await self.loaded()
        await host.wait_for_window()
        outcome = host.ack(epoch, lease_id, PositionColumns.of(chosen))
        stale = {chosen[offset] for offset in outcome.stale}
        self.acked.update(set(chosen) - stale)
        unknown = {chosen[offset] for offset in outcome.unknown}  # perhaps in a hand-off that is on its way
        self.undone |= unknown
        if host is self.host:
            self.undone -= set(chosen) - stale - unknown
        else:  # a process that has lost the tracker meanwhile
            self.undone.update(chosen)
        self.note("acked", len(chosen), outcome.changed_count)

    async def _nack(self, lease_id, chosen, later):
        epoch, host = self.epoch, await self.loaded()
        outcome = host.nack(epoch, lease_id, PositionColumns.of(chosen), deliver_at_ms=later)
        if later is None:
            return
        unchanged = {chosen[offset] for offset in (*outcome.stale, *outcome.unknown)}
        await self._moved(dict.fromkeys([position for position in chosen if position not in unchanged], later))
        self.note("nacked", len(chosen), outcome.changed_count, later)

    def slip(self):
        if self.host.state is HostState.READY:
            super().slip()

    def advance_mark_delete(self):
        self.call(self._advance_mark_delete)

    async def _advance_mark_delete(self):
        await self.loaded()
        super().advance_mark_delete()

    def reschedule(self):
        """Give neighbours another deadline: with luck, all that is left of a bucket."""
        unacked = sorted(self.answered - self.acked)
        start = self.random.randrange(max(1, len(unacked)))
        self.call(self._reschedule, unacked[start : start + self.random.randrange(1, 13)])

    async def _reschedule(self, chosen):
        epoch, host = self.epoch, await self.loaded()
        rows = [(self.deadlines[position] + self.random.randrange(5_000), *position) for position in chosen]
        outcome = host.reschedule(epoch, IndexColumns.of(rows))
        unchanged = {chosen[offset] for offset in (*outcome.leased, *outcome.unknown)}
        moved = {position: row[0] for position, row in zip(chosen, rows, strict=True) if position not in unchanged}
        await self._moved(moved)
        self.note("rescheduled", len(chosen), outcome.rescheduled_count)

    async def _moved(self, moved):
        """Wait until new deadlines are durable; until then, a crash may bring the old ones back."""
        self.move_count += 1
        number = self.move_count
        for position, later in moved.items():
            before = self.not_before.get(position, self.deadlines[position])
            self.not_before[position] = min(later, before)
            self.last_move[position] = number
        await self.host.until_durable()
        for position, later in moved.items():
            if self.last_move[position] == number:
                self.not_before[position] = later

    def move_a_bucket(self):
        """Give a new deadline to all that is left of a stored bucket: it moves to memory, and its snapshot is deleted."""
        if self.host.state is not HostState.READY or not self.host.has_core:
            return
        left = self.host._gate.core.remaining()
        if left:
            bits = left[self.random.choice(sorted(left))]
            self.call(self._reschedule, [each for each in bits.to_columns() if each in self.answered - self.acked])

    def cancel(self):
        free = sorted(self.answered - self.acked)
        if free:
            self.call(self._cancel, self.random.sample(free, min(4, len(free))))

    async def _cancel(self, chosen):
        epoch, host = self.epoch, await self.loaded()
        outcome = host.cancel(epoch, PositionColumns.of(chosen))
        kept = {chosen[offset] for offset in (*outcome.leased, *outcome.unknown)}
        gone = set(chosen) - kept
        self.acked.update(gone)  # the dispatcher acknowledges it in its cursor, too
        self.delivered.update(gone)
        self.in_doubt.update(gone)
        await host.until_durable()
        self.in_doubt.difference_update(gone)
        self.cancelled.update(gone)
        self.note("cancelled", len(gone))
