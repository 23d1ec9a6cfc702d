"""Tests of entries by number: positions across ledgers, cost, and damage."""

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import EntriesUnreadable
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic.topic_log import TopicLog
from tests.ledger.harness.memory_ledgers import entry, log_of


def three_ledgers() -> EntryLookup:
    """Return ledgers 3 (two entries), 5 (none) and 7 (one)."""
    return EntryLookup(log_of([entry(index=0), entry(index=1)], [], [entry(index=2)]))


def test_numbers_and_positions():
    """Numbers and positions convert both ways, and ledgers without entries have no numbers."""
    lookup = three_ledgers()
    places = [lookup.position(number) for number in range(lookup.entry_count)]
    assert places == [Position(3, 0), Position(3, 1), Position(7, 0)]
    assert [lookup.number(place) for place in places] == [0, 1, 2]
    assert lookup.ledger_starts == [0, 2]


@pytest.mark.parametrize(
    ("position", "before"),
    [((0, 5), 0), ((3, -1), 0), ((3, 9), 2), ((4, 0), 2), ((5, 0), 2), ((7, 1), 3), ((9, 0), 3)],
)
def test_the_number_of_a_place_that_has_no_entry(position, before):
    """The number of a position without an entry is the number of entries before it."""
    assert three_ledgers().number(Position(*position)) == before


def test_where_a_topic_goes_on():
    """The topic continues behind its last entry, or in the empty ledger that was opened for the next one."""
    assert three_ledgers().position(3) == Position(7, 1)
    assert EntryLookup(log_of([entry()], [])).position(1) == Position(5, 0)
    nothing = EntryLookup(TopicLog(log_of().name, ()))
    assert (nothing.entry_count, nothing.position(0), nothing.ledger_starts) == (0, Position(-1, -1), [])


def test_an_entry_is_read_once_and_parsed_on_demand():
    """An entry is read once and its metadata parsed on demand, and a cached entry costs nothing."""
    lookup = EntryLookup(log_of([entry(broker_ms=7, index=0), entry(publish_ms=9)]))
    assert (lookup.time_ms(0), lookup.index(0)) == (7, 0)
    assert (lookup.touched_count, lookup.metadata_parsed_count) == (1, 0)
    assert (lookup.time_ms(1), lookup.index(1), lookup.time_ms(1)) == (9, None, 9)
    assert (lookup.touched_count, lookup.metadata_parsed_count) == (2, 1)


def test_the_cache_is_small():
    """Entries that were not used recently, and large entries, are read again."""
    log = log_of([entry(index=number) for number in range(100)])
    lookup = EntryLookup(log)
    for number in range(1, 100):
        lookup.index(0)
        lookup.index(number)
    for number in (0, 99, 1):
        lookup.index(number)
    assert log.ledgers[0].read_ids == [*range(100), 1]
    assert lookup.touched_count == 101
    large = EntryLookup(log_of([entry(index=0) + bytes(1 << 20)]))
    assert (large.index(0), large.index(0), large.touched_count) == (0, 0, 2)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (None, "lost"),
        (b"\x0e\x02\0\0", "cut short"),
        (b"\x0e\x02\0\0\0\x02\x08\xff" + entry(), "does not parse"),
        (entry()[:-1] + b"?", "CRC32C"),
        (b"\0\0\0\x01\xff", "does not parse"),
    ],
)
def test_damage_is_an_error_that_names_the_entry(payload, reason):
    """Damage of any kind raises an error that names the entry."""
    lookup = EntryLookup(log_of([entry(), payload]))
    with pytest.raises(EntriesUnreadable, match=f"entry 3:1: .*{reason}"):
        lookup.time_ms(1)
    with pytest.raises(EntriesUnreadable, match=f"entry 3:1: .*{reason}"):
        list(lookup.pieces(0))


def test_pieces_grow_and_end_with_ledgers():
    """Pieces start with a few entries, grow, end with their ledger, and count all entries read."""
    lookup = EntryLookup(log_of([entry()] * 20, [entry()] * 100))
    assert [len(piece) for piece in lookup.pieces(3)] == [16, 1, 64, 36]
    assert lookup.touched_count == 117


def test_unsigned_values_read_as_java_reads_them():
    """A time above 2^63 is negative, as in Java."""
    assert EntryLookup(log_of([entry(publish_ms=2**64 - 5)])).time_ms(0) == -5
    assert EntryLookup(log_of([entry(broker_ms=2**64 - 5)])).time_ms(0) == -5
