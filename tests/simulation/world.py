"""A dispatcher and its operators, and the service with crashes and storage faults, all from one seed."""

import asyncio
import inspect
import random
from bisect import bisect
from dataclasses import replace
from itertools import accumulate, groupby

from delayed_tracker.core.values.columns import BEFORE_ALL, PositionColumns
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.clock import ManualClock, pause
from delayed_tracker.service.errors import Fenced, LeasesExhausted
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.grpc.import_stream import ImportStream
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import clear_tracker
from delayed_tracker.service.operations.cursor import move_cursor
from delayed_tracker.service.operations.importing import SnapshotImport
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import StorageError
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage
from tests.core.harness.unseen import check_unseen
from tests.service.harness.imports import sent, snapshot
from tests.service.harness.shell import KEY, TINY, elapse, make_registry, settle
from tests.service.metrics.scraping import assert_balanced, parsed
from tests.simulation.dispatcher import LEASE_MS, Dispatcher

CALM = FaultPlan()
SHARES = {
    "publish": 0.25,
    "offer_again": 0.05,
    "poll": 0.2,
    "settle_lease": 0.12,
    "slip": 0.01,
    "set_clock": 0.02,
    "reschedule": 0.02,
    "pause": 0.203,
    "advance_mark_delete": 0.04,
    "change_weather": 0.03,
    "reopen": 0.01,
    "import_rebuilt": 0.015,
    "clear": 0.005,
    "close_and_open": 0.008,
    "move_cursor": 0.007,
    "crash": 0.012,
}
"""Share of each action in all steps."""


