"""The security matrix: every call and every route, with every credential, over real sockets."""

import time

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from delayed_tracker.client.aio.calls import upload
from delayed_tracker.service.security.actions import CALL_ACTIONS, LISTING_CALLS, ROUTE_ACTIONS, Access, Action
from delayed_tracker.v1 import ledger_pb2, tracker_pb2
from tests.service.security.secured import SUBSCRIPTION, TOPIC, secured
from tests.service.security.tokens import OTHER_SECRET, bearer, rsa_key, token

AUDIENCE = "tracker-1"
REFUSED = {
    "nothing": None,
    "expired": lambda: token("root", aud=AUDIENCE, exp=int(time.time()) - 60),
    "not yet valid": lambda: token("root", aud=AUDIENCE, nbf=int(time.time()) + 600),
    "wrong audience": lambda: token("root", aud="other"),
    "no audience": lambda: token("root"),
    "wrong algorithm": lambda: token("root", aud=AUDIENCE, key=rsa_key(), algorithm="RS256"),
    "wrong key": lambda: token("root", aud=AUDIENCE, key=OTHER_SECRET),
    "tampered": lambda: token("root", aud=AUDIENCE)[:-4] + "AAAA",
    "malformed": lambda: "root",
}
ROLES = {
    Action.DISPATCH: "shop",
    Action.READ: "reader",
    Action.PAYLOAD: "contents",
    Action.METRICS: "prometheus",
    Action.ADMIN: "operator",
}
"""A role that may take just this action, and what it contains."""
ALLOWED = {
    "shop": {Action.DISPATCH, Action.READ},
    "reader": {Action.READ},
    "contents": {Action.PAYLOAD, Action.READ},
    "prometheus": set(),
    "operator": {Action.ADMIN},
}
"""Actions of each role on the topic of the rules."""
NAMED = tuple(CALL_ACTIONS.items())
TRACKERS = tuple((name, needed) for name, needed in NAMED if "DelayedDelivery" in name)
LEDGERS = tuple((name, needed) for name, needed in NAMED if "Ledger" in name)
INDEX = "/admin/v2/persistent/shop/orders/paid/getMessageIdByIndex?index=0"
ELSEWHERE = "/admin/v2/non-persistent/shop/orders/paid/getMessageIdByIndex?index=0"


@pytest.fixture
async def channel(service):
    async with service.channel() as opened:
        yield opened


@pytest.fixture
async def service(tmp_path):
    given = {"token_audience": AUDIENCE, "token_audience_claim": "aud"}
    async with secured(tmp_path, **given) as running:
        yield running


def of(role: str) -> str:
    return token(role, aud=AUDIENCE)


def request_of(name: str, topic: str, subscription: str) -> object:
    """Return a request that passes every check that comes before those of this test."""
    call = name.rpartition("/")[2]
    module = ledger_pb2 if "Ledger" in name else tracker_pb2
    request = getattr(module, f"{call}Request")()
    if "Ledger" in name:
        request.topic = topic
        return request
    target = {"AddMessagesStream": "add", "ImportSnapshots": "header"}.get(call)
    named = request if target is None else getattr(request, target)
    if "tracker" in named.DESCRIPTOR.fields_by_name:
        named.tracker.topic, named.tracker.subscription = topic, subscription
    if call == "DeleteTracker":
        request.epoch = 1
    return request


async def outcome(
    channel: grpc.aio.Channel, name: str, given: str | None, topic=TOPIC, subscription=SUBSCRIPTION, *, sends=True
):
    """Return the status and the reason of a call: OK, or whatever the call ends with.

    Streams that are refused before a request is read send none: a write that fails meanwhile would replace the status
    by INTERNAL (grpc/grpc#36066).
    """
    metadata = () if given is None else (("authorization", bearer(given)),)
    request = request_of(name, topic, subscription)
    method = f"/{name}"
    serialize = type(request).SerializeToString
    call = name.rpartition("/")[2]
    try:
        if call == "AddMessagesStream":
            stream = channel.stream_stream(method, request_serializer=serialize)(metadata=metadata)
            if sends:
                await stream.write(request)
            await stream.read()
            stream.cancel()
        elif call == "ImportSnapshots":
            sent = channel.stream_unary(method, request_serializer=serialize)(metadata=metadata)
            await (upload(sent, iter([request])) if sends else sent)
        else:
            await channel.unary_unary(method, request_serializer=serialize)(request, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return error.code(), info_of(error)
    return grpc.StatusCode.OK, None


def info_of(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo | None:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return info
    return None


@pytest.mark.slow
@pytest.mark.parametrize("credential", REFUSED)
async def test_no_call_without_a_valid_credential(channel, credential):
    """Every call but those of health is UNAUTHENTICATED, even for what would be a superuser."""
    make = REFUSED[credential]
    given = None if make is None else make()
    for name, _ in (*TRACKERS, *LEDGERS):
        code, info = await outcome(channel, name, given, sends=False)
        assert code is grpc.StatusCode.UNAUTHENTICATED, name
        assert info is not None
        assert info.reason == "UNAUTHENTICATED"


@pytest.mark.slow
async def test_each_action_permits_its_calls_alone(channel):
    """A role with one action may make the calls that need it; the others are PERMISSION_DENIED with what was asked."""
    for name, needed in (*TRACKERS, *LEDGERS):
        for role, actions in ALLOWED.items():
            code, info = await outcome(channel, name, of(role))
            whole_topic = role == "shop" and "Ledger" in name  # its rule is for one subscription
            if name in LISTING_CALLS or (needed in actions and not whole_topic):
                assert code not in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}, (name, role)
            else:
                assert code is grpc.StatusCode.PERMISSION_DENIED, (name, role)
                assert dict(info.metadata) == {"principal": role, "action": needed.value, "topic": TOPIC}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topic", "subscription"),
    [("persistent://bank/orders/paid", SUBSCRIPTION), (TOPIC, "other"), (f"{TOPIC}x", SUBSCRIPTION)],
)
async def test_another_topic_or_subscription(channel, topic, subscription):
    """The right action on another topic, or on another subscription, is denied."""
    for name, needed in TRACKERS:
        if name not in LISTING_CALLS and needed is Action.DISPATCH:
            code, _ = await outcome(channel, name, of("shop"), topic, subscription)
            assert code is grpc.StatusCode.PERMISSION_DENIED, name
    for name, needed in LEDGERS:
        code, _ = await outcome(channel, name, of(ROLES[needed]), "persistent://bank/orders/paid")
        assert code is grpc.StatusCode.PERMISSION_DENIED, name


