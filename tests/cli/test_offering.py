"""Tests of times, shifted deadlines, and the counts of added indexes."""

import numpy as np
import pytest

from delayed_tracker.cli.tracker.offering import OfferOutcome, parse_instant, shifted
from delayed_tracker.core.values.columns import INT63_MAX, IndexColumns
from delayed_tracker.core.values.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("0", 0),
        ("1795245852556", 1_795_245_852_556),
        ("2026-11-21T07:24:12.556Z", 1_795_245_852_556),
        ("2026-11-21T07:24:12.556", 1_795_245_852_556),
        ("2026-11-21T08:24:12.556+01:00", 1_795_245_852_556),
        ("2026-11-21", 1_795_219_200_000),
    ],
)
def test_an_instant_is_iso_8601_or_epoch_milliseconds(text, moment_ms):
    """A time without an offset is UTC in every local time zone."""
    assert parse_instant("--rebase-at", text) == moment_ms


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "1969-12-31", "2026-13-01", str(2**63), "\u0663"])
def test_what_is_no_instant_is_refused(text):
    """The error contains the option's name and the accepted forms."""
    with pytest.raises(InvalidInput, match="--rebase-at"):
        parse_instant("--rebase-at", text)


@pytest.mark.parametrize("shift_ms", [0, 1, 5_000, -1, -5_000, INT63_MAX])
def test_deadlines_move_by_a_constant_and_stay_in_range(shift_ms):
    """Shifted deadlines are limited to 0 and 2^63-1."""
    deadlines = [0, 1, 4_999, 5_000, INT63_MAX - 1, INT63_MAX]
    indexes = IndexColumns.of([(deadline, 1, entry) for entry, deadline in enumerate(deadlines)])
    moved = shifted(indexes, shift_ms)
    assert moved.deliver_at_ms.tolist() == [min(max(deadline + shift_ms, 0), INT63_MAX) for deadline in deadlines]
    assert moved.entry_id.tolist() == indexes.entry_id.tolist()


def test_an_outcome_that_loses_an_index_is_not_balanced():
    """Counts that lose an index are not balanced."""
    none = np.empty(0, np.int64)
    due = np.array([0, 2])
    whole = OfferOutcome(5, 3, due=due, duplicate=none, beyond_max_delay=none, below_mark_delete=none)
    short = OfferOutcome(6, 3, due=due, duplicate=none, beyond_max_delay=none, below_mark_delete=none)
    assert whole.balanced
    assert not short.balanced
