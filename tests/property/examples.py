"""Number of examples of a property of the tracker: 7,000 in the deep run, as many as a minute allows in the others.

With 7,000 they take as long as all other tests of the deep run together. ``DEEP_EXAMPLES`` sets another number.
"""

import os

from hypothesis import settings

DEEP_EXAMPLES = int(os.environ.get("DEEP_EXAMPLES", "7000"))
EXAMPLES = 40


def tracker_examples() -> settings:
    """Return the settings of one property."""
    return settings(max_examples=DEEP_EXAMPLES if settings.get_current_profile_name() == "deep" else EXAMPLES)
