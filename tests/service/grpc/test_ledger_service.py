"""LedgerService over a real socket, reading ledgers that a real Pulsar wrote."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from structlog.testing import capture_logs

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.entry.frame import split_frame
from delayed_tracker.ledger.source_url import open_sources
from delayed_tracker.ledger.topic.topic_log import LedgerSource
from delayed_tracker.service.admission.call_admission import CallAdmission
from delayed_tracker.service.grpc.ledger_servicer import LedgerServicer
from delayed_tracker.service.grpc.methods import serve_ledgers
from delayed_tracker.service.process.health import LEDGER_SERVICE_NAME
from delayed_tracker.service.queries import ledger_access
from delayed_tracker.service.queries.ledger_access import LedgerAccess, LedgerAnswers
from delayed_tracker.service.server import TrackerServer
from delayed_tracker.v1 import ledger_pb2 as pb
from delayed_tracker.v1 import ledger_pb2_grpc, tracker_pb2
from tests.golden.pulsar_pack import BOOKIE, METADATA, expected
from tests.ledger.harness.disks import DiskFiles
from tests.ledger.harness.log_files import TOPIC, entry_log, flipped, message
from tests.service.harness.rpc import refused
from tests.service.harness.settings import settings_of
from tests.service.harness.shell import until

SOURCE = f"bookkeeper+file:{BOOKIE}?metadata={METADATA}"
PLAIN = "persistent://lab/main/plain"
MARKERS = "persistent://lab/main/repl-markers"
BLOCKS = "persistent://lab/s3/blocks"
PROPOSAL, COMPATIBLE = pb.INDEX_LOOKUP_MODE_PROPOSAL, pb.INDEX_LOOKUP_MODE_PULSAR_COMPATIBLE


@asynccontextmanager
async def ledgers(**settings: object) -> AsyncIterator[ledger_pb2_grpc.LedgerServiceStub]:
    """Serve only this service, on a loopback port."""
    given = settings_of(storage_url="memory:", **({"ledger_source_url": SOURCE} | settings))
    access = LedgerAccess(given.ledger.ledger_source_url, LedgerAnswers.of(given))
    await access.start()
    size = ("grpc.max_send_message_length", given.server.grpc_message_bytes_max)
    server = grpc.aio.server(options=[size])
    serve_ledgers(LedgerServicer(access), server, CallAdmission(given.service_limits()))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield ledger_pb2_grpc.LedgerServiceStub(channel)
    finally:
        await server.stop(None)
        await access.close()


def whole_service(**settings: object) -> TrackerServer:
    """Return the whole service over the same ledgers."""
    addresses = {"grpc_listen_address": "127.0.0.1:0", "http_listen_address": "127.0.0.1:0"}
    return TrackerServer(settings_of(storage_url="memory:", **({"ledger_source_url": SOURCE} | addresses | settings)))


def at(ledger_id: int, entry_id: int) -> tracker_pb2.Position:
    return tracker_pb2.Position(ledger_id=ledger_id, entry_id=entry_id)


@pytest.mark.slow
async def test_it_is_a_part_of_the_service():
    """LedgerService answers on the tracker's address, HTTP answers beside it, and health and reflection list it."""
    server = whole_service()
    bound = await server.start()
    async with grpc.aio.insecure_channel(str(bound.grpc)) as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service=LEDGER_SERVICE_NAME)
        )
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol=LEDGER_SERVICE_NAME)
        stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked]))
        assert (await stream.read()).file_descriptor_response.file_descriptor_proto
        stub = ledger_pb2_grpc.LedgerServiceStub(channel)
        found = await stub.GetMessageIdByIndex(pb.GetMessageIdByIndexRequest(topic=PLAIN, index=7))
        assert found.message_id.position == at(27, 7)
    async with httpx.AsyncClient(trust_env=False) as http:
        path = "/admin/v2/persistent/lab/main/plain/getMessageIdByIndex?index=7"
        assert (await http.get(f"http://{bound.http}{path}")).json()["entryId"] == 7
    await server.stop()


async def test_the_service_does_not_start_without_its_ledgers():
    """A failed start releases all that was opened before."""
    server = whole_service(ledger_source_url=f"bookkeeper+file:/nowhere?metadata={METADATA}")
    with pytest.raises(InvalidInput, match="ledgerSourceUrl"):
        await server.start()
    await server.stop()


