"""Golden tests of seeks by time, message ids by index and last messages, which equal the running broker's answers."""

from collections import defaultdict
from functools import cache

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import BrokerMetadataMissing, MessageIndexInvalid, MessageNotFound
from delayed_tracker.ledger.messages import MessageId
from delayed_tracker.ledger.queries.message_index import EARLIEST, IndexLookupMode, position_by_index
from delayed_tracker.ledger.queries.seek import seek_by_time
from delayed_tracker.ledger.queries.topic_queries import TopicQueries
from delayed_tracker.ledger.source_url import open_sources
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic_name import TopicName
from tests.golden.pulsar_pack import BOOKIE, METADATA, PACK, expected

NEXT_USER_MESSAGE = "If the index points to a system message, return the first user message following it"
SAME_ENTRY = "Param indexes 0,1,2 or 3,4 will return the same MessageID (e.g., MessageId(0:0:*) for Entry A)"
ONLY_IF_NOT_CONFIGURED = "412 Precondition Failed: The broker is not configured to enable broker entry metadata"
ABOVE_THE_LAST = "404 Not Found: An index value of -1 or one that exceeds the maximum index range is considered invalid"

LATE_FRAMES = {
    0: (25, 0), 1: (25, 1), 2: (25, 2), 3: (25, 3), 5: (25, 5), 8: (25, 8), 15: (25, 15), 31: (25, 31), 47: (25, 47),
    62: (25, 61), 78: (25, 66), 94: (25, 69), 110: (25, 74), 125: (25, 79), 141: (25, 82), 157: (25, 87),
    173: (25, 91), 188: (25, 95), 204: (25, 99), 220: (26, 3), 235: (26, 9), 251: (26, 16), 267: (26, 21),
    283: (26, 27), 298: (26, 31), 314: (26, 37), 330: (26, 44), 345: (26, 49), 346: (26, 49),
}  # fmt: skip
REPL_MARKERS = {
    2: 6, 3: 6, 4: 6, 5: 6, 10: 13, 15: 19, 17: 19, 21: 25, 24: 25, 26: 30, 28: 30, 32: 36, 34: 36, 39: 43, 41: 43,
    45: 48, 47: 48,
}  # fmt: skip

# (topic, index) -> our default answer where the broker's differs, and the sentence of the proposal for it.
DIFFERENT_BY_DEFAULT = (
    {("batched", index): (Position(30, 0), SAME_ENTRY) for index in (0, 1, 2, 3, 5)}
    | {("late-frames", index): (Position(*at), ONLY_IF_NOT_CONFIGURED) for index, at in LATE_FRAMES.items()}
    | {("late-frames", index): (MessageNotFound, ABOVE_THE_LAST) for index in (347, 353, 100_346, 2**63 - 1)}
    | {("repl-markers", index): (Position(44, entry_id), NEXT_USER_MESSAGE) for index, entry_id in REPL_MARKERS.items()}
    | {("txn", index): (Position(54, index + 1), NEXT_USER_MESSAGE) for index in (3, 8, 18, 24, 43)}
)


# topic -> the client's answer where it differs from HTTP and from ours, and the reason.
TOLD_TO_CLIENTS = {
    "comp-zstd-py": (MessageId(14, 36, -1, -1), "the client takes a batch of one for a single message"),
    "txn-open": (MessageId(60, 9, -1, -1), "the broker tells clients what they can read: nothing of open transactions"),
}


@pytest.fixture(scope="module")
def lookup_of(disk):
    """Return a function from a topic's name to its entries by number."""
    return cache(lambda topic: EntryLookup(disk.topic_log(topic)))


def answer(lookup: EntryLookup, index: int, mode: IndexLookupMode):
    """Return a position, or the class of the error."""
    try:
        return position_by_index(lookup, index, mode=mode)
    except (BrokerMetadataMissing, MessageIndexInvalid, MessageNotFound) as error:
        return type(error)


def recorded_answer(row):
    """Return the broker's answer as our values."""
    if row["status"] == 200:
        return Position(row["body"]["ledgerId"], row["body"]["entryId"])
    reasons = {
        f"Invalid message index: {row['index']}": MessageIndexInvalid,
        f"Message not found for index {row['index']}": MessageNotFound,
        "Broker entry metadata is not present in the message": BrokerMetadataMissing,
    }
    return reasons[row["body"]["reason"]]


def test_message_ids_by_index(disk, lookup_of):
    """The compatible mode gives every answer of the broker, and the default all but those listed with a reason.

    Covers every row about a topic that exists and a number.
    """
    topics = {*disk.topics()}
    rows = [row for row in expected("message_id_by_index") if row["topic"] in topics and "index" in row]
    different = {}
    for row in rows:
        lookup, recorded = lookup_of(row["topic"]), recorded_answer(row)
        assert answer(lookup, row["index"], IndexLookupMode.PULSAR_COMPATIBLE) == recorded, row
        ours = answer(lookup, row["index"], IndexLookupMode.PROPOSAL)
        if ours != recorded:
            different[TopicName.parse(row["topic"]).local_name, row["index"]] = ours
    assert len(rows) == 1_231
    assert different == {where: ours for where, (ours, _) in DIFFERENT_BY_DEFAULT.items()}


