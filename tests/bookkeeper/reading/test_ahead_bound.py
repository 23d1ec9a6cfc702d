"""Tests of the bound on entries that are read ahead."""

import pytest

from delayed_tracker.bookkeeper.reading.ahead_bound import ENTRIES_AHEAD_MAX, AheadBound
from delayed_tracker.core.values.errors import InvalidInput


def test_one_entry_is_read_until_a_size_is_known():
    bound = AheadBound(10_000)
    assert bound.entries == 1
    bound.seen((1_000,))
    assert bound.entries == 10


def test_an_entry_above_the_bound_is_read_alone():
    bound = AheadBound(10_000)
    bound.seen((20_000,))
    assert bound.entries == 1


def test_small_entries_are_bounded_by_their_count():
    bound = AheadBound(2**40)
    bound.seen((0,))
    assert bound.entries == ENTRIES_AHEAD_MAX


def test_a_large_entry_counts_for_a_while():
    """Large entries that come now and then keep the bound where it must be for them."""
    bound = AheadBound(1_000_000)
    for number in range(1_000):
        bound.seen((100_000 if number % 20 == 0 else 1_000,))
        assert 10 <= bound.entries <= 14
    for _ in range(1_000):
        bound.seen((1_000,))
    assert bound.entries == 1_000


@pytest.mark.parametrize("bytes_ahead", [0, -1])
def test_no_bound_is_refused(bytes_ahead):
    with pytest.raises(InvalidInput, match="bytes_ahead"):
        AheadBound(bytes_ahead)
