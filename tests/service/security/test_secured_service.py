"""A running service with tokens and rules: changes on the disk, credentials that end, the audit log, and secrets."""

import asyncio
import json
import time

import grpc
import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.server import TrackerServer
from delayed_tracker.service.settings.load import load_settings
from delayed_tracker.v1 import tracker_pb2
from tests.service.harness.settings import settings_of
from tests.service.security.secured import RULES, SUBSCRIPTION, TOPIC, secured, write_rules
from tests.service.security.tokens import OTHER_SECRET, SECRET, data_url, file_url, token

REF = tracker_pb2.TrackerRef(topic=TOPIC, subscription=SUBSCRIPTION)
OPEN = tracker_pb2.OpenTrackerRequest(tracker=REF, owner="tests")


def audited(stream) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in lines if line["logger"] == "delayed_tracker.audit"]


async def until(condition, *, seconds=30):
    """Return when a condition that calls the service holds. The service looks at its files every second."""
    async with asyncio.timeout(seconds):
        while not await condition():
            pass


async def code_of(calls) -> grpc.StatusCode:
    try:
        await calls.OpenTracker(OPEN)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.slow
async def test_rules_and_keys_change_under_a_running_service(tmp_path):
    """A grant and a new key are in force within seconds, without a restart; what they replace is refused."""
    key = tmp_path / "key"
    key.write_bytes(SECRET)
    async with secured(tmp_path, [], token_secret_key=f"file://{key}") as service:
        async with service.trackers(token("shop")) as calls:
            assert await code_of(calls) is grpc.StatusCode.PERMISSION_DENIED
            write_rules(tmp_path / "rules.json", RULES)

            async def is_granted():
                return await code_of(calls) is grpc.StatusCode.OK

            await until(is_granted)
            key.write_bytes(OTHER_SECRET)

            async def is_refused():
                return await code_of(calls) is grpc.StatusCode.UNAUTHENTICATED

            await until(is_refused)
        async with service.trackers(token("shop", key=OTHER_SECRET)) as calls:
            assert await code_of(calls) is grpc.StatusCode.OK


@pytest.mark.slow
async def test_a_token_that_ends_ends_its_polls_and_streams(tmp_path):
    """A long poll and an open stream end with UNAUTHENTICATED when their token does, and take nothing with them."""
    async with secured(tmp_path) as service, service.trackers(token("shop")) as lasting:
        epoch = (await lasting.OpenTracker(OPEN)).epoch
        ending = token("shop", exp=int(time.time()) + 3)
        async with service.trackers(ending) as calls:
            poll = tracker_pb2.PollScheduledMessagesRequest(
                tracker=REF, epoch=epoch, max_messages=10, wait_ms=60_000, lease_ms=1_000
            )
            polling = calls.PollScheduledMessages(poll)
            stream = calls.AddMessagesStream()
            add = tracker_pb2.AddMessagesRequest(tracker=REF, epoch=epoch)
            await stream.write(tracker_pb2.AddMessagesStreamRequest(add=add))
            assert await stream.read() != grpc.aio.EOF
            assert await polling.code() is grpc.StatusCode.UNAUTHENTICATED
            assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "expired" in await polling.details()
        stats = await lasting.GetTrackerStats(tracker_pb2.GetTrackerStatsRequest(tracker=REF))
        assert stats.leased_count == 0


@pytest.mark.slow
async def test_a_stream_ends_when_the_key_of_its_token_is_gone(tmp_path):
    """Its next request is refused, also if the token has no end; a stream whose key has stayed goes on."""
    keys = [file_url(tmp_path / name, secret) for name, secret in (("old", SECRET), ("other", OTHER_SECRET))]
    async with (
        secured(tmp_path, token_secret_key=" ".join(keys)) as service,
        service.trackers(token("shop", exp=None)) as ending,
        service.trackers(token("shop", key=OTHER_SECRET, exp=None)) as lasting,
    ):
        epoch = (await lasting.OpenTracker(OPEN)).epoch
        add = tracker_pb2.AddMessagesStreamRequest(add=tracker_pb2.AddMessagesRequest(tracker=REF, epoch=epoch))
        streams = [calls.AddMessagesStream() for calls in (ending, lasting)]
        for stream in streams:
            await stream.write(add)
            assert await stream.read() != grpc.aio.EOF
        (tmp_path / "old").write_bytes(bytes(reversed(SECRET)))

        async def is_refused():
            code = await ending.GetTrackerStats(tracker_pb2.GetTrackerStatsRequest(tracker=REF)).code()
            return code is grpc.StatusCode.UNAUTHENTICATED

        await until(is_refused)
        for stream in streams:
            await stream.write(add)
        assert await streams[0].code() is grpc.StatusCode.UNAUTHENTICATED
        assert await streams[1].read() != grpc.aio.EOF
        streams[1].cancel()


