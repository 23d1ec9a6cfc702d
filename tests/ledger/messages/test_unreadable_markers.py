"""Tests of transactions whose end may be an entry that cannot be read."""

from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction import Compaction
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy, MessageNotVisible
from delayed_tracker.ledger.messages import MessageOptions, MessageReader, OpenTransactions
from delayed_tracker.ledger.messages.one_entry import messages_of_entry
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.harness.log_files import flipped
from tests.ledger.messages.producer import marker, single

COMMIT = marker(21, (0, 1))
DAMAGED = flipped(COMMIT, len(COMMIT) - 3)
SKIP = ErrorPolicy.SKIP


def message(letter: str, **fields) -> bytes:
    return single(letter.encode(), partition_key=letter, **fields)


def topic(*end: bytes | None):
    """Return a topic with a message in a transaction at 3:1, and its end at 3:5; a piece has three entries."""
    in_transaction = message("T", txnid_most_bits=0, txnid_least_bits=1)
    return topic_of({3: [message("A"), in_transaction, *map(message, "BCD"), *end]})


@pytest.mark.parametrize("unreadable", [DAMAGED, None], ids=["damaged", "missing"])
def test_a_marker_that_cannot_be_read_is_no_open_transaction(unreadable):
    """Reading and compaction stop with an error, or list the entry, if an unreadable entry may end the transaction."""
    log = topic(unreadable, *map(message, "EF"))

    with pytest.raises(EntriesUnreadable, match="entry 3:5"):
        list(MessageReader(log).read())
    with pytest.raises(EntriesUnreadable, match="entry 3:5"):
        Compaction(log=log).choose()

    reader = MessageReader(log, MessageOptions(on_error=SKIP))
    assert [message.payload for message in reader.read()] == [b"A"]
    assert [(bad.ledger_id, bad.entry_id) for bad in reader.bad_entries] == [(3, 5)]
    plan = Compaction(log=log, on_error=SKIP).choose()
    assert plan.horizon == (3, 0)
    assert [(bad.ledger_id, bad.entry_id) for bad in plan.bad_entries] == [(3, 5)]


@pytest.mark.parametrize("open_transactions", OpenTransactions)
def test_one_message_whose_marker_cannot_be_read(open_transactions):
    """A message is not called one of an open transaction if an unreadable entry may be the marker."""
    options = MessageOptions(open_transactions=open_transactions)
    with pytest.raises(EntriesUnreadable, match="entry 3:5"):
        messages_of_entry(topic(DAMAGED), Position(3, 1), options)
    with pytest.raises(MessageNotVisible, match="neither committed nor aborted"):
        messages_of_entry(topic(message("E")), Position(3, 1), options)


def test_each_unreadable_entry_is_listed_once():
    """Unreadable entries before, in and behind the piece at which reading stops are listed once each."""
    open_one = single(b"T", txnid_most_bits=0, txnid_least_bits=2)
    lost = flipped(message("x"), -1)
    log = topic(COMMIT, lost, None, open_one, lost, None, lost, None, message("E"))
    reader = MessageReader(log, MessageOptions(on_error=SKIP))

    assert [message.payload for message in reader.read()] == [b"A", b"T", b"B", b"C", b"D"]
    assert sorted(bad.entry_id for bad in reader.bad_entries) == [6, 7, 9, 10, 11, 12]
    plan = Compaction(log=log, on_error=SKIP).choose()
    assert sorted(bad.entry_id for bad in plan.bad_entries) == [6, 7, 9, 10, 11, 12]


def test_a_ledger_that_is_nowhere_may_have_the_marker():
    """A ledger that cannot be read at all may have the marker, but only if it is behind the message."""
    log = topic(COMMIT)
    absent = AbsentLedger(5, None, "it is gone")
    open_one = topic_of({7: [single(b"T", txnid_most_bits=0, txnid_least_bits=2)]})
    for ledgers, gone in (((absent, *open_one.ledgers), 5), ((*open_one.ledgers, replace(absent, ledger_id=9)), 9)):
        reader = MessageReader(replace(log, ledgers=(*log.ledgers, *ledgers)), MessageOptions(on_error=SKIP))
        assert [message.payload for message in reader.read()] == [b"A", b"T", b"B", b"C", b"D"]
        assert [bad.ledger_id for bad in reader.bad_entries] == [gone]


def test_damage_does_not_matter_if_the_marker_is_there():
    """Damage behind the end of a transaction does not hide it, and is listed when it is reached."""
    log = topic(COMMIT, message("E"), DAMAGED)
    assert next(MessageReader(log).read()).payload == b"A"
    with pytest.raises(EntriesUnreadable, match="entry 3:7"):
        list(MessageReader(log).read())
