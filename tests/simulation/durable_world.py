"""The world with an add log: processes that crash and take over from one another, faults of log and storage, operators.

The dispatcher offers again only what was not answered, or what its claim leaves out (``durable_dispatcher.py``).
"""

import asyncio
from dataclasses import replace

from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.clock import ManualClock, pause
from delayed_tracker.service.errors import Fenced
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import clear_tracker
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.storage.errors import StorageError
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog
from tests.service.harness.shell import KEY, elapse, make_registry, settle
from tests.simulation.durable_dispatcher import BATCH_MAX, WINDOW, DurableDispatcher
from tests.simulation.recording_log import RecordingLog
from tests.simulation.world import CALM


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


class DurableWorld(DurableDispatcher):
    log_is_apart = False

    def __init__(self, seed):
        super().__init__(seed, TrackerKind.BUCKET)
        self.log = self.made_log()
        self.fenced = []  # processes that have lost the tracker to another one, with their host and epoch
        self.service_limits = ServiceLimits(
            leased_positions_max=60,
            consumption_window_positions=WINDOW,
            add_log_bytes_max=60_000,
            tracker_idle_unload_ms=(0, 0, 1_000)[seed % 3],
        )
        self.unload_count = 0

    def made_log(self):
        return FaultyAddLog(
            RecordingLog(), replace(CALM, seed=self.seed + 1), sleep=lambda seconds: pause(self.clock, seconds * 1_000)
        )

    # -- the service -------------------------------------------------------------------------------------------------

    async def start(self):
        self.registry = make_registry(
            SharedByProcesses(self.storage),
            self.clock,
            limits=self.limits,
            service_limits=replace(self.service_limits, snapshot_codec=self.next_codec()),
            seed=self.random.randrange(2**32),
            add_log=SharedByProcesses(self.log),
            log_is_apart=self.log_is_apart,
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
        if self.random.random() < 0.5:
            await self.lose_answers_of_stores()
        self.note("take over")
        self.fenced.append((self.registry, self.host, self.epoch))
        self.count_effects()
        self.came_again.clear()
        await self.start()
        self.lose_unwritten()

    async def lose_answers_of_stores(self):
        """Let the owner store buckets until it has no answer for one, which the next owner finds."""
        self.calm_down()
        self.publish()
        await settle()
        if self.host.state is HostState.READY:
            self.host.seal_open_buckets()
        self.storage.plan = replace(CALM, seed=self.seed, error_after=0.5)
        for _ in range(20):
            named = {entry.bucket_id for entry in (await self.storage.inner.list(*KEY)).entries}
            if not self.host.has_core or named - self.host._gate.core.stored_counts().keys():
                return
            await elapse(self.clock, self.random.choice((1, 10)))

    def offer_to_fenced(self):
        """Offer to the process that lost the tracker: it must not answer, unless the new owner has what it answered, or it is due."""
        unknown = sorted(self.deadlines.keys() - self.answered - self.acked)
        if self.fenced and unknown:
            registry, _, epoch = self.random.choice(self.fenced)
            self.call(self._offer_to, registry, epoch, unknown[:5])

    async def open(self):
        opened = await self._opened()
        self.note_opened(opened)
        unknown = {position for position in self.deadlines if position not in self.answered}
        never = unknown - self.acked - self.once_answered
        assert all(position > opened.offered_through for position in never), "a claim beyond the answers"
        again = unknown
        if self.claims:
            again |= {position for position in self.deadlines if position > opened.offered_through}
        self.offer_in_batches(sorted(again - self.acked))

    def note_opened(self, opened):
        """Learn what has to be offered again."""

    def count_effects(self):
        super().count_effects()
        self.unload_count += self.registry.idle.unload_count

    def calm_down(self):
        for faulty in (self.storage, self.log):
            faulty.plan = replace(faulty.plan, error_before=0.0, error_after=0.0, latency_ms=0)

    async def crash(self):
        self.note("crash", self.registry.log.unwritten_removed_count)
        self.crash_count += 1
        self.count_effects()
        self.check_consumption()
        self.lose_unwritten()
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
        await self.change_disks()
        await self.start()

    async def change_disks(self):
        """Choose the machine on which the service starts next."""

    async def crash_before_the_log(self):
        """Crash while the log may not have what has left the storage already."""
        self.calm_down()
        self.log.plan = replace(self.log.plan, latency_ms=self.random.choice((5, 600, 5_000)))
        self.move_a_bucket()
        await elapse(self.clock, self.random.choice((1, 40, 600)))
        await self.crash()

    async def crash_after_a_checkpoint(self):
        """Crash when records were cut of positions whose bucket is not deleted yet, or could not be."""
        self.calm_down()
        await elapse(self.clock, self.random.choice((1, 1_000)))
        if self.host.state is HostState.READY and self.host.has_core:
            self.host.seal_open_buckets()
            await elapse(self.clock, 1_000)
        left = self.host._gate.core.remaining() if self.host.state is HostState.READY and self.host.has_core else {}
        if left:
            bits = left[self.random.choice(sorted(left))]
            self.storage.plan = replace(CALM, seed=self.seed, error_before=self.random.choice((0.0, 1.0)))
            self.call(self._cancel, [each for each in bits.to_columns() if each in self.answered - self.acked])
            await elapse(self.clock, self.random.choice((0, 200, 600)))
            self.calm_down()
            self.note("checkpoint")
            # No time passes until the crash, for in time the bucket is deleted.
            self.call(self.host.checkpoint)
            await settle()
        await self.crash()

    # -- operators -----------------------------------------------------------------------------------------------------

    async def clear(self):
        self.note("clear")
        for task in list(self.calls):
            task.cancel()
        cleared = await self._cleared()
        self.leases.clear()
        self.handed_out.clear()
        self.not_before.clear()
        self.lose_unwritten()
        self.log.inner.tracked.clear()
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
                return await self._finished(clear_tracker(self.registry, KEY, self.epoch, **terms))
            except StorageError:
                self.calm_down()
            except Fenced:
                return None

    async def reset(self):
        """Move the cursor back: everything above it is offered again, and no claim of before counts."""
        position = self.random_position()
        for task in list(self.calls):
            task.cancel()
        if self.random.random() < 0.3:
            await self._closed()
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
        self.log.inner.tracked.clear()
        self.undone.clear()
        self.in_doubt.clear()
        self.not_before.clear()
        self.came_again.clear()
        self.offer_counts.clear()
        await self.open()

    async def move_cursor(self):
        """Move the cursor and keep the index: what is tracked above it stays, the rest above it is offered again."""
        position = self.random_position()
        for task in [*self.calls, *self.polls]:
            task.cancel()
        if self.random.random() < 0.2:
            await self._closed()
        moved = self.random.random() < 0.4 and await self._crash_while_moving(position)
        self.note("move", position)
        if not moved:
            await self._move_to(position)
        for task in [*self.calls, *self.polls]:
            task.cancel()
        await settle()
        below = {other for other in self.deadlines if other <= position}
        dropped, again = below - self.acked, self.acked - below
        self.mark_delete = position
        self.untracked = {other for other in again - self.undone - self.in_doubt if self.offer_counts[other] == 1}
        for known in (self.acked, self.delivered, self.answered, self.cleared):
            known.update(dropped)
            known.difference_update(again)
        for known in (self.once_answered, self.cancelled, self.undone, self.in_doubt, self.sent):
            known.difference_update(again)
        for other in again:
            self.not_before.pop(other, None)
            self.offer_counts.pop(other, None)
        self.log.inner.tracked.difference_update(below)
        self.came_again.clear()
        await self.random.choice((self.open, self.crash))()
        self.untracked.clear()

    async def _closed(self):
        """Close the tracker. If the log could not be written, its end is as a crash."""
        await super()._closed()
        self.lose_unwritten()

    async def _crash_while_moving(self, position):
        """Crash at any await of a move, which has no answer then.

        Returns: True if the next open shows that it has moved back; else the move is repeated. A position that is not on
            record shows nothing: the crash may have taken the cursor back.
        """
        before, self.mark_delete = self.mark_delete, position
        is_on_record = self.log.inner.mark_delete == before
        await super()._crash_while_moving(position)
        return is_on_record and self.host.mark_delete == position < before

    async def import_rebuilt(self):
        for task in list(self.calls):
            task.cancel()
        await settle()
        # What is not in the ledgers' rebuild is offered again: an import ends every claim.
        self.answered &= self.acked
        # What is handed out while the import is under way comes back with it.
        self.offer_counts.update(self.deadlines.keys() - self.acked)
        await super().import_rebuilt()
        self.log.inner.tracked.clear()

    async def close_and_open(self):
        self.note("close")
        self.came_again.clear()
        await self._closed()
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
        if self.random.random() < 0.02:
            self.move_a_bucket()
        if self.random.random() < 0.015:
            await self.take_over()
        if self.random.random() < 0.01:
            await self.crash_before_the_log()
        if self.random.random() < 0.01:
            await self.crash_after_a_checkpoint()
        if self.random.random() < 0.006:
            await self.reset()
        if self.random.random() < 0.005:
            await self.move_cursor()
        # A crash comes at any await: between two turns of the event loop.
        if self.random.random() < 0.02:
            for _ in range(self.random.randrange(12)):
                await asyncio.sleep(0)
            await self.crash()
        await super().step()

    def audit(self):
        super().audit()
        self.check_consumption()
        self.check_nothing_lost()
        log = self.registry.log
        assert log.pending_bytes >= 0
        assert log.log_bytes >= 0

    def check_consumption(self):
        """Check that what is acknowledged and not on record waits to be written, and is no more than the window allows."""
        missing, waiting = self.not_on_record(), self.registry.log.unwritten_removed_count
        assert len(missing) <= waiting, f"{len(missing)} positions are not on record, {waiting} wait: {sorted(missing)}"
        assert len(missing) < WINDOW + BATCH_MAX, f"a crash would hand out {len(missing)} positions again"

    def check_nothing_lost(self):
        """Check that nothing is reported as lost: neither storage nor log has lost anything."""
        counters = self.registry.counters
        lost = (counters.snapshots_missing, counters.snapshots_corrupt, counters.log_records_corrupt)
        assert lost == (0, 0, 0), f"snapshots missing and corrupt, records lost: {lost}"

    async def end(self):
        self.log.plan = replace(CALM, seed=self.seed)
        self.storage.plan = replace(CALM, seed=self.seed)
        await elapse(self.clock, 20_000)
        self.offer_again()
        while self.answered | self.acked != self.deadlines.keys():
            await elapse(self.clock, 20_000)
            self.offer_again()
        await self.close_fenced()
        await super().end()

    async def close_fenced(self):
        for registry, _, _ in self.fenced:
            await self._finished(registry.close())
