"""Tests of finding entries by index: the rules of the proposal, those of the shipped broker, and missing indexes."""

import math
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import BrokerMetadataMissing, EntriesUnreadable, MessageIndexInvalid, MessageNotFound
from delayed_tracker.ledger.queries.message_index import EARLIEST, IndexLookupMode, position_by_index
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from tests.ledger.harness.memory_ledgers import TOPIC, entry, log_of, made_log

MILLION = 1_000_000
SHIPPED = IndexLookupMode.PULSAR_COMPATIBLE


def proposals_example() -> EntryLookup:
    """Return entries A (messages 0 to 2) and B (3 and 4)."""
    return EntryLookup(log_of([entry(index=2, batch=3), entry(index=4, batch=2)]))


@pytest.mark.parametrize(("index", "entry_id"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)])
def test_the_proposals_example(index, entry_id):
    """All messages of an entry give its position.

    Source, PIP-415: "Param indexes 0,1,2 or 3,4 will return the same MessageID".
    """
    assert position_by_index(proposals_example(), index) == Position(3, entry_id)


@pytest.mark.parametrize(("index", "position"), [(0, EARLIEST), (1, EARLIEST), (2, (3, 0)), (3, (3, 1)), (4, (3, 1))])
def test_the_shipped_broker_takes_the_first_batch_for_expired(index, position):
    """The shipped broker compares only the last index of the first entry, so earlier messages count as expired."""
    assert position_by_index(proposals_example(), index, mode=SHIPPED) == position


@pytest.mark.parametrize("mode", IndexLookupMode)
def test_an_index_that_is_invalid(mode):
    """An invalid index is refused.

    Source, PIP-415: "An index value of -1 or one that exceeds the maximum index range is considered invalid".
    """
    with pytest.raises(MessageIndexInvalid, match=r"index: -1 .*give 0 or more"):
        position_by_index(proposals_example(), -1, mode=mode)
    with pytest.raises(MessageNotFound, match=f"{TOPIC} has no user message at or behind index 5"):
        position_by_index(proposals_example(), 5, mode=mode)
    with pytest.raises(MessageNotFound, match="no messages"):
        position_by_index(EntryLookup(log_of([])), 0, mode=mode)


@pytest.mark.parametrize("mode", IndexLookupMode)
def test_an_expired_message(mode):
    """An expired message gives EARLIEST.

    Source, PIP-415: "if the specified message has expired and been deleted, return MessageId.Earliest".
    """
    lookup = EntryLookup(log_of([entry(index=12, batch=3), entry(index=13)]))
    assert position_by_index(lookup, 9, mode=mode) == EARLIEST
    assert position_by_index(lookup, 13, mode=mode) == Position(3, 1)


@pytest.mark.parametrize("mode", IndexLookupMode)
@pytest.mark.parametrize("entry_count", [None, 9])
def test_the_last_ledger_is_nowhere(mode, entry_count):
    """If the last ledger is absent, earlier messages are found, and an index that only it can have is an error."""
    there = log_of([entry(index=2, batch=3), entry(index=4, batch=2)])
    absent = AbsentLedger(9, entry_count, "it is gone")
    for index, position in ((2, (3, 0)), (3, (3, 1)), (4, (3, 1))):
        lookup = EntryLookup(replace(there, ledgers=(*there.ledgers, absent)))
        assert position_by_index(lookup, index, mode=mode) == Position(*position)
    with pytest.raises(EntriesUnreadable, match=r"(ledger 9|entry 9:0): it is gone"):
        position_by_index(lookup, 5, mode=mode)
    with pytest.raises(EntriesUnreadable, match="it is gone"):
        position_by_index(EntryLookup(replace(there, ledgers=(absent,))), 0, mode=mode)


def test_a_system_message():
    """An index of a system message gives the next user message, at any distance.

    Source, PIP-415: "If the index points to a system message, return the first user message following it".
    """
    ledgers = [[entry(index=0)] + [entry(index=1 + at, marker=True) for at in range(40)], [entry(index=41)]]
    assert position_by_index(EntryLookup(log_of(*ledgers)), 5) == Position(5, 0)
    assert position_by_index(EntryLookup(log_of(*ledgers)), 5, mode=SHIPPED) == Position(3, 5)
    with pytest.raises(MessageNotFound, match="index 5"):
        position_by_index(EntryLookup(log_of(*ledgers[:1])), 5)


def test_batches_of_transactions_count_as_one():
    """The batch of a transaction has one index, so a lower index belongs to another message or has expired."""
    lookup = EntryLookup(log_of([entry(index=7, batch=5, transaction=True), entry(index=8, batch=5, transaction=True)]))
    assert position_by_index(lookup, 6) == EARLIEST
    assert position_by_index(lookup, 7) == Position(3, 0)
    assert position_by_index(lookup, 8) == Position(3, 1)


