"""Property: a service gives the same answers whatever codec its snapshots have, also if the codec changes meanwhile.

The services have an add log, so that a restart brings back everything and skips nothing: what a recovery without a log
skips follows the segments, and the columnar codec joins these.
"""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.verb_results import MessagePlace
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.queries.explain import explain
from delayed_tracker.storage.codec.codec import codec_of
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.property.coverage import Coverage
from tests.property.examples import EXAMPLES, tracker_examples
from tests.property.outcomes import plain
from tests.service.harness.shell import KEY, TINY, elapse, make_registry, settle

pytestmark = pytest.mark.timeout(3_600)  # thousands of examples take their time

REQUIRED_SHARES = {
    "pulsar": 0.40,
    "columnar": 0.40,
    "mixed": 0.05,
    "merged": 0.05,
    "delivered": 0.40,
    "restarted": 0.20,
}

LEASE_MS = 500
ledgers = st.integers(0, 5)
entries = st.integers(0, 9)
places = st.lists(st.builds(Position, ledgers, entries), min_size=1, max_size=6)
# Beside the prefetch window of 2 s, so that most is on disk, and is read back.
rows = st.lists(st.tuples(st.integers(-3, 9_000), ledgers, entries), min_size=4, max_size=14)

steps = st.one_of(
    st.tuples(st.just("add"), rows),
    st.tuples(st.just("add"), rows),
    st.tuples(st.just("add"), rows),
    st.tuples(st.just("pass_time"), st.integers(1, 3_000)),
    st.tuples(st.just("ack"), st.integers(1, 9)),
    st.tuples(st.just("cancel"), places),
    st.tuples(st.just("reschedule"), rows),
    st.tuples(st.just("contains"), places),
    st.tuples(st.just("explain"), st.builds(Position, ledgers, entries)),
    st.tuples(st.just("advance_mark_delete"), st.builds(Position, ledgers, entries)),
    st.tuples(st.just("seal")),
    st.tuples(st.just("seal")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("restart")),
)

bucket_limits = st.builds(
    lambda count_max, buckets_max, step_ms: replace(
        TINY,
        max_indexes_per_segment=count_max,
        max_num_buckets=buckets_max,
        max_step_per_segment_ms=step_ms,
        loaded_indexes_max=10_000,
    ),
    st.sampled_from([-1, 2, 7]),
    st.sampled_from([-1, 1, 2]),
    st.sampled_from([50, 1_000]),
)