def test_every_message_is_found_by_its_index(lookup_of):
    """The index that a reader received with a message gives the message's entry.

    Topics with transactions are excluded, because their batches also have the indexes of other messages.
    """
    seen = 0
    for row in expected("messages"):
        if row["index"] is None or "/txn" in row["topic"] or "first_chunk" in row["id"]:
            continue
        found = position_by_index(lookup_of(row["topic"]), row["index"])
        assert found == Position(row["id"]["ledger"], row["id"]["entry"]), row
        seen += 1
    assert seen == 13_426


def test_an_index_that_has_expired(disk):
    """Without its first ledger, a topic answers EARLIEST for the messages in it."""
    log = disk.topic_log("persistent://lab/main/plain")
    trimmed = EntryLookup(type(log)(log.name, log.ledgers[1:]))
    for mode in IndexLookupMode:
        assert position_by_index(trimmed, 99, mode=mode) == EARLIEST
        assert position_by_index(trimmed, 100, mode=mode) == Position(28, 0)


def test_message_ids_by_time(disk):
    """A search by time gives the broker's answer: from the kept messages, or from the topic if all are older."""
    queries = TopicQueries(disk)
    rows = list(expected("by_timestamp"))
    for row in rows:
        found = queries.seek_by_time(row["topic"], row["timestamp"], read_compacted=True).position
        assert found == (row["admin_message_id"]["ledger"], row["admin_message_id"]["entry"]), row
    assert len(rows) == 691


def test_what_a_reader_reads_after_a_seek(lookup_of):
    """The first message at or behind the position of a seek is the next message that a reader received."""
    messages = defaultdict(list)
    for row in expected("messages"):
        messages[row["topic"]].append(Position(row["id"]["ledger"], row["id"]["entry"]))
    rows = [row for row in expected("by_timestamp") if row.get("seek_reads_next")]
    for row in rows:
        place = seek_by_time(lookup_of(row["topic"]), row["timestamp"]).position
        seen = next(position for position in sorted(messages[row["topic"]]) if position >= place)
        assert seen == Position(row["seek_reads_next"]["ledger"], row["seek_reads_next"]["entry"]), row
    assert len(rows) == 80


@pytest.mark.parametrize("name", ["none", "record", "block"])
def test_tiered_storage_gives_the_same_answers(name):
    """Indexes and times give the same entries if the ledgers are in tiered storage."""
    topic = f"persistent://lab/fs-{name}/stored"
    map_files = f"offload+mapfile:{PACK / 'offload-filesystem' / name}?metadata={METADATA}"
    with open_sources([map_files, f"bookkeeper+file:{BOOKIE}?metadata={METADATA}"]) as source:
        lookup = EntryLookup(source.topic_log(topic))
        by_index = [row for row in expected("message_id_by_index") if row["topic"] == topic]
        for row in by_index:
            assert answer(lookup, row["index"], IndexLookupMode.PULSAR_COMPATIBLE) == recorded_answer(row), row
        by_time = [row for row in expected("by_timestamp") if row["topic"] == topic]
        for row in by_time:
            recorded = Position(row["admin_message_id"]["ledger"], row["admin_message_id"]["entry"])
            assert seek_by_time(lookup, row["timestamp"]).position == recorded, row
    assert len(by_index) > 20
    assert len(by_time) >= 17


def test_last_messages(disk):
    """Last messages equal the HTTP answers, and the client's answers except for those listed with a reason."""
    queries = TopicQueries(disk)
    told_otherwise = {}
    rows = list(expected("last_message_id"))
    for row in rows:
        ours, http, client = queries.get_last_message_id(row["topic"]), row["http_body"], row["client"]
        assert ours == MessageId(http["ledgerId"], http["entryId"], http["partitionIndex"], http["batchIndex"]), row
        told = MessageId(client["ledger"], client["entry"], client["partition"], client["batch_index"])
        if ours != told:
            told_otherwise[TopicName.parse(row["topic"]).local_name] = told
    assert len(rows) == 38
    assert told_otherwise == {topic: told for topic, (told, _) in TOLD_TO_CLIENTS.items()}


def test_clients_are_told_of_no_open_transaction(disk):
    """All entries behind the last message in the client's answer belong to one open transaction."""
    (told, _) = TOLD_TO_CLIENTS["txn-open"]
    behind = [
        row
        for row in expected("entries")
        if row["topic"].endswith("/txn-open") and (row["ledger"], row["entry"]) > (told.ledger_id, told.entry_id)
    ]
    assert len(behind) == 10
    assert {row["marker_type"] for row in behind} == {None}
    assert len({(row["txn_most"], row["txn_least"]) for row in behind} - {(None, None)}) == 1
