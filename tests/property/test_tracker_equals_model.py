"""Property: under any verbs and any fate of effects, the core equals a dict and a sort."""

from typing import Any

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
    "move during merge": 0.02,
    "move back": 0.10,
    "trimmed and re-added": 0.05,
    "consumed at a move": 0.02,
    "cancel and re-add": 0.10,
    "reschedule in mutable bucket": 0.02,
    "reschedule in late bucket": 0.01,
    "reschedule in sealing bucket": 0.02,
    "reschedule in merging bucket": 0.05,
    "reschedule in loaded segment": 0.01,
    "reschedule in loading segment": 0.04,
    "reschedule in unloaded segment": 0.04,
    "reschedule to due": 0.03,
    "reschedule leased": 0.01,
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

STEPS: list[tuple[str, list[st.SearchStrategy[Any]]]] = [
    ("add", [rows]),
    ("add", [rows]),
    ("add", [rows]),
    ("pop", [st.integers(1, 6), st.sampled_from([0, 5, 20])]),
    ("pop", [st.integers(1, 6), st.sampled_from([5, 20])]),
    ("pop_at_next_delivery", [st.integers(1, 6), st.sampled_from([5, 20])]),
    ("pop_at_next_delivery", [st.integers(1, 6), st.sampled_from([5, 20])]),
    ("take_and_extend", [st.sampled_from([1, 10, 40]), st.booleans()]),
    ("take_and_reschedule", [st.integers(1, 30)]),
    ("send_and_reschedule", [numbers, st.integers(4, 40)]),
    ("ack", [numbers, positions]),
    ("expire_and_ack", [st.integers(0, 2), st.integers(1, 6), st.sampled_from([5, 20, 45])]),
    ("take_and_ack_leases", [st.integers(1, 6), positions, st.sampled_from([0, 0, -1, 1])]),
    ("nack", [numbers, positions, st.one_of(st.none(), st.integers(-5, 30))]),
    ("pass_time", [st.integers(0, 25)]),
    ("pass_time", [st.integers(0, 25)]),
    ("step_clock", [st.integers(-40, 40)]),
    ("advance_mark_delete", [st.builds(Position, ledgers, st.integers(-1, 6))]),
    ("clear", []),
    ("new_owner", []),
    ("check_contains", [positions]),
    ("finish_effect", [numbers, fates]),
    ("finish_effect", [numbers, fates]),
    ("finish_effect", [numbers, st.just("ok")]),
    ("fill_buckets", [st.integers(5, 90)]),
    ("fill_buckets", [st.integers(5, 90)]),
    ("lose_next_load", []),
    ("fail_next_store", []),
    ("fail_next_store", []),
    ("cancel", [positions, numbers]),
    ("cancel_and_reschedule", [numbers, st.integers(-2, 60)]),
    ("reschedule", [rows, numbers, st.integers(-2, 60)]),
    ("reschedule", [st.just([]), st.integers(0, 20), st.integers(-2, 60)]),
    ("extend", [numbers, positions, st.sampled_from([1, 10, 40]), st.booleans()]),
    ("reset_cursor", [st.builds(Position, ledgers, st.integers(-1, 6))]),
    ("move_cursor", [st.builds(Position, ledgers, st.integers(-1, 6))]),
    ("move_back_and_add_again", [st.builds(Position, ledgers, st.integers(-1, 6)), st.integers(4, 60)]),
    ("check_filter", [ledgers, st.integers(0, 6), st.integers(0, 9)]),
    ("check_membership", []),
    ("expire_leases", [st.integers(0, 25)]),
    ("seal_mutable_bucket", []),
    ("restart", []),
    ("close_and_restart", [numbers]),
    ("restart_beside_foreign", [rows]),
    ("store_and_restart", []),
]
"""Each step of the world with its arguments; one that stands here twice is taken twice as often."""


def steps_except(*left_out: str) -> st.SearchStrategy[tuple[object, ...]]:
    """Return a strategy of the steps without some; a filter would discard nearly every script that is long."""
    return st.one_of([st.tuples(st.just(name), *arguments) for name, arguments in STEPS if name not in left_out])


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
    @given(limits=bucket_limits, script=st.lists(steps_except(), min_size=20, max_size=40))
    def play(limits: TrackerLimits, script: list[tuple[object, ...]]) -> None:
        world = World(limits)
        for step in script:
            world.play(step)
        world.drain()
        coverage.note(world.hits)

    play()
    coverage.require()
