"""Ledgers are divided by bytes, whatever their metadata claim."""

import pytest

from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.spark.source.ledger_splits import ranges_of
from tests.ledger.harness.list_ledger import ListLedger


class DamagedLedger(ListLedger):
    """Ledger whose metadata claim as many entries as there can be, and more bytes than there are."""

    @property
    def last_entry_id(self) -> int:
        return 2**32 - 1

    @property
    def payload_bytes(self) -> int | None:
        return 2**62


@pytest.mark.parametrize(("part_bytes", "firsts"), [(768, [0, 3, 6, 9]), (1, list(range(12))), (10_000, [0])])
def test_ranges_are_adjacent_and_of_about_equal_size(part_bytes, firsts):
    """Ranges of a ledger of 12 entries, which count as 256 bytes each, meet and cover it."""
    ranges = list(ranges_of("t", ListLedger(1, [b"x"] * 12), part_bytes))
    assert [part.first for part in ranges] == firsts
    assert [part.last + 1 for part in ranges] == [*firsts[1:], 12]


def test_a_ledger_that_claims_any_size_has_a_bounded_number_of_ranges():
    """Damaged metadata may claim more entries and bytes than there are in the world."""
    ranges = list(ranges_of("t", DamagedLedger(1, []), 128 << 20))
    assert len(ranges) == 10_000
    assert (ranges[0].first, ranges[-1].last) == (0, 2**32 - 1)


def test_a_ledger_that_is_absent_is_one_range():
    """Nothing of it is read, so it has nothing to divide."""
    assert len(list(ranges_of("t", AbsentLedger(1, 10**9, "gone"), 100))) == 1
