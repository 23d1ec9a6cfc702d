"""What errors say: the value that was wrong, however large it is."""

from delayed_tracker.core.values.errors import VALUE_BYTES_MAX, InvalidInput


def test_a_short_value_is_shown_whole():
    """Operators find what they typed."""
    error = InvalidInput("--ready-file", "a" * 300, "name a file")
    assert error.message == f"--ready-file: {'a' * 300!r} is not valid; name a file"


def test_a_long_value_loses_its_middle_everywhere():
    """A megabyte that somebody sends does not come back in the status or stand in the log."""
    error = InvalidInput("owner", "b" * 1_000_000 + "end", "give a shorter one")
    (row,) = error.violations
    for text in (error.message, row.description):
        assert len(text) < VALUE_BYTES_MAX + 100
        assert "bbb...bbb" in text
        assert "end'" in text
