"""Property: with room for one or two loaded indexes, positions that drain make room for waiting loads."""

from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.engine.effects import LoadSegments
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.limits import TrackerLimits
from tests.property.coverage import Coverage
from tests.property.examples import tracker_examples
from tests.property.tracker_world import World

REQUIRED_SHARES = {"seal": 0.5, "load": 0.3, "room made by an ack": 0.1, "merge": 0.05}


room_limits = st.builds(
    TrackerLimits,
    strict=st.just(True),
    min_index_count_per_bucket=st.just(2),
    late_indexes_max=st.just(2),
    max_step_per_segment_ms=st.just(5),
    max_indexes_per_segment=st.just(1),
    prefetch_window_ms=st.sampled_from([20, 1_000]),
    load_indexes_max=st.just(1),
    loaded_indexes_max=st.integers(1, 2),
    max_num_buckets=st.sampled_from([-1, 1]),
)
delays = st.integers(1, 60)
positions = st.builds(Position, st.integers(0, 5), st.integers(0, 1))

steps = st.one_of(
    st.tuples(st.just("add_bucket"), delays, delays),
    st.tuples(st.just("add_bucket"), delays, delays),
    st.tuples(st.just("pop_at_next_delivery"), st.just(1), st.just(1_000)),
    st.tuples(st.just("pop_at_next_delivery"), st.just(1), st.just(1_000)),
    st.tuples(st.just("finish_effect"), st.integers(0, 3), st.just("ok")),
    st.tuples(st.just("finish_effect"), st.integers(0, 3), st.just("ok")),
    st.tuples(st.just("cancel"), st.lists(positions, min_size=1, max_size=3), st.just(99)),
    st.tuples(st.just("ack_whole"), st.integers(0, 3)),
    st.tuples(st.just("ack_whole"), st.integers(0, 3)),
    st.tuples(st.just("pass_time"), st.integers(0, 10)),
    st.tuples(st.just("drain_while_loading"), st.integers(0, 10)),
    st.tuples(st.just("drain_while_loading"), st.integers(0, 10)),
)


class RoomWorld(World):
    """Stores end at once; buckets have two positions, each bucket in its own ledger."""

    next_ledger_id = 0

    def add_bucket(self, first_ms: int, second_ms: int) -> None:
        """Add two positions of the next ledger, and let sealed buckets be stored."""
        ledger_id, self.next_ledger_id = self.next_ledger_id, (self.next_ledger_id + 1) % 6
        self.add([(self.now_ms + first_ms, ledger_id, 0), (self.now_ms + second_ms, ledger_id, 1)])
        self.finish_stores()

    def drain_while_loading(self, again_ms: int) -> None:
        """Empty a bucket while its second position is loading or just loaded, and others are leased."""
        self.clear()
        begun_ms = self.now_ms
        for rows in ([(10, 1, 0), (25, 1, 1)], [(25 + again_ms, 2, 0), (60, 2, 1)]):
            self.add([(begun_ms + in_ms, ledger_id, entry_id) for in_ms, ledger_id, entry_id in rows])
            self.seal_mutable_bucket()
            self.finish_stores()
        self.add([(begun_ms + 9, 3, 0), (begun_ms + 20, 3, 1)])
        self.pass_time(10)
        self.pop(1, 1_000)
        for number in reversed(range(len(self.pending))):
            if isinstance(self.pending[number], LoadSegments):
                self.finish_effect(number, "ok")
        self.pop(1, 1_000)
        self.cancel([Position(1, 1)], 99)
        self.ack_whole(1)


def test_what_drains_makes_room() -> None:
    """Every invariant holds after each step, with the wake-up of waiting loads, and every position comes out."""
    coverage = Coverage(REQUIRED_SHARES)

    @tracker_examples()
    @given(limits=room_limits, script=st.lists(steps, min_size=5, max_size=20))
    def play(limits: TrackerLimits, script: list[tuple[object, ...]]) -> None:
        world = RoomWorld(limits)
        for step in script:
            world.play(step)
        world.drain()
        coverage.note(world.hits)

    play()
    coverage.require()
