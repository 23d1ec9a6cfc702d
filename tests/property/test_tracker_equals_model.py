"""Property: under any verbs and any fate of effects, the core equals a dict and a sort."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.limits import TrackerLimits
from tests.property.coverage import Coverage
from tests.property.examples import tracker_examples
from tests.property.tiny_limits import tiny_limits
from tests.property.tracker_world import World

pytestmark = pytest.mark.timeout(3_600)  # thousands of examples take their time

REQUIRED_SHARES = {
    "seal": 0.40,
    "failed store": 0.03,
    "stale epoch": 0.08,
    "late add": 0.15,
    "lease expiry": 0.05,
    "load": 0.10,
    "lost snapshot": 0.02,
    "trim": 0.08,
    "trim during create": 0.01,
    "restart with buckets": 0.05,
    "clear while in flight": 0.05,
    "nack to a new deadline": 0.05,
    "re-dated": 0.05,
    "merge": 0.08,
    "failed merge": 0.02,
    "reset during merge": 0.02,
    "cancel and re-add": 0.10,
    "extend": 0.01,
    "late bucket": 0.05,
    "in-ledger seal": 0.05,
    "explicit seal": 0.05,
    "result after close": 0.02,
    "overlapping recovery": 0.02,
    "foreign recovery": 0.02,
    "whole ack": 0.01,
    "late ack": 0.02,
}
"""Rare paths, and the share of examples that must take them, so that the strategy keeps reaching them."""


ledgers = st.integers(0, 5)
entries = st.integers(0, 6)
positions = st.lists(st.builds(Position, ledgers, entries), max_size=4)
rows = st.lists(
    # One number is a row: three draws for each take twice the time of playing it.
    st.integers(0, 94 * 6 * 7 - 1).map(lambda number: (number // 42 - 3, number // 7 % 6, number % 7)),
    min_size=1,
    max_size=9,
)
fates = st.sampled_from(["ok", "ok", "ok", "fail", "lost"])
numbers = st.integers(0, 5)

steps = st.one_of(
    st.tuples(st.just("add"), rows),
    st.tuples(st.just("add"), rows),
    st.tuples(st.just("add"), rows),
    st.tuples(st.just("pop"), st.integers(1, 6), st.sampled_from([0, 5, 20])),
    st.tuples(st.just("pop"), st.integers(1, 6), st.sampled_from([5, 20])),
    st.tuples(st.just("pop_at_next_delivery"), st.integers(1, 6), st.sampled_from([5, 20])),
    st.tuples(st.just("pop_at_next_delivery"), st.integers(1, 6), st.sampled_from([5, 20])),
    st.tuples(st.just("take_and_extend"), st.sampled_from([1, 10, 40]), st.booleans()),
    st.tuples(st.just("take_and_reschedule"), st.integers(1, 30)),
    st.tuples(st.just("send_and_reschedule"), numbers, st.integers(4, 40)),
    st.tuples(st.just("ack"), numbers, positions),
    st.tuples(st.just("expire_and_ack"), st.integers(0, 2), st.integers(1, 6), st.sampled_from([5, 20, 45])),
    st.tuples(st.just("take_and_ack_leases"), st.integers(1, 6), positions, st.sampled_from([0, 0, -1, 1])),
    st.tuples(st.just("nack"), numbers, positions, st.one_of(st.none(), st.integers(-5, 30))),
    st.tuples(st.just("pass_time"), st.integers(0, 25)),
    st.tuples(st.just("pass_time"), st.integers(0, 25)),
    st.tuples(st.just("step_clock"), st.integers(-40, 40)),
    st.tuples(st.just("advance_mark_delete"), st.builds(Position, ledgers, st.integers(-1, 6))),
    st.tuples(st.just("clear")),
    st.tuples(st.just("new_owner")),
    st.tuples(st.just("check_contains"), positions),
    st.tuples(st.just("finish_effect"), numbers, fates),
    st.tuples(st.just("finish_effect"), numbers, fates),
    st.tuples(st.just("finish_effect"), numbers, st.just("ok")),
    st.tuples(st.just("fill_buckets"), st.integers(5, 90)),
    st.tuples(st.just("fill_buckets"), st.integers(5, 90)),
    st.tuples(st.just("lose_next_load")),
    st.tuples(st.just("fail_next_store")),
    st.tuples(st.just("fail_next_store")),
    st.tuples(st.just("cancel"), positions, numbers),
    st.tuples(st.just("cancel_and_reschedule"), numbers, st.integers(-2, 60)),
    st.tuples(st.just("extend"), numbers, positions, st.sampled_from([1, 10, 40]), st.booleans()),
    st.tuples(st.just("reset_cursor"), st.builds(Position, ledgers, st.integers(-1, 6))),
    st.tuples(st.just("check_filter"), ledgers, st.integers(0, 6), st.integers(0, 9)),
    st.tuples(st.just("expire_leases"), st.integers(0, 25)),
    st.tuples(st.just("seal_mutable_bucket")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("close_and_restart"), numbers),
    st.tuples(st.just("restart_beside_foreign"), rows),
    st.tuples(st.just("store_and_restart")),
)

bucket_limits = tiny_limits(
    loaded_indexes_max=st.integers(1, 12),
    max_num_buckets=st.sampled_from([-1, 1, 1, 2, 3]),
    retry_backoff_ms=st.sampled_from([1, 10]),
)


SMALL_BUCKETS = TrackerLimits(tick_ms=0, min_index_count_per_bucket=1, mutable_indexes_max=2, late_indexes_max=1)
SAME_DEADLINE_AGAIN = [
    ("fill_buckets", 80),
    ("pass_time", 11),
    ("clear",),
    ("fill_buckets", 47),
    ("clear",),
    ("pass_time", 60),
    ("add", [(23, 4, 2)]),
    ("restart",),
]
"""A position gets the deadline that it had before two clears; a crash finds both older snapshots, and not the new add."""


def test_core_equals_model() -> None:
    """Answers, counts and wake-ups always equal the model's, and everything tracked comes out at the end."""
    coverage = Coverage(REQUIRED_SHARES)

    @tracker_examples()
    @example(limits=SMALL_BUCKETS, script=SAME_DEADLINE_AGAIN)
    @given(limits=bucket_limits, script=st.lists(steps, min_size=20, max_size=40))
    def play(limits: TrackerLimits, script: list[tuple[object, ...]]) -> None:
        world = World(limits)
        for step in script:
            world.play(step)
        world.drain()
        coverage.note(world.hits)

    play()
    coverage.require()
