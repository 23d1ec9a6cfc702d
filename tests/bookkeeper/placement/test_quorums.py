"""Quorums against their definitions, bookie by bookie."""

from itertools import product

import pytest

from delayed_tracker.bookkeeper.placement.quorums import ENSEMBLE_MAX, Quorums
from delayed_tracker.core.values.errors import InvalidInput

SIZES = [
    Quorums(ensemble, write, ack) for ensemble, write, ack in product(range(1, 6), repeat=3) if ack <= write <= ensemble
]


@pytest.mark.parametrize(
    ("ensemble", "write", "ack"), [(0, 0, 0), (1, 1, 0), (1, 2, 1), (3, 2, 3), (ENSEMBLE_MAX + 1, 1, 1), (2, -1, -1)]
)
def test_sizes_that_do_not_fit_are_refused(ensemble, write, ack):
    with pytest.raises(InvalidInput, match="1 <= ack <= write <= ensemble"):
        Quorums(ensemble, write, ack)


@pytest.mark.parametrize("quorums", SIZES, ids=str)
def test_entries_go_round(quorums):
    for entry_id in range(3 * quorums.ensemble):
        bookies = quorums.write_set(entry_id)
        assert bookies == tuple((entry_id + number) % quorums.ensemble for number in range(quorums.write))
        assert quorums.write_mask(entry_id) == sum(2**index for index in bookies)


@pytest.mark.parametrize("quorums", SIZES, ids=str)
def test_each_bookie_has_its_share_of_consecutive_entries(quorums):
    for first, count in product(range(quorums.ensemble), range(1, 2 * quorums.ensemble + 1)):
        shares = dict(quorums.shares(first, count))
        entries = range(first, first + count)
        expected = {
            index: [entry_id for entry_id in entries if index in quorums.write_set(entry_id)]
            for index in range(quorums.ensemble)
        }
        assert {index: [*share] for index, share in shares.items()} == {
            index: share for index, share in expected.items() if share
        }


@pytest.mark.parametrize("quorums", SIZES, ids=str)
def test_it_covers_if_any_ack_bookies_of_every_entry_include_one_that_answered(quorums):
    """The bookies that have not answered alone cannot have acknowledged anything."""
    for answered in range(2**quorums.ensemble):
        silent = [
            sum(not answered >> index & 1 for index in quorums.write_set(entry_id))
            for entry_id in range(quorums.ensemble)
        ]
        assert quorums.covers(answered) == (max(silent) < quorums.ack)


@pytest.mark.parametrize("quorums", SIZES, ids=str)
def test_what_is_missing_was_never_stored_by_enough(quorums):
    """As soon as an entry counts as missing, the bookies that are left are fewer than the ack quorum."""
    for count in range(quorums.write + 1):
        assert quorums.is_missing(count) == (quorums.write - count < quorums.ack)
        assert quorums.is_lost_to(2**count - 1) == quorums.is_missing(count)
        assert quorums.is_stored(2**count - 1) == (count >= quorums.ack)
