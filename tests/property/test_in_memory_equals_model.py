"""Property: the in-memory tracker equals the same model as the bucket tracker, and never asks to store anything."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_tracker_equals_model import steps, tiny_limits
from tests.property.tracker_world import World
from tracker.core.limits import TrackerKind, TrackerLimits


@given(limits=tiny_limits, script=st.lists(steps, min_size=20, max_size=50))
@settings(max_examples=max(200, settings.default.max_examples))
def test_in_memory_core_equals_model(limits: TrackerLimits, script: list[tuple[object, ...]]) -> None:
    """Answers, counts and wake-ups; a restart forgets everything, which the replay brings again."""
    world = World(replace(limits, kind=TrackerKind.IN_MEMORY, fixed_delay_lookahead=3))
    for verb, *arguments in script:
        if verb == "add":
            (offered,) = arguments
            world.add([(world.now_ms + delay, ledger, entry) for delay, ledger, entry in offered])
        else:
            getattr(world, str(verb))(*arguments)
        assert not world.catalogue
        assert not world.core.pause_reading(world.now_ms) or len(world.model.due(world.now_ms)) == 0
    world.drain()
    assert world.next_bucket_id == 1, "nothing was ever stored"