def plain(count: int) -> list[bytes]:
    return [entry() for _ in range(count)]


def indexed(first: int, count: int) -> list[bytes]:
    return [entry(index=first + at) for at in range(count)]


@pytest.mark.parametrize(
    "ledgers",
    [
        [plain(9), indexed(0, 4), indexed(4, 4)],
        [indexed(0, 4), indexed(4, 4), plain(9)],
        [indexed(0, 4), plain(30), indexed(4, 4)],
        [plain(3), indexed(0, 4), plain(9), plain(9), indexed(4, 4), plain(40)],
        [plain(3), indexed(0, 1), plain(70), indexed(1, 6), plain(40), indexed(7, 1)],
        [indexed(0, 1), plain(7), indexed(1, 1), plain(70), indexed(2, 6), plain(7)],
    ],
)
def test_parts_of_a_topic_without_indexes(ledgers):
    """If any part of a topic has no indexes, each message of the other parts is found, and no other."""
    log = log_of(*ledgers)
    numbers = {
        index: number for number, payload in enumerate(chain(*ledgers)) if (index := index_of(payload)) is not None
    }
    for index in range(8):
        lookup = EntryLookup(log)
        assert lookup.number(position_by_index(lookup, index)) == numbers[index]
    with pytest.raises(MessageNotFound):
        position_by_index(EntryLookup(log), 8)


def index_of(payload: bytes) -> int | None:
    return EntryLookup(log_of([payload])).index(0)


def test_the_shipped_broker_needs_an_index_in_the_first_entry():
    """The shipped broker needs an index in the first entry, while the proposal needs one in any entry."""
    log = log_of(plain(3), indexed(0, 3))
    assert position_by_index(EntryLookup(log), 1) == Position(5, 1)
    with pytest.raises(BrokerMetadataMissing, match="brokerEntryMetadataInterceptors"):
        position_by_index(EntryLookup(log), 1, mode=SHIPPED)
    for mode in IndexLookupMode:
        with pytest.raises(BrokerMetadataMissing):
            position_by_index(EntryLookup(log_of(plain(3), plain(3))), 1, mode=mode)


def test_expired_messages_of_a_topic_that_now_has_no_indexes():
    """A message deleted before a part without indexes has expired, too."""
    log = log_of(plain(20), indexed(50, 3))
    assert position_by_index(EntryLookup(log), 49) == EARLIEST
    assert position_by_index(EntryLookup(log), 50) == Position(5, 0)


@pytest.mark.parametrize("mode", IndexLookupMode)
def test_indexes_that_no_message_has(mode):
    """An index that no message has gives the next message, because nothing before it has expired."""
    log = log_of(indexed(0, 3), indexed(10, 3))
    assert position_by_index(EntryLookup(log), 5, mode=mode) == Position(5, 0)


@pytest.mark.parametrize(
    ("ledgers", "number"),
    [
        ([plain(3), indexed(0, 1), plain(9), indexed(10, 3)], 13),
        ([plain(9), indexed(0, 1) + indexed(10, 1), plain(30), indexed(20, 1)], 10),
    ],
)
def test_indexes_that_no_message_has_between_parts_without_any(ledgers, number):
    """An earlier index proves that the missing message did not expire."""
    lookup = EntryLookup(log_of(*ledgers))
    assert lookup.number(position_by_index(lookup, 5)) == number


def test_a_ledger_that_begins_with_an_entry_without_a_message():
    """The last entry of a ledger shows that its entries have indexes if the first has none."""
    lookup = EntryLookup(log_of(plain(9), plain(1) + indexed(0, 2), plain(30), indexed(2, 1)))
    assert lookup.number(position_by_index(lookup, 0)) == 10


@pytest.mark.parametrize(
    "ledgers",
    [
        # Neither end of the first ledger has an index, and behind it are two ledgers without any.
        [plain(1) + indexed(0, 7) + plain(1), plain(1), plain(5), indexed(7, 1)],
        [plain(9), plain(1) + indexed(0, 3) + plain(1) + indexed(3, 2) + plain(3), plain(1), plain(1)],
        [plain(1), plain(1) + indexed(0, 1) + plain(1), plain(3), indexed(1, 9)],
        [plain(2) + indexed(0, 400) + plain(3), plain(40), plain(700), indexed(400, 3)],
    ],
)
def test_ledgers_that_begin_and_end_with_an_entry_without_a_message(ledgers):
    """An index is found, and neither expired nor above the last, if the ends of its ledger have none."""
    log = log_of(*ledgers)
    numbers = {
        index: number for number, payload in enumerate(chain(*ledgers)) if (index := index_of(payload)) is not None
    }
    for index, number in numbers.items():
        lookup = EntryLookup(log)
        assert lookup.number(position_by_index(lookup, index)) == number