@pytest.mark.slow
async def test_a_superuser_may_do_everything(channel):
    """No call of a superuser is refused for what it is."""
    for name, _ in (*TRACKERS, *LEDGERS):
        code, _ = await outcome(channel, name, of("root"), "persistent://any/where/topic", "any")
        assert code not in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}, name


async def test_deleting_without_an_epoch_needs_admin(service):
    """The epoch proves that the caller owns the tracker; without it the call may delete what another one owns."""
    ref = tracker_pb2.TrackerRef(topic=TOPIC, subscription=SUBSCRIPTION)
    async with service.trackers(of("shop")) as calls:
        epoch = (await calls.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=ref, owner="a"))).epoch
        with pytest.raises(grpc.aio.AioRpcError, match="may not admin"):
            await calls.DeleteTracker(tracker_pb2.DeleteTrackerRequest(tracker=ref))
        await calls.DeleteTracker(tracker_pb2.DeleteTrackerRequest(tracker=ref, epoch=epoch))
    async with service.trackers(of("operator")) as calls:
        await calls.DeleteTracker(tracker_pb2.DeleteTrackerRequest(tracker=ref))


async def test_health_is_for_anybody_and_reflection_for_principals(service):
    """A probe has no credential; a description of the API is no secret, but nobody's without one."""
    async with service.channel() as channel:
        health = health_pb2_grpc.HealthStub(channel)
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
        watched = health.Watch(health_pb2.HealthCheckRequest())
        assert (await watched.read()).status == health_pb2.HealthCheckResponse.SERVING
        watched.cancel()
        for name, needed in NAMED:
            if "reflection" not in name:
                continue
            assert needed is Access.AUTHENTICATED
            asked = channel.stream_stream(
                f"/{name}",
                request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
                response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
            )
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await asked().read()  # with nothing sent: a call that ends meanwhile may fail at that instead
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            metadata = (("authorization", bearer(of("nobody"))),)
            assert (await asked(iter([request]), metadata=metadata).read()).list_services_response.service


@pytest.mark.slow
@pytest.mark.parametrize("credential", REFUSED)
async def test_no_route_without_a_valid_credential(service, credential):
    """Every route but health is 401 with Pulsar's text, also one that does not exist."""
    make = REFUSED[credential]
    async with service.http(None if make is None else make()) as client:
        for path in ("/health/live", "/health/ready"):
            assert (await client.get(path)).status_code == 200
        for path in ("/metrics", INDEX, ELSEWHERE, "/no/such/route", "/health/live/", "/health"):
            answer = await client.get(path)
            assert answer.status_code == 401, path
            assert answer.json() == {"reason": "Need to authenticate to perform the request"}
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.slow
async def test_routes_by_action(service):
    """Metrics are all or nothing; a lookup needs the topic, and is denied before anything is said about the topic."""
    lookup_denied = {
        "reason": f"Unauthorized to validateTopicOperation for operation [PEEK_MESSAGES] on topic [{TOPIC}]"
    }
    for role, metrics, lookup in (
        ("prometheus", 200, 403),
        ("reader", 403, 412),
        ("contents", 403, 412),
        ("shop", 403, 403),
        ("operator", 403, 403),
        ("nobody", 403, 403),
        ("root", 200, 412),
    ):
        async with service.http(of(role)) as client:
            assert (await client.get("/metrics")).status_code == metrics, role
            answer = await client.get(INDEX)
            assert answer.status_code == lookup, role
            if lookup == 403:
                assert answer.json() == lookup_denied
            assert (await client.get(ELSEWHERE)).status_code == 406
            assert (await client.get("/no/such/route")).status_code == 404
    assert {Access.ANYBODY, Access.AUTHENTICATED, Action.METRICS, Action.READ} == set(ROUTE_ACTIONS.values())


async def test_lists_have_only_what_the_caller_may_see(service):
    """Rows of other topics and subscriptions are left out, and so are their page tokens."""
    async with service.trackers(of("root")) as calls:
        for topic, subscription in ((TOPIC, SUBSCRIPTION), (TOPIC, "other"), ("persistent://bank/a/b", "s")):
            ref = tracker_pb2.TrackerRef(topic=topic, subscription=subscription)
            await calls.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=ref, owner="root"))
    for role, count in (("root", 3), ("reader", 2), ("shop", 1), ("nobody", 0)):
        async with service.trackers(of(role)) as calls:
            listed = await calls.ListTrackers(tracker_pb2.ListTrackersRequest(page_size=1))
            rows = list(listed.trackers)
            while listed.next_page_token:
                listed = await calls.ListTrackers(
                    tracker_pb2.ListTrackersRequest(page_size=1, page_token=listed.next_page_token)
                )
                rows += listed.trackers
            assert len(rows) == count, role
