"""How many examples a property of the tracker is tried on: 20,000 in the deep run, enough to judge coverage in the others."""

from hypothesis import settings

DEEP_EXAMPLES = 20_000


def tracker_examples(at_least: int) -> settings:
    """Settings for one property.

    Args:
        at_least: fewer examples would say little about shares of rare paths.
    """
    if settings.get_current_profile_name() == "deep":
        return settings(max_examples=DEEP_EXAMPLES)
    return settings(max_examples=max(at_least, settings.default.max_examples))