def test_a_ledger_without_an_index_costs_a_bounded_number_of_reads():
    """A search ledger by ledger reads at most 16 entries of each ledger without an index, and few of the others."""
    before, behind = ([plain(200) for _ in range(count)] for count in (15, 25))
    lookup = EntryLookup(log_of(*before, plain(1) + indexed(0, 2), *behind, indexed(2, 1)))
    assert lookup.number(position_by_index(lookup, 0)) == 3_001
    assert 16 * 15 < lookup.touched_count <= 16 * 15 + 4 * math.log2(lookup.entry_count)


MESSAGES = st.tuples(st.sampled_from(["single", "batch", "marker", "transaction", "no message"]), st.integers(1, 5))
LEDGERS = st.lists(st.tuples(st.booleans(), st.lists(MESSAGES, max_size=7)), min_size=1, max_size=7)


@given(ledgers=LEDGERS, first=st.sampled_from([0, 10]))
def test_equals_a_look_at_every_entry(ledgers, first):
    """Any mixture of entries, with and without indexes, gives the same result as reading every entry."""
    made, rows, last = [], [], first - 1
    for has_index, messages in ledgers:
        payloads = []
        for kind, size in messages:
            # Brokers give no index to an entry whose sender declares that it has no message.
            indexed_entry = has_index and kind != "no message"
            count = size if kind == "batch" else 1
            last += count if indexed_entry else 0
            rows.append((last - count + 1 if indexed_entry else None, last, kind == "marker"))
            payloads.append(
                entry(
                    index=last if indexed_entry else None,
                    batch=size if kind in {"batch", "transaction"} else None,
                    marker=kind == "marker",
                    transaction=kind == "transaction",
                )
            )
        made.append(payloads)
    log = log_of(*made)
    for index in range(last + 3):
        lookup = EntryLookup(log)
        try:
            found = position_by_index(lookup, index)
            found = found if found == EARLIEST else lookup.number(found)
        except (MessageNotFound, BrokerMetadataMissing) as error:
            found = type(error)
        assert found == naive(rows, index)


def naive(rows, index):
    """Return the result of reading every entry from the beginning."""
    if not rows:
        return MessageNotFound
    with_index = [number for number, (first, _, _) in enumerate(rows) if first is not None]
    if not with_index:
        return BrokerMetadataMissing
    if index < rows[with_index[0]][0]:
        return EARLIEST
    for number in with_index:
        if rows[number][1] >= index:
            users = [later for later in range(number, len(rows)) if not rows[later][2]]
            return users[0] if users else MessageNotFound
    return MessageNotFound


@pytest.mark.parametrize("mode", IndexLookupMode)
def test_a_million_entries(mode):
    """A search in a million entries reads few, and parses at most the metadata of the result."""
    log = made_log(MILLION, 49_999, lambda number: entry(index=number * 3 + 2, batch=3))
    for number in (1, 2, 12_345, 499_999, 500_000, 777_777, MILLION - 1):
        lookup = EntryLookup(log)
        assert lookup.number(position_by_index(lookup, number * 3, mode=mode)) == number
        assert lookup.touched_count <= 2 * math.log2(MILLION)
        assert lookup.metadata_parsed_count <= 1
    lookup = EntryLookup(log)
    with pytest.raises(MessageNotFound):
        position_by_index(lookup, MILLION * 3, mode=mode)
    assert lookup.touched_count <= 2 * math.log2(MILLION)


@pytest.mark.parametrize("part", [(0, 400_000), (600_000, MILLION), (300_000, 600_000)])
def test_a_million_entries_of_which_a_part_has_no_index(part):
    """If a part of a million entries has no index, the search costs at most one more search."""
    before = np.zeros(MILLION + 1, np.int64)
    before[1:] = np.cumsum([not part[0] <= number < part[1] for number in range(MILLION)])

    def make(number: int) -> bytes:
        return entry(index=None if part[0] <= number < part[1] else int(before[number]))

    log = made_log(MILLION, 1_000, make)
    for index in (0, 1, 123_456, 299_999, 300_000, 599_999):
        lookup = EntryLookup(log)
        number = int(np.searchsorted(before, index + 1)) - 1
        assert lookup.number(position_by_index(lookup, index)) == number
        assert lookup.touched_count <= 2 * math.log2(MILLION)


def test_damage_on_the_way_is_an_error():
    """Damage in an entry that the search needs is an error."""
    lookup = EntryLookup(log_of([entry(index=0), None, entry(index=2)]))
    with pytest.raises(EntriesUnreadable, match="entry 3:1: lost"):
        position_by_index(lookup, 2)
