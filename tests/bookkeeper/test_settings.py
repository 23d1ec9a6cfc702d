"""Tests of the settings' ranges."""

import pytest

from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.core.values.errors import InvalidInput


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("connect_timeout_ms", 0),
        ("add_timeout_ms", -1),
        ("read_timeout_ms", 600_001),
        ("read_timeout_ms", 1.5),
        ("in_flight_requests_max", True),
        ("backoff_min_ms", "100"),
        ("backoff_max_ms", 99),
        ("frame_bytes_max", 65_535),
        ("reply_bytes_max", 65_535),
        ("in_flight_bytes_max", 5 * 1024 * 1024 - 1),
        ("pending_bytes_max", 5 * 1024 * 1024 - 1),
        ("pending_entries_max", 0),
        ("quarantine_ms", -1),
    ],
)
def test_a_wrong_value_is_named(field, value):
    """A value that is out of range, of another type, or below the one that it has to cover is refused by name."""
    with pytest.raises(InvalidInput, match=f"^{field}: .* is not valid; give ") as refused:
        ClientSettings(**{field: value})
    assert refused.value.field == field