async def test_message_ids_by_index():
    """A message id is found by the configured rules, or by those that the call names."""
    async with ledgers(broker_entry_metadata_interceptors="any") as stub:

        async def entry_of(topic, index, mode=pb.INDEX_LOOKUP_MODE_UNSPECIFIED):
            asked = pb.GetMessageIdByIndexRequest(topic=topic, index=index, mode=mode)
            return (await stub.GetMessageIdByIndex(asked)).message_id

        assert await entry_of(PLAIN, 7) == pb.MessageId(position=at(27, 7), partition=-1, batch_index=-1)
        assert (await entry_of("lab/main/parted-partition-1", 0)).partition == 1
        assert (await entry_of(MARKERS, 2)).position == at(44, 6)
        assert (await entry_of(MARKERS, 2, PROPOSAL)).position == at(44, 6)
        assert (await entry_of(MARKERS, 2, COMPATIBLE)).position == at(44, 2)
        assert (await entry_of("lab/main/batched", 0, COMPATIBLE)).position == at(-1, -1)


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        ({"topic": PLAIN, "index": -1}, "NOT_FOUND", "MESSAGE_INDEX_INVALID"),
        ({"topic": PLAIN, "index": 250}, "NOT_FOUND", "MESSAGE_NOT_FOUND"),
        ({"topic": "lab/main/missing"}, "NOT_FOUND", "TOPIC_NOT_FOUND"),
        ({"topic": "nobody/none/missing"}, "NOT_FOUND", "NAMESPACE_NOT_FOUND"),
        ({"topic": "lab/main/parted"}, "FAILED_PRECONDITION", "PARTITIONED_TOPIC"),
        ({"topic": "lab/main/no-frames"}, "FAILED_PRECONDITION", "BROKER_METADATA_MISSING"),
        ({"topic": PLAIN, "mode": COMPATIBLE}, "FAILED_PRECONDITION", "BROKER_METADATA_DISABLED"),
        ({"topic": ""}, "INVALID_ARGUMENT", "INVALID_INPUT"),
        ({"topic": "non-persistent://lab/main/plain"}, "INVALID_ARGUMENT", "INVALID_INPUT"),
        ({"topic": PLAIN, "mode": 7}, "INVALID_ARGUMENT", "INVALID_INPUT"),
    ],
)
async def test_refusals(asked, code, reason):
    """Each refusal has a status code and a stable reason."""
    async with ledgers() as stub:
        error, info, _ = await refused(stub.GetMessageIdByIndex(pb.GetMessageIdByIndexRequest(**asked)))
    assert (error.code().name, info.reason) == (code, reason)


async def test_seeks_by_time():
    """A seek returns the first entry at or after a time, or the position at which the topic continues."""
    async with ledgers() as stub:
        for row in (row for row in expected("by_timestamp") if row["topic"].endswith("/late-frames")):
            found = await stub.SeekByTime(pb.SeekByTimeRequest(topic=row["topic"], timestamp_ms=row["timestamp"]))
            recorded = row["admin_message_id"]
            assert found.position == at(recorded["ledger"], recorded["entry"])
            assert found.behind_end == (found.position == at(26, 50))


async def test_readers_of_the_compacted_topic():
    """Readers of the compacted topic get positions of the compacted ledger."""
    topic = "persistent://lab/main/compacted"
    async with ledgers() as stub:
        raw = await stub.SeekByTime(pb.SeekByTimeRequest(topic=topic, timestamp_ms=1))
        kept = await stub.SeekByTime(pb.SeekByTimeRequest(topic=topic, timestamp_ms=1, read_compacted=True))
        last = await stub.GetLastMessagePosition(pb.GetLastMessagePositionRequest(topic=topic, read_compacted=True))
    assert (raw.position, kept.position) == (at(45, 0), at(45, 28))
    assert last.message_id == pb.MessageId(position=at(48, 93), partition=-1, batch_index=2)


async def test_last_messages():
    """The last message has its place in the batch."""
    async with ledgers() as stub:
        last = await stub.GetLastMessagePosition(pb.GetLastMessagePositionRequest(topic="lab/main/batched"))
    assert last.message_id == pb.MessageId(position=at(32, 29), partition=-1, batch_index=11)


SMALL = {"batch_positions_max": 1, "poll_messages_max": 1}
"""Other limits that must fit into small messages."""