class World(Dispatcher):
    base = TINY
    buckets_max = (-1, 1, 2, 4)
    pauses_ms = (1, 40, 600, 2_500, 8_000)
    drain_pause_ms = 2_000
    clock_steps_ms = (-30_000, -700, 700, 30_000)

    def __init__(self, seed, kind=TrackerKind.BUCKET):
        super().__init__(seed)
        self.seed = seed
        # On its own, so that the course of events does not depend on it: each process writes with one of the codecs.
        self.codecs = random.Random(seed)
        strict = self.random.random() < 0.5
        self.limits = replace(
            self.base, kind=kind, strict=strict, tick_ms=50, max_num_buckets=self.random.choice(self.buckets_max)
        )
        self.clock = ManualClock()
        self.storage = FaultyStorage(
            MemoryStorage(), replace(CALM, seed=seed), sleep=lambda seconds: pause(self.clock, seconds * 1_000)
        )
        self.untracked = set()  # consumed above the new cursor: not tracked until they are offered again
        self.untracked_count = 0  # of those, how many were looked for
        self.crash_count = self.lost_count = self.stored_count = self.merged_count = self.imported_count = 0
        self.came_again_max = 0  # only a world with an add log counts what comes again
        self.stepped_ms = 0

    def next_codec(self):
        return self.codecs.choice(list(SnapshotCodec))

    # -- the service -------------------------------------------------------------------------------------------------

    async def start(self):
        self.registry = make_registry(
            self.storage,
            self.clock,
            limits=self.limits,
            service_limits=ServiceLimits(leased_positions_max=60, snapshot_codec=self.next_codec()),
            seed=self.seed,
        )
        self.metrics = ServiceMetrics(self.registry, version="1")
        await self.registry.start()
        await self.open()

    async def _finished(self, awaitable):
        """Return the result of an awaitable while time passes."""
        task = asyncio.ensure_future(awaitable)
        for turn in range(10_000):
            await elapse(self.clock, 500)
            if task.done():
                return task.result()
            if turn == 5_000:  # No storage fails forever.
                self.storage.plan = replace(CALM, seed=self.seed)
        raise AssertionError("a call never ends although the clock goes on")

    async def open(self):
        """Open, with retries, and replay what the cursor has not acknowledged."""
        await self._opened()
        replay = sorted(position for position in self.deadlines if position not in self.acked)
        for start in range(0, len(replay), 7):
            self.offer(replay[start : start + 7])

    async def _opened(self):
        """Open, with retries, and check what must not be there before anything is offered; return the answer."""
        while True:
            given = self.mark_delete if self.random.random() < 0.7 else None
            try:
                opened = await self._finished(self.registry.open(KEY, owner="simulation", mark_delete=given))
                break
            except StorageError:
                self.calm_down()
        self.host, self.epoch = self.registry.host(KEY), opened.epoch
        assert given is None or opened.mark_delete >= given, f"{given} was given, and {opened.mark_delete} is in force"
        self.note("opened", opened.epoch, opened.recovered_count, opened.offered_through)
        self.check_untracked()
        self.leases.clear()
        self.handed_out.clear()
        return opened

    def calm_down(self):
        self.storage.plan = replace(self.storage.plan, error_before=0.0, error_after=0.0)

    def check_untracked(self):
        """Check, before anything is offered, that a lower mark-delete position has brought nothing back."""
        self.untracked_count += len(self.untracked)
        back = self.host.contains(PositionColumns.of(sorted(self.untracked)))
        assert not back.any(), f"{back.sum()} consumed positions are tracked again"

    async def loaded(self):
        """Return the host for a call. The caller uses it before its next await."""
        return self.host

    async def crash(self):
        """Drop everything in memory at once; the storage keeps its content."""
        self.note("crash")
        self.crash_count += 1
        self.count_effects()
        for host in self.registry.hosts():
            host._gate.state = HostState.CLOSED
            # A dead process wakes nobody, but this event loop lives on.
            host._gate._load_share.stop_waiting()
        # A cancelled task may begin another as it ends; with a clock that stands still that would wait forever.
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self.polls.clear()
        self.not_before.clear()
        self.clock = ManualClock(self.clock.now_ms() + self.random.randrange(3_000))
        await self.storage.inner.close()
        await self.start()

    def count_effects(self):
        self.stored_count += self.registry.counters.snapshots_stored
        self.merged_count += self.registry.counters.snapshots_merged

    async def close_and_open(self):
        """Close the tracker in order and open it again; the cursor replays all the same."""
        self.note("close")
        await self._closed()
        self.not_before.clear()
        await self.open()

    async def _closed(self):
        await self._finished(self.registry.close_tracker(KEY, self.epoch))

    # -- operators -----------------------------------------------------------------------------------------------------

    async def clear(self):
        """Clear the backlog: an answered clear holds, through operations in flight and later faults."""
        self.note("clear")
        cleared = await self._finished(clear_tracker(self.registry, KEY, self.epoch))
        self.epoch = cleared.epoch
        self.leases.clear()
        self.handed_out.clear()
        self.not_before.clear()
        self.cleared = set(self.deadlines)
        self.acked.update(self.cleared)
        self.delivered.update(self.cleared)

    async def move_cursor(self):
        """Move the cursor and keep the index: what is tracked above it stays, the rest above it is offered again."""
        position = self.random_position()
        for poll in self.polls:
            poll.cancel()
        gone = self.cleared | {other for other in self.deadlines if other <= self.mark_delete}
        self.untracked = {other for other in gone if other > position}
        self.mark_delete = position
        if self.random.random() < 0.4:
            await self._crash_while_moving(position)
        self.note("move", position)
        await self._move_to(position)
        below = {other for other in self.deadlines if other <= position}
        again = self.acked - below
        self.acked, self.cleared = below, self.cleared & below
        self.delivered = (self.delivered - again) | below
        self.not_before.clear()
        await self.random.choice((self.open, self.crash))()
        self.untracked.clear()

    def random_position(self):
        return self.random.choice([BEFORE_ALL, *sorted(self.deadlines)])

    async def _crash_while_moving(self, position):
        """Begin to move the cursor, and crash after a random number of turns of the event loop."""
        self.note("crash while moving", position)
        moving = asyncio.create_task(move_cursor(self.registry, KEY, self.epoch, position))
        for _ in range(self.random.randrange(40)):
            await asyncio.sleep(0)
        if self.random.random() < 0.3:
            await elapse(self.clock, self.random.choice((1, 60, 700)))
        await self.crash()
        # No await here: the dispatcher has begun to offer again, by what it knew before the move.
        error = None if moving.cancelled() else moving.exception()
        assert error is None or isinstance(error, DelayedTrackerError), error

    async def _move_to(self, position):
        """Move the cursor, and try again until that has happened."""
        while True:
            try:
                await self._finished(move_cursor(self.registry, KEY, self.epoch, position))
                break
            except StorageError:
                self.calm_down()
            except Fenced:  # by an attempt of its own, which failed after it had taken an epoch
                await self.open()
        await settle()

    async def import_rebuilt(self):
        """Import the content of the ledgers: it replaces everything, or changes nothing if a fault hits the import."""
        if self.limits.kind is TrackerKind.IN_MEMORY:
            return
        rows = sorted((position, at_ms) for position, at_ms in self.deadlines.items() if position not in self.acked)
        ledgers = groupby(rows, key=lambda row: row[0].ledger_id)
        rebuilt = [snapshot(*((at_ms, *position) for position, at_ms in ledger)) for _, ledger in ledgers]
        is_open = self.random.random() < 0.8
        if not is_open:
            await self._closed()
        while True:
            try:
                adopted = await self._finished(self._imported(rebuilt))
                break
            except StorageError:
                self.note("import failed", self.host.epoch)
                if is_open:
                    assert self.host.epoch == self.epoch
                    self.check_contains([position for position, _ in rows])
                # The service does not retry a store from a stream, so with faults no import would succeed.
                self.storage.plan = replace(self.storage.plan, error_before=0.0, error_after=0.0, torn=0.0)
        self.note("imported", adopted.bucket_count, adopted.tracked_count)
        self.imported_count += adopted.bucket_count
        assert adopted.epoch > self.epoch
        self.not_before.clear()
        await self.open()

    async def _imported(self, rebuilt):
        stream = ImportStream(sent(*rebuilt, mark_delete=None if self.mark_delete == BEFORE_ALL else self.mark_delete))
        _, terms = await stream.terms()
        return await SnapshotImport(self.registry, KEY, terms).run(stream.buckets())

    async def pause(self):
        await elapse(self.clock, self.random.choice(self.pauses_ms))

    async def reopen(self):
        self.note("reopen")
        await self.open()

    def set_clock(self):
        self.step_clock(self.random.choice(self.clock_steps_ms))

    def step_clock(self, by_ms):
        """Step the wall clock, as an operator or a time daemon does; durations are not affected."""
        self.clock.step_wall(by_ms)
        self.stepped_ms += by_ms
        self.note("clock stepped", by_ms)

    def change_weather(self):
        self.storage.plan = replace(
            self.storage.plan,
            error_before=self.random.choice((0.0, 0.0, 0.1, 0.6)),
            error_after=self.random.choice((0.0, 0.0, 0.1, 0.6)),
            torn=self.random.choice((0.0, 0.0, 0.3)),
            latency_ms=self.random.choice((0, 0, 5, 300, 30_000)),
        )

    # -- the whole ---------------------------------------------------------------------------------------------------

    async def step(self):
        number = bisect(list(accumulate(SHARES.values())), self.random.random())
        done = getattr(self, list(SHARES)[min(number, len(SHARES) - 1)])()
        if inspect.isawaitable(done):
            await done
        await settle()
        self.audit()
        if len(self.trace) % 16 == 0:
            await self.audit_metrics()

    async def audit_metrics(self):
        exposition, _ = await self.metrics.scrape()
        assert_balanced(parsed(exposition.decode()))

    def audit(self):
        assert not self.failures, self.failures[0]
        for poll in [poll for poll in self.polls if poll.done()]:
            self.polls.remove(poll)
        if self.host.has_core:
            check_unseen(self.host._gate.core)
        stats = self.host.stats()
        came = stats.added_count + stats.recovered_count
        went = stats.acked_count + stats.handed_off_count + stats.trimmed_count + stats.refused_as_due_count
        went += stats.cleared_count + stats.cancelled_count
        assert came == went + stats.pending_count + stats.leased_count + stats.dropped_as_corrupt_count
        if len(self.trace) % 10 == 0:
            self.check_contains(sorted(position for position in self.deadlines if position not in self.acked)[:50])

    async def run(self, step_count):
        await self.start()
        for _ in range(step_count):
            await self.step()
        await self.end()

    async def end(self):
        """Repair the storage and the clock and let time pass: everything comes out, and nothing is left anywhere."""
        self.step_clock(max(0, -self.stepped_ms))
        self.storage.plan = replace(CALM, seed=self.seed)
        self.leases.clear()
        self.handed_out.clear()
        for _ in range(200):
            await elapse(self.clock, self.drain_pause_ms)
            try:
                host = await self.loaded()
                delivery = await host.poll(self.epoch, max_count=50, wait_ms=0, lease_ms=LEASE_MS)
            except LeasesExhausted:
                continue  # leases that no consumer settles have to expire first
            taken = self.take(delivery)
            if taken:
                self.host.ack(self.epoch, delivery.lease_id, PositionColumns.of(taken))
                self.acked.update(taken)
                self.leases.clear()
                self.handed_out.clear()
        self.count_effects()
        missing = sorted(set(self.deadlines) - self.delivered)
        assert not missing, f"{len(missing)} messages never came out: {missing[:5]}"
        stats = self.host.stats()
        assert (stats.pending_count, stats.leased_count, stats.next_delivery_ms) == (0, 0, None)
        await self._finished(self.registry.close_tracker(KEY, self.epoch))
        await self.open()
        await elapse(self.clock, 5_000)
        assert await self.storage.inner.list_bucket_snapshots(*KEY) == []
        assert (await self.storage.inner.list(*KEY)).entries == ()
        await self.audit_metrics()
        self.note("end", self.random.random())
        await self.registry.close()
