"""Tests of reading the messages of one entry at any position."""

from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import EntriesUnreadable, LedgerNotFound, MessageNotVisible
from delayed_tracker.ledger.messages import MessageOptions, load_key_files, one_entry
from delayed_tracker.ledger.messages.one_entry import messages_of_entry
from delayed_tracker.ledger.source import open_bookie_disk
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from tests.golden.pulsar_pack import BOOKIE, METADATA, PACK, expected
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.harness.log_files import flipped
from tests.ledger.messages.producer import batch, chunks, marker, single, slot

TXN = {"txnid_most_bits": 0, "txnid_least_bits": 1}


def payloads(ledgers, position: tuple[int, int], options: MessageOptions | None = None) -> list[bytes]:
    return [message.payload for message in messages_of_entry(topic_of(ledgers), Position(*position), options)]


def test_a_message_and_those_of_a_batch():
    """An entry gives its message or its batch, without compacted slots, and no other entry is read."""
    dropped = slot(1, b"", compacted_out=True)
    ledgers = {3: [None, single(b"a"), batch([slot(0, b"b"), dropped, slot(2, b"c")]), None]}
    assert payloads(ledgers, (3, 1)) == [b"a"]
    assert payloads(ledgers, (3, 2)) == [b"b", b"c"]


@pytest.mark.parametrize("position", [(3, 1), (3, 3), (4, 0)])
def test_any_piece_leads_to_the_whole_message(position):
    """Any chunk leads to the whole message, across other entries (also damaged ones), other chunks and ledgers."""
    one, two, three = chunks(b"abcdef", 2, uuid="u")
    other = chunks(b"xyz", 1, uuid="v")[0]
    ledgers = {3: [single(b"-"), one, other, two], 4: [three, flipped(single(b"-"), 20)]}
    assert payloads(ledgers, position) == [b"abcdef"]
    ledgers[3][2] = flipped(other, 20)
    assert payloads(ledgers, position) == [b"abcdef"]
    ledgers[3][2] = None
    assert payloads(ledgers, position) == [b"abcdef"]


def test_pieces_that_never_become_a_message():
    """A chunk whose message lacks its end or its beginning is an error, and the search for the beginning ends."""
    first, second, third = chunks(b"abcdef", 2, uuid="u")
    with pytest.raises(MessageNotVisible, match="entries end before chunk 2 of 3"):
        payloads({3: [first, second, single(b"-")]}, (3, 1))
    with pytest.raises(MessageNotVisible, match="piece 2 of 3 of a message, whose first piece is not among"):
        payloads({3: [single(b"-"), second, third]}, (3, 1))


def test_the_search_for_a_beginning_is_bounded(monkeypatch):
    """The search for the first chunk is bounded, so an old unfinished message does not read the whole topic."""
    monkeypatch.setattr(one_entry, "LOOK_BACK_ENTRIES_MAX", 2)
    first, second, third = chunks(b"abcdef", 2, uuid="u")
    assert payloads({3: [first, second, third]}, (3, 1)) == [b"abcdef"]
    with pytest.raises(MessageNotVisible, match="not among the readable ones of the 2 entries before it"):
        payloads({3: [first, second, third]}, (3, 2))


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([marker(21, (0, 1))], "it is a marker"),
        ([single(b"a", **TXN), marker(22, (0, 1))], "its transaction was aborted"),
        ([single(b"a", **TXN)], "neither committed nor aborted"),
        ([batch([slot(0, b"", compacted_out=True)])], "compaction dropped all"),
    ],
)
def test_what_no_consumer_sees_says_why(entries, why):
    """The error for an entry that no consumer receives has the reason."""
    with pytest.raises(MessageNotVisible, match=why):
        payloads({3: entries}, (3, 0))


def test_a_committed_message_is_seen():
    """A message of a committed transaction is returned, with its marker behind it."""
    assert payloads({3: [single(b"a", **TXN), marker(21, (0, 1))]}, (3, 0)) == [b"a"]


def test_entries_that_are_not_there_or_damaged():
    """A missing entry and a damaged entry raise different errors."""
    ledgers = {3: [single(b"a"), None, flipped(single(b"a"), 20)], 5: []}
    with pytest.raises(LedgerNotFound, match="no ledger 4"):
        payloads(ledgers, (4, 0))
    with pytest.raises(InvalidInput, match="ledger 3 has entries 0 to 2"):
        payloads(ledgers, (3, 3))
    with pytest.raises(InvalidInput, match="ledger 5 has no entries"):
        payloads(ledgers, (5, 0))
    for entry_count, error in ((None, EntriesUnreadable), (9, EntriesUnreadable), (5, InvalidInput)):
        log = replace(topic_of(ledgers), ledgers=(AbsentLedger(7, entry_count, "gone"),))
        with pytest.raises(error, match=r"gone|has entries 0 to 4"):
            messages_of_entry(log, Position(7, 5))
    for damaged in (1, 2):
        with pytest.raises(EntriesUnreadable, match=f"entry 3:{damaged}"):
            payloads(ledgers, (3, damaged))


def test_entries_of_a_real_broker():
    """Every tenth entry of a real broker gives the last message that Pulsar's reader received from it."""
    options = MessageOptions(keys=load_key_files({"test-key": PACK / "keys" / "private.pem"}))
    rows = {(row["topic"], row["id"]["ledger"], row["id"]["entry"]): row for row in expected("messages")}
    with open_bookie_disk([BOOKIE], METADATA) as disk:
        for (topic, ledger_id, entry_id), row in list(rows.items())[::10]:
            message = messages_of_entry(disk.topic_log(topic), Position(ledger_id, entry_id), options)[-1]
            ident = row["id"]
            assert (message.id.batch_index, message.id.batch_size) == (ident["batch_index"], ident["batch_size"])
            assert (message.index, message.publish_time_ms) == (row["index"], row["publish_time"])
            assert row["length"] == (-1 if message.null_value else len(message.payload))