async def pages(stub, **asked) -> list[pb.ReadEntriesResponse]:
    answers = [await stub.ReadEntries(pb.ReadEntriesRequest(**asked))]
    while answers[-1].HasField("next"):
        answers.append(await stub.ReadEntries(pb.ReadEntriesRequest(**(asked | {"start": answers[-1].next}))))
    return answers


@pytest.mark.slow
async def test_entries_page_by_page():
    """All entries of a topic are read in pages of the requested size, within the service's own limits."""
    rows = sorted((row["ledger"], row["entry"]) for row in expected("entries") if row["topic"] == PLAIN)
    async with ledgers(ledger_read_entries_max=100) as stub:
        for asked, page_entries in (({"max_entries": 60}, 60), ({}, 100), ({"max_entries": 5_000}, 100)):
            answers = await pages(stub, topic=PLAIN, **asked)
            assert max(len(answer.payloads) for answer in answers) == page_entries
            read = [place for page in answers for place in zip(page.ledger_ids, page.entry_ids, strict=True)]
            assert read == rows
        small = await pages(stub, topic=PLAIN, max_bytes=500)
        assert all(sum(map(len, page.payloads)) <= 500 for page in small)
        assert sum(len(page.payloads) for page in small) == len(rows)
        start = await stub.ReadEntries(pb.ReadEntriesRequest(topic=PLAIN, start=at(28, 98), max_entries=3))
        assert list(zip(start.ledger_ids, start.entry_ids, strict=True)) == [(28, 98), (28, 99), (29, 0)]


@pytest.mark.slow
async def test_answers_fit_a_message():
    """Eleven megabytes of entries come in pages that gRPC accepts."""
    async with ledgers(grpc_message_bytes_max=1 << 20, **SMALL) as stub:
        answers = await pages(stub, topic=BLOCKS)
    assert sum(len(page.payloads) for page in answers) == 71
    assert all(page.ByteSize() <= 1 << 20 for page in answers)


async def test_several_sources():
    """Entries come from tiered storage and, for the ledger that was not offloaded, from the bookie's disk."""
    map_files = f"offload+mapfile:{BOOKIE.parent / 'offload-filesystem' / 'block'}?metadata={METADATA}"
    async with ledgers(ledger_source_url=f"{map_files} {SOURCE}") as stub:
        answers = await pages(stub, topic="lab/fs-block/stored")
        found = await stub.GetMessageIdByIndex(pb.GetMessageIdByIndexRequest(topic="lab/fs-block/stored", index=3))
    assert {ledger_id for page in answers for ledger_id in page.ledger_ids} == {159, 160, 164, 165, 166}
    assert found.message_id.position == at(159, 3)


async def test_damaged_entries(tmp_path):
    """Pages list damaged entries and go on; an answer that depends on one is refused."""
    disk = DiskFiles(tmp_path)
    records = disk.add_ledger(3, [message(index=number) for number in range(5)])
    log = entry_log(disk.records)
    where = log.index(records[4]) + len(records[4]) - 1
    disk.open(log=flipped(log, where)).close()
    url = f"bookkeeper+file:{tmp_path / 'ledgers'}?metadata={tmp_path / 'dump.jsonl.gz'}"
    async with ledgers(ledger_source_url=url) as stub:
        page = await stub.ReadEntries(pb.ReadEntriesRequest(topic=TOPIC))
        error, info, _ = await refused(stub.GetLastMessagePosition(pb.GetLastMessagePositionRequest(topic=TOPIC)))
    assert list(page.entry_ids) == [0, 1, 2, 3]
    assert [(bad.first, bad.count) for bad in page.unreadable] == [(at(3, 4), 1)]
    assert "digest does not fit" in page.unreadable[0].reason
    assert (error.code().name, info.reason) == ("DATA_LOSS", "ENTRIES_UNREADABLE")


async def test_an_entry_that_is_larger_than_an_answer(tmp_path):
    """The error names the entry and the setting; entries behind it are readable."""
    disk = DiskFiles(tmp_path)
    disk.add_ledger(3, [message(payload=bytes(600_000)), message()])
    disk.open().close()
    url = f"bookkeeper+file:{tmp_path / 'ledgers'}?metadata={tmp_path / 'dump.jsonl.gz'}"
    async with ledgers(ledger_source_url=url, grpc_message_bytes_max=1 << 20, **SMALL) as stub:
        error, info, _ = await refused(stub.ReadEntries(pb.ReadEntriesRequest(topic=TOPIC)))
        assert (error.code().name, info.reason) == ("RESOURCE_EXHAUSTED", "BATCH_TOO_LARGE")
        assert "entry 3:0 has 600" in error.details()
        assert "raise grpcMessageBytesMax" in error.details()
        behind = await stub.ReadEntries(pb.ReadEntriesRequest(topic=TOPIC, start=at(3, 1)))
        assert list(behind.entry_ids) == [1]


