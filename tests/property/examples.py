"""Number of examples of a property of the tracker: 20,000 in the deep run, as many as a minute allows in the others."""

from hypothesis import settings

DEEP_EXAMPLES = 20_000
EXAMPLES = 60


def tracker_examples() -> settings:
    """Return the settings of one property."""
    return settings(max_examples=DEEP_EXAMPLES if settings.get_current_profile_name() == "deep" else EXAMPLES)
