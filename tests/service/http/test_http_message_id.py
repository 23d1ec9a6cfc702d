"""getMessageIdByIndex over HTTP: every answer recorded from a real broker, ownership and authorization."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from structlog.testing import capture_logs

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.ledger.errors import MetadataUnavailable
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.http.application import build_app
from delayed_tracker.service.http.message_id import AdminHooks, message_id_routes
from delayed_tracker.service.process.health import Health
from delayed_tracker.service.queries import ledger_access
from delayed_tracker.service.queries.ledger_access import LedgerAccess, LedgerAnswers
from delayed_tracker.service.telemetry.failed_calls import LINES_MAX
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.registry import open_storage
from tests.golden.pulsar_pack import BOOKIE, METADATA, expected
from tests.service.harness.settings import settings_of

SOURCE = f"bookkeeper+file:{BOOKIE}?metadata={METADATA}"
INTERCEPTORS = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
PLAIN = "/admin/v2/persistent/lab/main/plain/getMessageIdByIndex"
MARKER = "/admin/v2/persistent/lab/main/repl-markers/getMessageIdByIndex?index=2"


@asynccontextmanager
async def serving(hooks: AdminHooks | None = None, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the service's HTTP application over the recorded ledgers, in this event loop."""
    given = settings_of(storage_url="memory:", **({"ledger_source_url": SOURCE} | settings))
    ledgers = LedgerAccess(given.ledger.ledger_source_url, LedgerAnswers.of(given))
    await ledgers.start()
    registry = TrackerRegistry(open_storage("memory:"), TrackerLimits())
    routes = message_id_routes(ledgers, hooks or AdminHooks())
    app = build_app(Health(), ServiceMetrics(registry, version="1"), *routes, failures=registry.calls.failures)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://tracker") as client:
            yield client
    finally:
        await ledgers.close()
        await registry.close()


@pytest.mark.slow
async def test_every_recorded_answer():
    """Status, body and content type are equal, except for Jetty's page and the refused call without an index."""
    pages = unasked = 0
    async with serving(
        message_id_by_index_mode="pulsar-compatible", broker_entry_metadata_interceptors=INTERCEPTORS
    ) as client:
        for row in expected("message_id_by_index"):
            answer = await client.get(row["path"])
            if "index=" not in row["path"]:
                unasked += 1
                assert (answer.status_code, row["status"]) == (400, 200)
                continue
            assert answer.status_code == row["status"], row
            if isinstance(row["body"], str):
                pages += 1
                assert row["path"].endswith("index=abc")
                assert "'abc' is not a whole number" in answer.json()["reason"]
            else:
                assert answer.json() == row["body"], row
                assert answer.headers["content-type"] == row["content_type"]
    assert (pages, unasked) == (1, 1)


async def test_the_mode_is_a_setting():
    """By default the mode is that of the proposal: the next user message."""
    async with serving() as client:
        assert (await client.get(MARKER)).json()["entryId"] == 6
    async with serving(
        message_id_by_index_mode="pulsar-compatible", broker_entry_metadata_interceptors=INTERCEPTORS
    ) as client:
        assert (await client.get(MARKER)).json()["entryId"] == 2


async def test_a_broker_without_interceptors_refuses():
    """In the compatible mode a service without interceptors refuses before it checks anything else."""
    async with serving(message_id_by_index_mode="pulsar-compatible") as client:
        for index in (0, -1):
            answer = await client.get(f"{PLAIN}?index={index}")
            assert answer.status_code == 412
            assert answer.json() == {
                "reason": "GetMessageIDByIndex is not allowed when broker entry metadata is disabled"
            }


async def test_topics_that_are_not_persistent():
    """A topic that is not persistent gets 406 for any name."""
    async with serving() as client:
        answer = await client.get("/admin/v2/non-persistent/lab/main/plain/getMessageIdByIndex?index=0")
    assert (answer.status_code, list(answer.json())) == (406, ["reason"])