@pytest.mark.parametrize(
    ("exposing", "version", "framed"), [(True, 18, True), (True, 21, True), (True, 17, False), (False, 21, False)]
)
async def test_who_is_shown_broker_frames(exposing, version, framed):
    """Broker frames are shown only to readers that support them, and only if the service is configured so."""
    stored = {(row["ledger"], row["entry"]): row["length"] for row in expected("entries") if row["topic"] == PLAIN}
    async with ledgers(expose_broker_entry_metadata=exposing) as stub:
        page = await stub.ReadEntries(pb.ReadEntriesRequest(topic=PLAIN, protocol_version=version))
    for place, payload in zip(zip(page.ledger_ids, page.entry_ids, strict=True), page.payloads, strict=True):
        frame = split_frame(payload)
        assert (frame.broker_start >= 0) == framed
        assert (len(payload) == stored[place]) == framed


async def test_a_service_without_ledgers():
    """Every call is refused with the key to set."""
    async with ledgers(ledger_source_url="") as stub:
        for call in (
            stub.GetMessageIdByIndex(pb.GetMessageIdByIndexRequest(topic=PLAIN)),
            stub.SeekByTime(pb.SeekByTimeRequest(topic=PLAIN)),
            stub.GetLastMessagePosition(pb.GetLastMessagePositionRequest(topic=PLAIN)),
            stub.ReadEntries(pb.ReadEntriesRequest(topic=PLAIN)),
        ):
            error, info, _ = await refused(call)
            assert (error.code().name, info.reason) == ("FAILED_PRECONDITION", "LEDGER_SOURCE_NOT_SET")
            assert "set ledgerSourceUrl" in error.details()


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("nowhere:x", "known schemes are"),
        ("bookkeeper+file:/nowhere", "add metadata="),
        (f"bookkeeper+file:{BOOKIE}?metadata=/nowhere.jsonl", "metadata=/nowhere.jsonl: No such file.*name files that"),
        (f"bookkeeper+file:/nowhere?metadata={METADATA}", "a directory that exists"),
    ],
)
async def test_ledgers_that_cannot_be_opened(url, remedy):
    """The error names the key."""
    with pytest.raises(InvalidInput, match=f"ledgerSourceUrl: .*{remedy}"):
        async with ledgers(ledger_source_url=url):
            pass


async def test_a_bucket_that_does_not_answer_when_the_service_starts(monkeypatch):
    """The service starts, queries are told to come again, and are answered when the bucket is."""
    is_away = True

    def opened(urls: list[str]) -> LedgerSource:
        if is_away:
            raise OSError("s3://b cannot be listed: timeout")
        return open_sources(urls)

    monkeypatch.setattr(ledger_access, "open_sources", opened)
    monkeypatch.setattr(ledger_access, "_RETRY_S", 0.01)
    asked = pb.GetLastMessagePositionRequest(topic=PLAIN)
    with capture_logs() as lines:
        async with ledgers() as stub:
            error, info, _ = await refused(stub.GetLastMessagePosition(asked))
            assert (error.code(), info.reason) == (grpc.StatusCode.UNAVAILABLE, "RECOVERING")
            is_away = False
            await until(lambda: lines[-1]["event"] == "ledgers opened")
            assert (await stub.GetLastMessagePosition(asked)).message_id.position.ledger_id
    assert "s3://b cannot be listed: timeout; start it, or correct ledgerSourceUrl" in [
        line.get("error") for line in lines
    ]


def test_a_url_without_a_scheme():
    with pytest.raises(InvalidInput, match="ledgerSourceUrl: 'disk' is not valid; give SCHEME:PLACE"):
        settings_of(ledger_source_url="disk")


def test_answers_must_fit_a_message():
    """The fields of entries beside their payloads take at most half of an answer."""
    with pytest.raises(InvalidInput, match="ledgerReadEntriesMax: 2000 is not valid; only 1984 fit"):
        settings_of(ledger_read_entries_max=2_000, grpc_message_bytes_max=1 << 20, **SMALL)
