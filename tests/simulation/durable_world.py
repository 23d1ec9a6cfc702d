"""The world with an add log: a dispatcher that offers again only what was not answered, or what its claim leaves out.

The auditor knows each answered fact. An answered add comes out without being offered again, an answered cancel never
does, and of the positions that were acknowledged before a crash no more come again than the consumption window allows.
"""

import asyncio
from collections import Counter
from dataclasses import replace

from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, PositionColumns
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.clock import ManualClock, pause
from delayed_tracker.service.errors import Fenced, PollEnded
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.storage.errors import StorageError
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog
from tests.service.harness.shell import KEY, elapse, make_registry, settle
from tests.simulation.world import CALM, LEASE_MS, World

WINDOW = 4
BATCH_MAX = 8


class SharedByProcesses:
    """A storage that several registries of one world use: none of them starts or closes it."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def start(self):
        pass

    async def close(self):
        pass


class DurableWorld(World):
    def __init__(self, seed):
        super().__init__(seed, TrackerKind.BUCKET)
        self.log = FaultyAddLog(
            MemoryAddLog(), replace(CALM, seed=seed + 1), sleep=lambda seconds: pause(self.clock, seconds * 1_000)
        )
        self.claims = self.random.random() < 0.5
        """True if the dispatcher sends claims and offers again what lies above the claim; else it never does."""
        self.answered = set()  # offered, and the answer has arrived
        self.once_answered = set()
        self.close_count = 0
        self.in_order = {}  # lease id -> what it handed out, in that order
        self.fenced = []  # processes that have lost the tracker to another one, with their host and epoch
        self.offer_counts = Counter()
        self.offer_number, self.last_offer = 0, {}
        self.move_count, self.last_move = 0, {}
        self.cancelled = set()
        self.calls = set()  # tasks of calls that wait for their answers
        self.came_again = set()  # acknowledged positions that came again since the last crash
        self.in_doubt = set()  # their cancel has no answer: the dispatcher no longer sends them
        self.came_again_max = 0
        self.service_limits = ServiceLimits(
            leased_positions_max=60,
            consumption_window_positions=WINDOW,
            add_log_bytes_max=60_000,
            tracker_idle_unload_ms=(0, 0, 1_000)[seed % 3],
        )
        self.unload_count = 0

    # -- the service -------------------------------------------------------------------------------------------------

    async def start(self):
        self.registry = make_registry(
            SharedByProcesses(self.storage),
            self.clock,
            limits=self.limits,
            service_limits=self.service_limits,
            seed=self.random.randrange(2**32),
            add_log=SharedByProcesses(self.log),
        )
        self.metrics = ServiceMetrics(self.registry, version="1")
        self.calm_down()
        await self.registry.start()
        await self.open()

    async def run(self, step_count):
        await self.storage.inner.start()
        await self.log.inner.start()
        await super().run(step_count)

    async def take_over(self):
        """Let another process open the tracker. The first one does not know, and goes on until it is fenced."""
        self.note("take over")
        self.fenced.append((self.registry, self.host, self.epoch))
        self.count_effects()
        self.close_count += 1
        self.came_again.clear()
        await self.start()

    def offer_to_fenced(self):
        """Offer to the process that lost the tracker: it must not answer, unless the new owner has what it answered."""
        unknown = sorted(self.deadlines.keys() - self.answered - self.acked)
        if self.fenced and unknown:
            registry, _, epoch = self.random.choice(self.fenced)
            self.call(self._offer_to, registry, epoch, unknown[:5])

    async def open(self):
        while True:
            given = self.mark_delete if self.random.random() < 0.7 else None
            try:
                opened = await self._finished(self.registry.open(KEY, owner="simulation", mark_delete=given))
                break
            except StorageError:
                self.calm_down()
        self.host, self.epoch = self.registry.host(KEY), opened.epoch
        self.note("opened", opened.epoch, opened.recovered_count, opened.offered_through)
        self.leases.clear()
        self.handed_out.clear()
        unknown = {position for position in self.deadlines if position not in self.answered}
        never = unknown - self.acked - self.once_answered
        assert all(position > opened.offered_through for position in never), "a claim beyond the answers"
        again = unknown
        if self.claims:
            again |= {position for position in self.deadlines if position > opened.offered_through}
        self.offer_in_batches(sorted(again - self.acked))

    async def loaded(self):
        """Bring the tracker back into memory if it was idle."""
        return await self.registry.loaded_host(KEY)

    def count_effects(self):
        super().count_effects()
        self.unload_count += self.registry.idle.unload_count

    def offer_in_batches(self, positions):
        for start in range(0, len(positions), 7):
            self.offer(positions[start : start + 7])

    def calm_down(self):
        for faulty in (self.storage, self.log):
            faulty.plan = replace(faulty.plan, error_before=0.0, error_after=0.0, latency_ms=0)

    async def crash(self):
        self.note("crash", self.registry.log.unwritten_removed_count)
        self.crash_count += 1
        self.count_effects()
        for registry in [self.registry, *(registry for registry, _, _ in self.fenced)]:
            for host in registry.hosts():
                host._gate.state = HostState.CLOSED
                host._gate._load_share.stop_waiting()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self.polls.clear()
        self.calls.clear()
        self.came_again.clear()
        self.clock = ManualClock(self.clock.now_ms() + self.random.randrange(3_000))
        self.fenced.clear()
        await self.start()

    # -- the dispatcher ----------------------------------------------------------------------------------------------

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
        # A later offer of the same position may have another outcome, and its answer is still to come.
        self.answered.update(position for position in positions if self.last_offer[position] == number)
        self.once_answered.update(positions)

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

    def check_contains(self, positions):
        if self.host.state is not HostState.READY:
            return
        super().check_contains([position for position in positions if position in self.answered])

    def take(self, delivery):
        taken = super().take(delivery)
        assert len(self.came_again) <= WINDOW + BATCH_MAX, f"{len(self.came_again)} positions came again"
        self.came_again_max = max(self.came_again_max, len(self.came_again))
        if taken and delivery.lease_id:
            self.in_order[delivery.lease_id] = taken
        return taken

    def check_not_consumed(self, position):
        """Count what comes again: a crash may have undone an acknowledgement or a mark-delete position."""
        assert position not in self.cancelled, f"{position} was cancelled"
        # An offer that is repeated may come after the hand-out of the first.
        if position in self.acked and position not in self.in_doubt and self.offer_counts[position] == 1:
            assert self.crash_count or self.close_count, f"{position} was acknowledged, and there was no crash"
            self.came_again.add(position)

    async def poll(self):
        hand_off = self.random.random() < 0.2
        poll = self._hand_off if hand_off else self._poll
        task = asyncio.create_task(
            poll(
                self.epoch,
                max_count=self.random.randrange(1, BATCH_MAX),
                wait_ms=self.random.choice((0, 0, 1_000)),
                lease_ms=0 if hand_off else LEASE_MS,
            )
        )
        task.add_done_callback(self._polled)
        self.polls.append(task)
        if self.random.random() < 0.1:
            await asyncio.sleep(0)
            task.cancel()
        await settle()

    async def _poll(self, epoch, **terms):
        try:
            host = await self.loaded()
        except StorageError as error:
            raise PollEnded(KEY, error.reason) from error
        return await host.poll(epoch, **terms)

    async def _hand_off(self, epoch, **terms):
        try:
            host = await self.loaded()
        except StorageError as error:
            raise PollEnded(KEY, error.reason) from error
        await host.wait_for_window()
        return await host.poll(epoch, **terms)

    def settle_lease(self):
        if not self.leases:
            return
        lease_id = self.random.choice(sorted(self.leases))
        _, positions = self.leases[lease_id]
        chosen = sorted(position for position in positions if self.random.random() < 0.7)
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

    async def clear(self):
        self.note("clear")
        for task in list(self.calls):
            task.cancel()
        cleared = await self._cleared()
        self.leases.clear()
        self.handed_out.clear()
        self.not_before.clear()
        self.cleared = set(self.deadlines)
        self.acked.update(self.cleared)
        self.answered.update(self.cleared)
        self.delivered.update(self.cleared)
        if cleared is None:
            await self.open()
        else:
            self.epoch = cleared.epoch

    async def _cleared(self, **terms):
        """Clear the tracker, and try again until that has happened; None if an attempt was applied, but not answered."""
        while True:
            try:
                return await self._finished(self.registry.clear(KEY, self.epoch, **terms))
            except StorageError:
                self.calm_down()
            except Fenced:
                return None

    async def reset(self):
        """Move the cursor back: everything above it is offered again, and no claim of before counts."""
        position = self.random.choice([BEFORE_ALL, *sorted(self.deadlines)]) if self.deadlines else BEFORE_ALL
        for task in list(self.calls):
            task.cancel()
        if self.random.random() < 0.3:
            await self._finished(self.registry.close_tracker(KEY, self.epoch))
        self.note("reset", position)
        await self._cleared(reset_to=position)
        for poll in self.polls:
            poll.cancel()
        await settle()
        below = {other for other in self.deadlines if other <= position}
        self.mark_delete = position
        self.once_answered &= below
        self.acked, self.delivered, self.answered, self.cleared = (set(below) for _ in range(4))
        self.cancelled.clear()
        self.in_doubt.clear()
        self.not_before.clear()
        self.came_again.clear()
        self.offer_counts.clear()
        await self.open()

    async def import_rebuilt(self):
        for task in list(self.calls):
            task.cancel()
        await settle()
        # What is not in the ledgers' rebuild is offered again: an import ends every claim.
        self.answered &= self.acked
        # What is handed out while the import is under way comes back with it.
        self.offer_counts.update(self.deadlines.keys() - self.acked)
        await super().import_rebuilt()

    async def close_and_open(self):
        self.note("close")
        # If the log cannot be written now, the end of the process is as a crash.
        self.close_count += 1
        self.came_again.clear()
        await self._finished(self.registry.close_tracker(KEY, self.epoch))
        await self.open()

    def change_weather(self):
        super().change_weather()
        self.log.plan = replace(
            self.log.plan,
            error_before=self.random.choice((0.0, 0.0, 0.1, 0.6)),
            error_after=self.random.choice((0.0, 0.0, 0.1, 0.6)),
            latency_ms=self.random.choice((0, 0, 5, 50, 5_000)),
        )

    # -- the whole ---------------------------------------------------------------------------------------------------

    async def step(self):
        if self.random.random() < 0.03:
            self.cancel()
        if self.random.random() < 0.02:
            self.offer_to_fenced()
        if self.random.random() < 0.01:
            await self.take_over()
        if self.random.random() < 0.006:
            await self.reset()
        # A crash comes at any await: between two turns of the event loop.
        if self.random.random() < 0.02:
            for _ in range(self.random.randrange(12)):
                await asyncio.sleep(0)
            await self.crash()
        await super().step()

    def audit(self):
        super().audit()
        log = self.registry.log
        assert log.pending_bytes >= 0
        assert log.log_bytes >= 0

    async def end(self):
        self.log.plan = replace(CALM, seed=self.seed)
        self.storage.plan = replace(CALM, seed=self.seed)
        await elapse(self.clock, 20_000)
        self.offer_again()
        while self.answered | self.acked != self.deadlines.keys():
            await elapse(self.clock, 20_000)
            self.offer_again()
        for registry, _, _ in self.fenced:
            await self._finished(registry.close())
        await super().end()