@pytest.mark.parametrize(
    ("query", "entry_id"),
    [("?index=0", 0), ("?index=%2B7", 7), ("?index=007", 7), ("?index=7&authoritative=true", 7)],
)
async def test_how_an_index_may_be_written(query: str, entry_id: int):
    """An index is accepted as Java parses a number."""
    async with serving() as client:
        answer = await client.get(PLAIN + query)
    assert (answer.status_code, answer.json()["entryId"]) == (200, entry_id)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "index: it is missing; give index=NUMBER, once"),
        ("?idx=3", "index: it is missing; give index=NUMBER, once"),
        ("?index=", "index: it is empty; give index=NUMBER, once"),
        ("?index=%20", "index: it is empty; give index=NUMBER, once"),
        ("?index=1&index=2", "index: it is there 2 times; give index=NUMBER, once"),
        ("?index=1&index=1", "index: it is there 2 times; give index=NUMBER, once"),
    ],
)
async def test_a_call_names_one_index(query: str, said: str):
    """A missing, misspelt, empty or repeated index is refused by name, because an answer would be of index 0."""
    async with serving() as client:
        answer = await client.get(PLAIN + query)
    assert (answer.status_code, answer.json()) == (400, {"reason": said})


@pytest.mark.parametrize(
    "index", ["abc", "1.0", "0x1", "9223372036854775808", "-9223372036854775809", "%D9%A1", "9" * 5000]
)
async def test_an_invalid_index_is_answered_with_404(index: str):
    """The answer is a 404 with the reason, and not an HTML page."""
    async with serving() as client:
        answer = await client.get(f"{PLAIN}?index={index}")
    assert answer.status_code == 404
    assert "is not a whole number" in answer.json()["reason"]


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("lab/main/a+b%20c", "persistent://lab/main/a b c"),
        ("lab/main/%C3%A9", "persistent://lab/main/é"),
        ("l%61b/main/%2525", "persistent://lab/main/%25"),
    ],
)
async def test_encoded_names(path: str, topic: str):
    """A name is decoded as Java's decoder does it."""
    async with serving() as client:
        answer = await client.get(f"/admin/v2/persistent/{path}/getMessageIdByIndex?index=0")
    assert (answer.status_code, answer.json()) == (404, {"reason": f"Topic {topic} not found"})


@pytest.mark.parametrize("path", ["lab/main/a%2Fb", "lab/main/a/b"])
async def test_names_with_a_cluster(path: str):
    """A local name with a slash has a cluster before the namespace, as in Pulsar, encoded or not."""
    async with serving() as client:
        answer = await client.get(f"/admin/v2/persistent/{path}/getMessageIdByIndex?index=0")
    assert (answer.status_code, answer.json()) == (404, {"reason": "Namespace not found"})


@pytest.mark.parametrize("path", ["lab/main/", "lab/main/%2F", "a%2Fb%2Fc", "a%2Fb/c"])
async def test_invalid_topic_names_are_refused(path: str):
    """An invalid name is refused with the service's own text."""
    async with serving() as client:
        answer = await client.get(f"/admin/v2/persistent/{path}/getMessageIdByIndex?index=0")
    assert answer.status_code in {404, 412}
    assert answer.json()["reason"]


async def test_partitions_that_are_not_there():
    """A missing partition is not found; it is not refused as a partitioned topic."""
    async with serving() as client:
        answer = await client.get("/admin/v2/persistent/lab/main/parted-partition-9/getMessageIdByIndex?index=0")
    assert answer.status_code == 404


class Elsewhere:
    """Ownership in which another process owns the topic. It records the redirected calls."""

    def __init__(self):
        self.asked = []

    async def owner_url(self, topic: TopicName, *, authoritative: bool) -> str | None:
        self.asked.append((str(topic), authoritative))
        return None if authoritative else "http://other:8080/"


class Guard:
    """Authorization that admits callers with the right header."""

    async def refusal(self, topic: TopicName, headers) -> str | None:
        return None if headers.get("authorization") == "word" else f"no word for {topic}"


async def test_another_process_owns_the_topic():
    """The caller is redirected with its index and a mark, and a caller with the mark is answered here."""
    ownership = Elsewhere()
    async with serving(AdminHooks(ownership=ownership)) as client:
        answer = await client.get("/admin/v2/persistent/lab/main/pl%61in/getMessageIdByIndex?index=7")
        assert answer.status_code == 307
        assert answer.headers["location"] == (
            "http://other:8080/admin/v2/persistent/lab/main/pl%61in/getMessageIdByIndex?index=7&authoritative=true"
        )
        assert (await client.get(f"{PLAIN}?index=7&authoritative=True")).status_code == 200
    topic = "persistent://lab/main/plain"
    assert ownership.asked == [(topic, False), (topic, True)]