async def test_a_stream_ends_when_its_rule_is_gone(tmp_path):
    """Every request of a stream is checked, also those that go on with the names of the first."""
    async with secured(tmp_path) as service, service.trackers(token("shop")) as calls:
        epoch = (await calls.OpenTracker(OPEN)).epoch
        stream = calls.AddMessagesStream()
        add = tracker_pb2.AddMessagesRequest(tracker=REF, epoch=epoch)
        await stream.write(tracker_pb2.AddMessagesStreamRequest(add=add))
        await stream.read()
        write_rules(tmp_path / "rules.json", [])

        async def is_denied():
            return await code_of(calls) is grpc.StatusCode.PERMISSION_DENIED

        await until(is_denied)
        await stream.write(tracker_pb2.AddMessagesStreamRequest())
        assert await stream.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_the_audit_log(tmp_path, written_log):
    """Refusals, destructive calls and takeovers have a line with who, from where, what, and which topic."""
    stream = written_log("json", "info")
    rules = [*RULES, {"role": "other", "topic": TOPIC, "actions": ["dispatch"]}]
    async with secured(tmp_path, rules) as service:
        async with service.trackers(token("shop")) as calls:
            epoch = (await calls.OpenTracker(OPEN)).epoch
            await calls.ClearMessages(tracker_pb2.ClearMessagesRequest(tracker=REF, epoch=epoch))
            with pytest.raises(grpc.aio.AioRpcError):
                await calls.ClearMessages(tracker_pb2.ClearMessagesRequest(tracker=REF, epoch=epoch))
            with pytest.raises(grpc.aio.AioRpcError):
                await calls.DeleteTracker(tracker_pb2.DeleteTrackerRequest(tracker=REF))
        async with service.trackers(token("other")) as calls:
            await calls.OpenTracker(OPEN)
            await calls.OpenTracker(OPEN)
        async with service.http() as client:
            await client.get("/metrics", headers={"x-request-id": "scrape-1"})
    lines = audited(stream)
    shown = [(line["event"], line.get("principal"), line.get("outcome") or line.get("reason")) for line in lines]
    assert shown == [
        ("destructive call", "shop", "OK"),
        ("destructive call", "shop", "FAILED_PRECONDITION"),
        ("call refused", "shop", "PERMISSION_DENIED"),
        ("tracker taken over by another principal", "other", None),
        ("call refused", None, "UNAUTHENTICATED"),
    ]
    assert all("127.0.0.1" in line["peer"] and line["request_id"] for line in lines)
    assert {line["topic"] for line in lines[:4]} == {TOPIC}
    assert lines[3]["previous_principal"] == "shop"
    assert (lines[4]["call"], lines[4]["request_id"]) == ("/metrics", "scrape-1")


async def test_refusals_are_limited_and_destructive_calls_are_not(tmp_path, written_log):
    """A hundred lines of refusals a minute, however many there are; each destructive call has its own."""
    stream = written_log("json", "info")
    async with secured(tmp_path) as service:
        async with service.http() as client:
            for _ in range(130):
                assert (await client.get("/metrics")).status_code == 401
        async with service.trackers(token("shop")) as calls:
            epoch = (await calls.OpenTracker(OPEN)).epoch
            for _ in range(120):
                cleared = await calls.ClearMessages(tracker_pb2.ClearMessagesRequest(tracker=REF, epoch=epoch))
                epoch = cleared.epoch
    events = [line["event"] for line in audited(stream)]
    assert (events.count("call refused"), events.count("destructive call")) == (100, 120)


