"""Longer timeouts of tests that may wait for Maven."""

from typing import Final

import pytest

from tests.jvm.pulsar_classes import FETCH_TIMEOUT_S

_REST_S: Final = 60


def allow_download(item: pytest.Item, at_least_s: float = FETCH_TIMEOUT_S + _REST_S) -> None:
    """Set a longer timeout on a test, because the first of its kind may wait for a download; keep one longer still."""
    marker = item.get_closest_marker("timeout")
    given = marker.args[0] if marker is not None else item.config.getoption("timeout") or 0
    # In front of the test's own marker, which is the closest otherwise.
    item.add_marker(pytest.mark.timeout(max(at_least_s, given)), append=False)
