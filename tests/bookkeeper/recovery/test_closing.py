"""Begin and end of a recovery, as decided from metadata."""

from dataclasses import replace

import pytest

from delayed_tracker.bookkeeper.metadata.errors import MetadataConflict
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerState
from delayed_tracker.bookkeeper.recovery.closing import closed, last_known
from tests.bookkeeper.reading.test_entry_reads import ABC, metadata_of

RECOVERING = replace(metadata_of().with_segment(10, ("a", "b", "d")), state=LedgerState.IN_RECOVERY)


@pytest.mark.parametrize(("said", "last"), [(-1, 9), (8, 9), (9, 9), (10, 10), (25, 25)])
def test_entries_before_the_last_segment_are_known(said, last):
    """Bookies of a new segment know nothing before its first entry arrives; what is older must not be added again."""
    assert last_known(RECOVERING, said) == last


def test_nothing_is_known_about_a_new_ledger():
    assert last_known(metadata_of(), -1) == -1


def test_a_ledger_is_closed_as_it_was_found():
    made = closed(RECOVERING, [], last_entry_id=12, payload_bytes=1_200)
    assert (made.state, made.last_entry_id, made.payload_bytes) == (LedgerState.CLOSED, 12, 1_200)
    assert made.segments == RECOVERING.segments


def test_a_segment_from_the_same_entry_takes_the_place_of_the_last_one():
    changes = [(10, ("a", "e", "d")), (12, ("f", "e", "d"))]
    made = closed(RECOVERING, changes, last_entry_id=12, payload_bytes=1_200)
    assert made.segments == ((0, ABC), (10, ("a", "e", "d")), (12, ("f", "e", "d")))


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.CLOSED])
def test_only_a_ledger_in_recovery_is_closed(state):
    with pytest.raises(MetadataConflict, match=f"became {state.name} during its recovery"):
        closed(replace(RECOVERING, state=state), [], last_entry_id=12, payload_bytes=1_200)


def test_a_segment_that_somebody_added_is_not_overwritten():
    found = RECOVERING.with_segment(11, ABC)
    with pytest.raises(MetadataConflict, match="got a segment from entry 11"):
        closed(found, [(10, ("a", "e", "d"))], last_entry_id=12, payload_bytes=1_200)
