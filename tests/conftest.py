"""What every test shares: the Hypothesis profiles. Event loops run in debug mode by ``asyncio_debug`` in pyproject."""

import os

from hypothesis import HealthCheck, settings

# dev: quick, new examples each run. ci: the same examples each run, so that a red build is red again on a laptop.
# deep: `make test-deep`, many more examples.
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=200, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "deep",
    max_examples=20_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
