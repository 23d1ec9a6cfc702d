"""Fixtures of tests that run Prometheus' own programs."""

import pytest

from tests.prometheus.binaries import find_program


@pytest.fixture(scope="session")
def promtool() -> str:
    """Return the path of promtool."""
    return find_program("promtool")