class Service:
    """A registry with one tracker, over a storage and a log that outlive it."""

    def __init__(self, limits: TrackerLimits, codecs: list[SnapshotCodec], hits: Counter[str]) -> None:
        self.limits = limits
        self.codecs = codecs
        self.hits = hits
        self.clock = ManualClock()
        self.storage = MemoryStorage()
        self.log = MemoryAddLog()
        self.leased: list[tuple[int, Position]] = []

    def next_codec(self) -> SnapshotCodec:
        self.codecs.append(self.codecs.pop(0))
        return self.codecs[-1]

    async def start(self) -> None:
        self.registry = make_registry(
            self.storage,
            self.clock,
            limits=self.limits,
            service_limits=ServiceLimits(snapshot_codec=self.next_codec()),
            add_log=self.log,
        )
        await self.registry.start()
        opening = asyncio.ensure_future(self.registry.open(KEY, owner="tests", mark_delete=None))
        await elapse(self.clock, 0)
        self.epoch = (await opening).epoch
        self.host = self.registry.host(KEY)
        self.leased.clear()

    async def close(self) -> None:
        closing = asyncio.ensure_future(self.registry.close())
        await elapse(self.clock, 1)
        await closing

    async def play(self, verb: str, *arguments):
        """Take one step, and return the answer and what is due after it."""
        answer = plain(await getattr(self, verb)(*arguments))
        await elapse(self.clock, 1)
        return answer, await self.poll()

    async def poll(self):
        """Take all that is due, under leases."""
        found = []
        while True:
            await settle()
            delivery = await self.host.poll(self.epoch, max_count=50, wait_ms=0, lease_ms=LEASE_MS)
            if not len(delivery.indexes):
                return sorted(found)
            found += list(delivery.indexes)
            self.leased += [(delivery.lease_id, position) for position in delivery.indexes.positions]
            self.hits["delivered"] += 1

    async def add(self, table):
        now_ms = self.clock.now_ms()
        return self.host.add(self.epoch, IndexColumns.of([(now_ms + delay, *place) for delay, *place in table]))

    async def pass_time(self, delay_ms):
        await elapse(self.clock, delay_ms)

    async def ack(self, count):
        taken, self.leased = sorted(self.leased, key=lambda each: each[1])[:count], []
        return [
            self.host.ack(self.epoch, lease_id, PositionColumns.of([position])).changed_count
            for lease_id, position in taken
        ]

    async def cancel(self, positions):
        return self.host.cancel(self.epoch, PositionColumns.of(positions))

    async def reschedule(self, table):
        now_ms = self.clock.now_ms()
        one_each = {tuple(place): (now_ms + max(delay, 0), *place) for delay, *place in table}
        return self.host.reschedule(self.epoch, IndexColumns.of(list(one_each.values())))

    async def contains(self, positions):
        return self.host.contains(PositionColumns.of(positions))

    async def explain(self, position):
        asked = asyncio.ensure_future(explain(self.host, self.registry.access, position))
        await elapse(self.clock, 0)
        found = (await asked).found
        return found.place is MessagePlace.NOT_TRACKED, found.deliver_at_ms

    async def advance_mark_delete(self, position):
        self.host.advance_mark_delete(self.epoch, position)

    async def seal(self):
        self.host.seal(self.epoch)
        await settle()
        self.registry.service_limits.adopt(ServiceLimits(snapshot_codec=self.next_codec()))

    async def restart(self):
        self.hits["restarted"] += 1
        await settle()
        await self.close()
        await self.start()

    async def note_codecs(self) -> None:
        """Count the codecs of the snapshots that the catalogue names."""
        entries = (await self.storage.list(*KEY)).entries
        found = {codec_of(await self.storage.get_bucket_snapshot_metadata(entry.bucket_id)) for entry in entries}
        self.hits.update(codec.value for codec in found)
        self.hits["mixed"] += len(found) > 1


async def play(limits: TrackerLimits, script, hits: Counter[str]) -> None:
    pulsar, columnar = SnapshotCodec
    services = [
        Service(limits, codecs, hits) for codecs in ([pulsar], [columnar], [pulsar, columnar], [columnar, pulsar])
    ]
    for service in services:
        await service.start()
    # The last one comes due after 9 s, and again after each lease.
    for step in [*script, *[("pass_time", 1_500), ("ack", 1_000)] * 8]:
        answers = [await service.play(*step) for service in services]
        assert all(answer == answers[0] for answer in answers), step
        for service in services:
            await service.note_codecs()
    assert not services[0].host.stats().pending_count
    for service in services:
        assert not service.host.counters.snapshots_corrupt
        hits["merged"] += service.registry.counters.snapshots_merged
        assert service.host.stats().pending_count == services[0].host.stats().pending_count
        service.host.core_for_reading().check()
    for service in services:
        await service.close()


def test_codecs_give_the_same_answers() -> None:
    """Adds, polls, acks, cancels, new deadlines and restarts give the same answers over snapshots of any codec."""
    coverage = Coverage(REQUIRED_SHARES)

    # A third of the examples of other properties: each is played by four services.
    @settings(max_examples=max(EXAMPLES, tracker_examples().max_examples // 3))
    @given(limits=bucket_limits, script=st.lists(steps, min_size=8, max_size=16))
    def run(limits: TrackerLimits, script) -> None:
        hits: Counter[str] = Counter()
        asyncio.run(play(limits, script, hits))
        coverage.note(hits)

    run()
    coverage.require()
