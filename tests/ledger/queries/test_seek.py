"""Tests of finding positions by time: boundaries, both kinds of clocks, and entries read."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import EntriesUnreadable
from delayed_tracker.ledger.queries.seek import TimeSeek, newest_matching, oldest_message_expired, seek_by_time
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from tests.ledger.harness.memory_ledgers import entry, log_of, made_log

MILLION = 1_000_000


def both_kinds(*times: int) -> EntryLookup:
    """Return two ledgers, the first half of them with producers' times only."""
    half = len(times) // 2
    return EntryLookup(
        log_of(
            [entry(publish_ms=time) for time in times[:half]],
            # The producers' clocks of the second half are far off, and must not be used.
            [entry(publish_ms=1, broker_ms=time) for time in times[half:]],
        )
    )


@pytest.mark.parametrize(
    ("time_ms", "position", "behind_end"),
    [
        (-1, (3, 0), False),
        (10, (3, 0), False),
        (11, (3, 1), False),
        (20, (3, 1), False),
        (21, (5, 0), False),
        (30, (5, 0), False),
        (31, (5, 1), False),
        (41, (5, 2), True),
    ],
)
def test_the_first_entry_at_or_after_a_time(time_ms, position, behind_end):
    """Each entry counts by the broker's time if it has one, and by the producer's time otherwise."""
    found = seek_by_time(both_kinds(10, 20, 30, 40), time_ms)
    assert (found.position, found.behind_end) == (Position(*position), behind_end)


def test_many_entries_of_one_millisecond():
    """A seek to a millisecond with many entries gives the first of them."""
    assert seek_by_time(both_kinds(5, 7, 7, 7, 7, 9), 7).position == Position(3, 1)


@pytest.mark.parametrize("entry_count", [None, 9])
def test_the_last_ledger_is_nowhere(entry_count):
    """If the last ledger is absent, earlier times are found, and later times are an error."""
    there = both_kinds(10, 20, 30, 40).log
    lookup = EntryLookup(replace(there, ledgers=(*there.ledgers, AbsentLedger(9, entry_count, "it is gone"))))
    for time_ms, position in ((0, (3, 0)), (20, (3, 1)), (40, (5, 1))):
        assert seek_by_time(lookup, time_ms) == TimeSeek(Position(*position), behind_end=False)
    with pytest.raises(EntriesUnreadable, match=r"(ledger 9|entry 9:0): it is gone"):
        seek_by_time(lookup, 41)
    with pytest.raises(EntriesUnreadable, match="it is gone"):
        seek_by_time(EntryLookup(replace(there, ledgers=lookup.log.ledgers[2:])), 0)


def test_a_topic_without_entries():
    """In a topic without entries, reading continues at its first entry."""
    found = seek_by_time(EntryLookup(log_of([])), 5)
    assert (found.position, found.behind_end) == (Position(3, 0), True)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(-1, 13))
def test_every_place_is_a_boundary(times, time_ms):
    """The result is a boundary for any clocks, and it is the first entry if that is late enough.

    At a boundary, the next entry is not earlier than the time, and the one before it is.
    """
    lookup = both_kinds(*times)
    number = lookup.number(seek_by_time(lookup, time_ms).position)
    assert number == len(times) or times[number] >= time_ms
    assert number == 0 or times[number - 1] < time_ms
    if times[0] >= time_ms:
        assert number == 0
    if times == sorted(times):
        assert number == sum(time < time_ms for time in times)


@given(st.lists(st.booleans(), max_size=80))
def test_the_search_looks_where_pulsar_looks(truths):
    """The search reads first, last, then halves rounded up, because with stepping clocks the result depends on that."""
    asked = []

    def matches(number: int) -> bool:
        asked.append(number)
        return truths[number]

    found = newest_matching(len(truths), matches)
    assert (found, asked) == pulsars_search(truths)


def pulsars_search(truths):
    """Return the result of a state machine like OpFindNewest."""
    asked = []
    if not truths:
        return None, asked
    state, number, matched = "first", 0, None
    lowest, highest = 0, len(truths) - 1
    while True:
        asked.append(number)
        if state == "first":
            if not truths[number]:
                return None, asked
            matched, state, number = number, "last", highest
        elif state == "last":
            if truths[number]:
                return number, asked
            state, number = "between", lowest + max((highest - lowest) // 2, 1)
        else:
            if truths[number]:
                matched = lowest = number
            else:
                highest = number - 1
            if highest <= lowest:
                return matched, asked
            number = lowest + max((highest - lowest) // 2, 1)


@pytest.mark.parametrize("broker_from", [0, MILLION // 2, MILLION])
def test_a_million_entries(broker_from):
    """A search in a million entries reads few, and parses only the metadata of entries without broker time."""

    def make(number: int) -> bytes:
        return entry(publish_ms=number * 10, broker_ms=number * 10 if number >= broker_from else None)

    log = made_log(MILLION, 49_999, make)
    for number in (0, 1, 12_345, 499_999, 500_000, 777_777, MILLION - 1, MILLION):
        lookup = EntryLookup(log)
        assert lookup.number(seek_by_time(lookup, number * 10 - 3).position) == number
        assert lookup.touched_count <= 2 * math.log2(MILLION)
        if broker_from == 0:
            assert lookup.metadata_parsed_count == 0


def test_damage_on_the_way_is_an_error():
    """Damage in an entry that the search needs is an error."""
    with pytest.raises(EntriesUnreadable, match="entry 3:1: lost"):
        seek_by_time(EntryLookup(log_of([entry(publish_ms=1), None, entry(publish_ms=3)])), 3)


def test_whether_the_oldest_message_has_expired():
    """The oldest message has expired when it is older than its time to live, and never with a time to live of 0."""
    lookup = both_kinds(1_000, 2_000, 3_000, 4_000)
    assert not oldest_message_expired(lookup, 5, now_ms=6_000)
    assert oldest_message_expired(lookup, 5, now_ms=6_001)
    assert not oldest_message_expired(lookup, 0, now_ms=2**62)
    assert lookup.touched_count == 1


def test_the_oldest_message_of_a_subscription():
    """The oldest message of a subscription is the one behind its mark-delete position, in any ledger, if any."""
    lookup = both_kinds(1_000, 2_000, 3_000, 4_000)
    assert not oldest_message_expired(lookup, 5, now_ms=8_000, mark_delete=Position(3, 1))
    assert oldest_message_expired(lookup, 5, now_ms=8_001, mark_delete=Position(3, 1))
    assert not oldest_message_expired(lookup, 5, now_ms=2**62, mark_delete=Position(5, 1))
    assert not oldest_message_expired(EntryLookup(log_of([])), 5, now_ms=2**62)


@pytest.mark.parametrize("ttl_seconds", [-1, 2**31])
def test_a_time_to_live_out_of_range(ttl_seconds):
    with pytest.raises(InvalidInput, match="ttl_seconds"):
        oldest_message_expired(both_kinds(1, 2), ttl_seconds, now_ms=0)