async def test_no_secret_in_any_output(tmp_path, written_log):
    """Logs at debug, errors and metrics have neither tokens nor keys, whether the calls were refused or not."""
    stream = written_log("json", "debug")
    good, bad = token("shop"), token("shop", key=OTHER_SECRET)
    seen = []
    async with secured(tmp_path) as service:
        for each in (good, bad):
            async with service.trackers(each) as calls:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await calls.GetTrackerStats(tracker_pb2.GetTrackerStatsRequest(tracker=REF))
                seen += [str(refused.value), repr(refused.value.trailing_metadata())]
            async with service.http(each) as client:
                seen.append((await client.get("/metrics")).text)
        async with service.http(token("root")) as client:
            seen.append((await client.get("/metrics")).text)
    seen.append(stream.getvalue())
    for secret in (good, bad, good.split(".")[2], data_url(SECRET)[15:]):
        assert not [text for text in seen if secret in text]


def test_settings_do_not_show_secrets(tmp_path):
    """`config` shows files of keys and hides keys, also in errors."""
    secret = data_url(SECRET)
    rows = {row.key: row.value for row in load_settings(overrides={"tokenSecretKey": secret}).rows()}
    assert rows["tokenSecretKey"] == "(not shown)"
    shown = load_settings(overrides={"tokenSecretKey": f"file://{tmp_path}/key"}).rows()
    assert {row.key: row.value for row in shown}["tokenSecretKey"] == f"file://{tmp_path}/key"
    with pytest.raises(Exception, match="there is no such key") as refused:
        load_settings(overrides={"tokenSecretKye": secret})
    assert secret not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"authentication_enabled": True}, "authenticationProviders"),
        ({"authentication_enabled": True, "authentication_providers": "token"}, "authenticationProviders"),
        ({"authentication_providers": "basic"}, "authenticationProviders"),
        ({"authorization_enabled": True}, "authorizationEnabled"),
        ({"token_audience": "a"}, "tokenAudienceClaim"),
        ({"token_audience_claim": "aud"}, "tokenAudience"),
        ({"super_user_roles": "a, guest", "anonymous_user_role": "guest"}, "superUserRoles"),
    ],
)
def test_settings_that_do_not_fit_together(changes, key):
    """Half a configuration of security is refused, since it would protect less than it says."""
    with pytest.raises(InvalidInput) as refused:
        settings_of(**changes)
    assert refused.value.field == key


async def test_a_service_with_broken_rules_does_not_start(tmp_path):
    """At the start there are no old rules to keep."""
    (tmp_path / "rules.json").write_text("[]")
    given = settings_of(
        storage_url="memory:",
        grpc_listen_address="127.0.0.1:0",
        http_listen_address="127.0.0.1:0",
        authentication_enabled=True,
        authentication_providers="token",
        token_secret_key=data_url(SECRET),
        authorization_enabled=True,
        authorization_rules_file_path=str(tmp_path / "rules.json"),
    )
    with pytest.raises(InvalidInput, match="authorizationRulesFilePath"):
        await TrackerServer(given).start()


PROVIDER = """
class Mondays:
    version = 1

    def allows(self, principal, action, topic, subscription):
        return (principal.role, action.value, topic) == ("shop", "dispatch", "TOPIC")

    def refresh(self):
        pass


def open_mondays(options):
    return Mondays()
"""


async def test_another_package_decides(tmp_path, monkeypatch):
    """An installed package with an entry point is asked for each action; superusers are never its matter."""
    (tmp_path / "mondays.py").write_text(PROVIDER.replace("TOPIC", TOPIC))
    information = tmp_path / "mondays-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mondays\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[delayed_tracker.authorization]\nmondays = mondays:open_mondays\n")
    monkeypatch.syspath_prepend(tmp_path)
    async with secured(tmp_path, [], authorization_provider="mondays") as service:
        for role, code in (
            ("shop", grpc.StatusCode.OK),
            ("reader", grpc.StatusCode.PERMISSION_DENIED),
            ("root", grpc.StatusCode.OK),
        ):
            async with service.trackers(token(role)) as calls:
                assert await code_of(calls) is code