class AskingZooKeeper:
    """Ownership that is on record in a ZooKeeper that does not answer."""

    async def owner_url(self, topic: TopicName, *, authoritative: bool) -> str | None:
        raise MetadataUnavailable("zk:127.0.0.1:2181 does not answer; start it")


async def test_a_metadata_store_that_does_not_answer_is_no_fault_of_the_service():
    """The answer is the one after which callers try again."""
    async with serving(AdminHooks(AskingZooKeeper())) as client:
        answer = await client.get(f"{PLAIN}?index=0")
    assert answer.status_code == 503
    assert answer.json() == {"reason": "zk:127.0.0.1:2181 does not answer; start it"}


class Broken:
    """Ownership with a bug."""

    async def owner_url(self, topic: TopicName, *, authoritative: bool) -> str | None:
        raise ZeroDivisionError(str(topic))


async def test_requests_that_fail_again_and_again_do_not_fill_the_log():
    """An unexpected error is answered with 500, and logged a hundred times a minute, whatever the path."""
    async with serving(AdminHooks(Broken())) as client:
        with capture_logs() as lines:
            for number in range(LINES_MAX + 1):
                answer = await client.get(f"{PLAIN.replace('plain', f'topic-{number}')}?index=0")
                assert answer.status_code == 500
                assert answer.json() == {"reason": "internal error; see the log of the service"}
    assert [line["event"] for line in lines if "exc_info" in line] == ["call failed"] * LINES_MAX


class Away:
    """Source of ledgers in an object store that was there when it was opened."""

    def topics(self) -> list[str]:
        return ["persistent://lab/main/plain"]

    def topic_log(self, _topic: str):
        raise OSError("s3://b/1 cannot be read: 503")

    def close(self) -> None:
        pass


async def test_a_store_of_ledgers_that_goes_away_later_is_no_fault_of_the_service(monkeypatch):
    """The answer is the one after which callers try again, and says what cannot be read."""
    monkeypatch.setattr(ledger_access, "open_sources", lambda _urls: Away())
    async with serving() as client:
        answer = await client.get(f"{PLAIN}?index=0")
    assert answer.status_code == 503
    assert "s3://b/1 cannot be read: 503" in answer.json()["reason"]


async def test_an_unauthorized_caller_gets_403():
    """The answer is 403 before any fact about the topic or its owner is given."""
    hooks = AdminHooks(Elsewhere(), Guard())
    async with serving(hooks) as client:
        answer = await client.get("/admin/v2/persistent/nobody/none/missing/getMessageIdByIndex?index=0")
        assert answer.status_code == 403
        assert answer.json() == {"reason": "no word for persistent://nobody/none/missing"}
        assert (await client.get(f"{PLAIN}?index=0", headers={"authorization": "word"})).status_code == 307
        assert (await client.get(f"{PLAIN}?index=-1")).status_code == 404


async def test_a_service_without_ledgers():
    """The refusal names the key to set."""
    async with serving(ledger_source_url="") as client:
        answer = await client.get(f"{PLAIN}?index=0")
    assert answer.status_code == 412
    assert "set ledgerSourceUrl" in answer.json()["reason"]


async def test_a_service_that_is_opening_its_ledgers():
    """The answer asks the caller to try again."""
    given = settings_of(storage_url="memory:", ledger_source_url=SOURCE)
    routes = message_id_routes(LedgerAccess(SOURCE, LedgerAnswers.of(given)), AdminHooks())
    registry = TrackerRegistry(open_storage("memory:"), TrackerLimits())
    app = build_app(Health(), ServiceMetrics(registry, version="1"), *routes, failures=registry.calls.failures)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tracker") as client:
        answer = await client.get(f"{PLAIN}?index=0")
    assert answer.status_code == 503
    assert "not open" in answer.json()["reason"]
    await registry.close()
