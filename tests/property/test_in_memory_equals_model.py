"""Property: the in-memory tracker equals the same model as the bucket tracker, and never emits a store."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from tests.property.coverage import Coverage
from tests.property.examples import tracker_examples
from tests.property.test_tracker_equals_model import bucket_limits, steps_except
from tests.property.tracker_world import World

pytestmark = pytest.mark.timeout(3_600)  # thousands of examples take their time

REQUIRED_SHARES = {
    "lease expiry": 0.05,
    "trim": 0.08,
    "nack to a new deadline": 0.05,
    "re-dated": 0.05,
    "cancel and re-add": 0.10,
    "extend": 0.01,
}

# Leases are the same without buckets; the remaining steps take the rare paths as often as before.
in_memory_steps = steps_except("restart_beside_foreign", "take_and_ack_leases")
"""Without ``restart_beside_foreign``: there is no catalogue that could list a bucket."""


def test_in_memory_core_equals_model() -> None:
    """Answers, counts and wake-ups equal the model's; a restart forgets everything, and the replay adds it again."""
    coverage = Coverage(REQUIRED_SHARES)

    @tracker_examples()
    @given(limits=bucket_limits, script=st.lists(in_memory_steps, min_size=20, max_size=40))
    def play(limits: TrackerLimits, script: list[tuple[object, ...]]) -> None:
        world = World(replace(limits, kind=TrackerKind.IN_MEMORY, fixed_delay_lookahead=3))
        for step in script:
            world.play(step)
            assert not world.catalogue
            assert not world.core.pause_reading(world.now_ms) or len(world.model.due(world.now_ms)) == 0
        world.drain()
        assert world.next_bucket_id == 1, "nothing was ever stored"
        coverage.note(world.hits)

    play()
    coverage.require()
