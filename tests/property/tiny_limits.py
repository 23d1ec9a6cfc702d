"""Limits so small that a script of twenty steps seals, cuts, loads and forgets: rare paths become common."""

from hypothesis import strategies as st

from delayed_tracker.core.values.limits import TrackerLimits


def tiny_limits(**drawn: st.SearchStrategy[object]) -> st.SearchStrategy[TrackerLimits]:
    """Return a strategy for the limits of a tracker.

    Args:
        drawn: strategies for further fields, or replacements of these.
    """
    fields: dict[str, st.SearchStrategy[object]] = {
        "tick_ms": st.sampled_from([0, 3]),
        "strict": st.booleans(),
        "min_index_count_per_bucket": st.integers(1, 4),
        "mutable_indexes_max": st.integers(2, 7),
        "late_indexes_max": st.integers(1, 4),
        "max_step_per_segment_ms": st.sampled_from([5, 20, 1_000]),
        "max_indexes_per_segment": st.sampled_from([-1, 1, 2, 3]),
        "segment_groups_max": st.sampled_from([1, 2, 512]),
        "prefetch_window_ms": st.sampled_from([0, 8, 1_000]),
        "read_ahead_indexes": st.sampled_from([0, 6]),
        "load_indexes_max": st.integers(1, 4),
        "late_ack_ms": st.sampled_from([30, 600_000]),
    }
    return st.builds(TrackerLimits, **fields | drawn)
