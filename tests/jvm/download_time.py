"""Longer timeouts of tests that may wait for Maven."""

import pytest

from tests.jvm.pulsar_classes import FETCH_TIMEOUT_S


def allow_download(item: pytest.Item) -> None:
    """Set a longer timeout on a test, because the first of its kind may wait for a download; keep one longer still."""
    if item.get_closest_marker("timeout") is None:
        given = item.config.getoption("timeout") or 0
        item.add_marker(pytest.mark.timeout(max(FETCH_TIMEOUT_S + 60, given)))
