"""Tests of the calls about ledgers, over both shells."""

import grpc
import pytest

from delayed_tracker.client import (
    DataLoss,
    EntryPage,
    IndexLookupMode,
    InvalidInput,
    MessageId,
    NotFound,
    Position,
    QueryNotSupported,
    StoredEntry,
    TimeSeek,
    UnreadableEntries,
)
from delayed_tracker.v1 import ledger_pb2 as pb
from delayed_tracker.v1 import tracker_pb2
from tests.client.aio.test_session import failing, reason
from tests.client.conftest import TOPIC

PLACE = tracker_pb2.Position(ledger_id=7, entry_id=3)


@pytest.fixture
def ledgers(client):
    return client.ledgers


async def test_a_message_by_its_index(service, ledgers):
    """A lookup by index uses the service's rules, or those of the caller."""
    found = pb.MessageId(position=PLACE, partition=2, batch_index=-1)
    service.on("GetMessageIdByIndex", pb.GetMessageIdByIndexResponse(message_id=found))
    for mode in (None, *IndexLookupMode):
        assert await ledgers.get_message_id_by_index(TOPIC, 5, mode=mode) == MessageId(Position(7, 3), 2, -1)
    asked = service.requests_of("GetMessageIdByIndex")
    assert {(request.topic, request.index) for request in asked} == {(TOPIC, 5)}
    assert [pb.IndexLookupMode.Name(request.mode).removeprefix("INDEX_LOOKUP_MODE_") for request in asked] == [
        "UNSPECIFIED",
        *(mode.name for mode in IndexLookupMode),
    ]
    with pytest.raises(InvalidInput, match="index"):
        await ledgers.get_message_id_by_index(TOPIC, -1)


@pytest.mark.parametrize("read_compacted", [False, True])
async def test_a_place_by_time_and_the_end(service, ledgers, read_compacted):
    """A seek by time and the last message work for readers of the topic and of the compacted topic."""
    service.on("SeekByTime", pb.SeekByTimeResponse(position=PLACE, behind_end=True))
    last = pb.MessageId(position=PLACE, partition=-1, batch_index=4)
    service.on("GetLastMessagePosition", pb.GetLastMessagePositionResponse(message_id=last))
    sought = await ledgers.seek_by_time(TOPIC, 99, read_compacted=read_compacted)
    assert sought == TimeSeek(Position(7, 3), behind_end=True)
    found = await ledgers.get_last_message_position(TOPIC, read_compacted=read_compacted)
    assert found == MessageId(Position(7, 3), -1, 4)
    ((_, seek), (_, end)) = service.requests
    assert (seek.topic, seek.timestamp_ms, seek.read_compacted) == (TOPIC, 99, read_compacted)
    assert (end.topic, end.read_compacted) == (TOPIC, read_compacted)
    with pytest.raises(InvalidInput, match="timestamp_ms"):
        await ledgers.seek_by_time(TOPIC, -1)


async def test_entries_come_page_by_page(service, ledgers):
    """The next page is requested only when the caller needs it, and no entry is left out between pages."""

    async def page(request, context):
        if not request.HasField("start"):
            return pb.ReadEntriesResponse(ledger_ids=[7, 7], entry_ids=[0, 1], payloads=[b"a", b""], next=PLACE)
        lost = pb.UnreadableEntries(first=PLACE, count=2, reason="no log has it")
        return pb.ReadEntriesResponse(ledger_ids=[8], entry_ids=[0], payloads=[b"c"], unreadable=[lost])

    service.on("ReadEntries", page)
    first = EntryPage((StoredEntry(Position(7, 0), b"a"), StoredEntry(Position(7, 1), b"")), (), Position(7, 3))
    unreadable = UnreadableEntries(Position(7, 3), 2, "no log has it")
    second = EntryPage((StoredEntry(Position(8, 0), b"c"),), (unreadable,), None)

    pages = ledgers.read_entries(TOPIC, page_entries=2, page_bytes=100, protocol_version=18)
    assert await anext(pages) == first
    assert len(service.requests) == 1
    assert [page async for page in pages] == [second]

    for request in service.requests_of("ReadEntries"):
        assert (request.topic, request.max_entries, request.max_bytes, request.protocol_version) == (TOPIC, 2, 100, 18)
    assert service.requests[1][1].start == PLACE
    assert [page async for page in ledgers.read_entries(TOPIC, Position(7, 3))] == [second]
    for wrong in ({"page_entries": 0}, {"page_bytes": 0}, {"protocol_version": -1}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            await anext(aiter(ledgers.read_entries(TOPIC, **wrong)))
    with pytest.raises(InvalidInput, match=r"start\.entry_id"):
        await anext(aiter(ledgers.read_entries(TOPIC, Position(0, -2))))


@pytest.mark.parametrize(
    ("code", "word", "kind"),
    [
        *(
            (grpc.StatusCode.NOT_FOUND, word, NotFound)
            for word in ("TOPIC_NOT_FOUND", "NAMESPACE_NOT_FOUND", "MESSAGE_INDEX_INVALID", "MESSAGE_NOT_FOUND")
        ),
        *(
            (grpc.StatusCode.FAILED_PRECONDITION, word, QueryNotSupported)
            for word in (
                "LEDGER_SOURCE_NOT_SET",
                "PARTITIONED_TOPIC",
                "BROKER_METADATA_MISSING",
                "BROKER_METADATA_DISABLED",
            )
        ),
        *(
            (grpc.StatusCode.DATA_LOSS, word, DataLoss)
            for word in ("ENTRIES_UNREADABLE", "LEDGER_FILE_INVALID", "LEDGER_METADATA_INVALID")
        ),
    ],
)
async def test_refusals_are_told_apart(service, ledgers, code, word, kind):
    """Each refusal has its own exception and keeps the service's reason."""
    for method in ("GetMessageIdByIndex", "SeekByTime", "GetLastMessagePosition", "ReadEntries"):
        service.on(method, failing(code, reason(word)))
    for call in (
        ledgers.get_message_id_by_index(TOPIC, 1),
        ledgers.seek_by_time(TOPIC, 1),
        ledgers.get_last_message_position(TOPIC),
        anext(aiter(ledgers.read_entries(TOPIC))),
    ):
        with pytest.raises(kind, match="the service says no") as caught:
            await call
        assert caught.value.reason == word
