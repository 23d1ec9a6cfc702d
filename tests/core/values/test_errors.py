"""Errors show the wrong value, in bounded length."""

from delayed_tracker.core.values.errors import VALUE_BYTES_MAX, InvalidInput


def test_a_short_value_is_shown_whole():
    """A short value is shown as the operator typed it."""
    error = InvalidInput("--ready-file", "a" * 300, "name a file")
    assert error.message == f"--ready-file: {'a' * 300!r} is not valid; name a file"


def test_a_long_value_loses_its_middle_everywhere():
    """A megabyte in a request is not repeated in the status or in the log."""
    error = InvalidInput("owner", "b" * 1_000_000 + "end", "give a shorter one")
    (row,) = error.violations
    for text in (error.message, row.description):
        assert len(text) < VALUE_BYTES_MAX + 100
        assert "bbb...bbb" in text
        assert "end'" in text
