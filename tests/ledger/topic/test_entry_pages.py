"""Tests of pages of entries: their bounds, and that they cover each entry once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.topic.entry_pages import read_page
from tests.ledger.harness.memory_ledgers import log_of


def all_pages(log, *, start=None, **bounds):
    """Return all pages from a position on."""
    pages = [read_page(log, start, **bounds)]
    while pages[-1].next is not None:
        pages.append(read_page(log, pages[-1].next, **bounds))
    return pages


def positions(page):
    return [*page.entries.positions]


LEDGERS = st.lists(st.lists(st.one_of(st.none(), st.integers(0, 30).map(bytes)), max_size=25), max_size=5)


@given(LEDGERS, st.integers(1, 40), st.integers(1, 120))
def test_pages_together_are_the_topic(ledgers, entries_max, bytes_max):
    """Pages have each entry once in order, whole or bad, within the bounds if these allow it."""
    log = log_of(*ledgers)
    places = {Position(3 + 2 * at, row): entry for at, ledger in enumerate(ledgers) for row, entry in enumerate(ledger)}
    pages = all_pages(log, entries_max=entries_max, bytes_max=bytes_max)
    whole = [(at, page.entries.payload(row)) for page in pages for row, at in enumerate(positions(page))]
    assert whole == [(at, entry) for at, entry in places.items() if entry is not None]
    lost = [Position(bad.ledger_id, bad.entry_id) for page in pages for bad in page.bad_entries]
    assert lost == [at for at, entry in places.items() if entry is None]
    for page in pages:
        assert len(page.entries) + len(page.bad_entries) <= entries_max
        assert page.entries.payload_bytes <= bytes_max or len(page.entries) == 1


@pytest.mark.parametrize(
    ("start", "first"),
    [(None, (3, 0)), ((0, 7), (3, 0)), ((3, -1), (3, 0)), ((3, 1), (3, 1)), ((3, 9), (7, 0)), ((4, 0), (7, 0))],
)
def test_a_page_begins_at_the_next_entry_there_is(start, first):
    """A page begins at the next existing entry."""
    log = log_of([b"a", b"b"], [], [b"c"])
    page = read_page(log, start and Position(*start), entries_max=1, bytes_max=100)
    assert positions(page) == [Position(*first)]


@pytest.mark.parametrize("start", [(7, 1), (8, 0)])
def test_a_page_behind_the_end_is_empty(start):
    """A page behind the end is empty and has no next page."""
    page = read_page(log_of([b"a"], [], [b"c"]), Position(*start), entries_max=1, bytes_max=100)
    assert (positions(page), page.next) == ([], None)


def test_few_entries_are_read_beyond_a_page():
    """The number of entries read for a page follows their size and not the bound of their number."""
    log = log_of([bytes(100)] * 1_000)
    page = read_page(log, None, entries_max=1_000, bytes_max=3_000)
    assert len(page.entries) == 30
    assert len(log.ledgers[0].read_ids) <= 32


@pytest.mark.parametrize("bounds", [{"entries_max": 0, "bytes_max": 1}, {"entries_max": 1, "bytes_max": 0}])
def test_bounds_below_one(bounds):
    with pytest.raises(InvalidInput, match="give 1 or more"):
        read_page(log_of([b"a"]), None, **bounds)
