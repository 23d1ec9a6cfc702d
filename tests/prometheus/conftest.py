"""What tests that ask Prometheus' own programs share."""

import pytest

from tests.prometheus.binaries import find_program


@pytest.fixture(scope="session")
def promtool() -> str:
    """Its path."""
    return find_program("promtool")
