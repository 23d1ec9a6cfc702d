"""Tests of TLS and tokens against a real server, with both shells of the client."""

import asyncio
import gc
import os
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2

from delayed_tracker.client import (
    AddResult,
    ClientCredentials,
    ClientSettings,
    InvalidInput,
    PermissionDenied,
    TlsCredentials,
    TlsFailed,
    TokenFile,
    Unauthenticated,
    Unavailable,
)
from delayed_tracker.client.errors import ERROR_DOMAIN
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import ScriptedService, abort, scripted_service
from tests.client.harness.shells import Batches
from tests.client.harness.tls import server_credentials, written
from tests.service.security.certificates import Authority

IMPATIENT = ClientSettings(connect_timeout_s=1.0)
OPENED = pb.OpenTrackerResponse(epoch=7)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def stranger() -> Authority:
    return Authority("strangers")


def token_of(context: grpc.aio.ServicerContext) -> str | None:
    return dict(context.invocation_metadata()).get("authorization")


class Doorkeeper:
    """Answers only calls with one token; counts the others."""

    def __init__(self, service: ScriptedService, method: str, accepted: str, answer) -> None:
        self.accepted = accepted
        self.refused_count = 0
        self._answer = answer
        service.on(method, self)

    async def __call__(self, request, context):
        if token_of(context) != f"Bearer {self.accepted}":
            self.refused_count += 1
            info = error_details_pb2.ErrorInfo(reason="UNAUTHENTICATED", domain=ERROR_DOMAIN)
            await abort(context, grpc.StatusCode.UNAUTHENTICATED, "the token has expired", info)
        return self._answer


def replace(path: Path, content: str) -> None:
    """Replace a file in one step, as Kubernetes does."""
    draft = path.with_suffix(".draft")
    draft.write_text(content)
    draft.replace(path)


@pytest.mark.parametrize("as_bytes", [True, False], ids=["bytes", "paths"])
@pytest.mark.parametrize("mutual", [False, True], ids=["tls", "mtls"])
async def test_a_client_connects_with_tls(authority, shell, tmp_path, as_bytes, mutual):
    """Certificates are given as bytes or as paths; a service that demands the client's gets it."""
    own = authority.issue("shop")
    names = []

    async def open_(request, context):
        names.extend(context.auth_context().get("x509_common_name", ()))
        return OPENED

    if as_bytes:
        tls = TlsCredentials(
            ca=authority.certificate,
            certificate=own.certificate if mutual else None,
            key=own.key if mutual else None,
        )
    else:
        ca, (certificate, key) = tmp_path / "ca.crt", written(own, tmp_path)
        ca.write_bytes(authority.certificate)
        tls = TlsCredentials(ca=str(ca), certificate=certificate if mutual else None, key=key if mutual else None)
    async with scripted_service(server_credentials(authority, mutual=mutual)) as service:
        service.on("OpenTracker", open_)
        async with shell.connect(service.address, credentials=ClientCredentials(tls=tls)) as client:
            await client.open_tracker(TOPIC, "billing")
    assert set(names) == ({b"shop"} if mutual else set())


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        ("tls", "plain", "speaks TLS, and this client does not: give the CA of its certificate"),
        ("mtls", "plain", "speaks TLS, and this client does not"),
        ("plain", "tls", "speaks plain gRPC, and this client TLS: leave out TLS"),
        ("tls", "wrong CA", "its certificate is not accepted (unable to get local issuer certificate)"),
        ("mtls", "tls", "it demands a client certificate"),
        ("mtls", "wrong client", "it does not accept the client's certificate"),
        ("expired", "tls", "its certificate is not accepted (certificate has expired)"),
        ("other host", "tls", "its certificate is not accepted (IP address mismatch"),
    ],
)
async def test_a_disagreement_about_tls_is_told_in_plain_words(authority, stranger, shell, tmp_path, case):
    """The error says which side speaks what, or what is wrong with which certificate, and what to give."""
    served, shown, said = case
    shown_by_service = authority.expired("tracker") if served == "expired" else None
    server = server_credentials(authority, shown_by_service, mutual=served == "mtls")
    ca = stranger if shown == "wrong CA" else authority
    tls = TlsCredentials(ca=ca.certificate)
    if shown == "wrong client":
        (tmp_path / "ca").write_bytes(authority.certificate)
        certificate, key = written(stranger.issue("shop"), tmp_path)
        tls = TlsCredentials(ca=tmp_path / "ca", certificate=certificate, key=key)
    credentials = ClientCredentials(tls=None if shown == "plain" else tls)
    # The certificate is for 127.0.0.1.
    bound = "127.0.0.2:0" if served == "other host" else "127.0.0.1:0"
    async with scripted_service(None if served == "plain" else server, address=bound) as service:
        with pytest.raises(TlsFailed) as caught:
            async with shell.connect(service.address, settings=IMPATIENT, credentials=credentials):
                pass
    assert said in caught.value.message
    assert service.address in caught.value.message


@pytest.mark.slow
@pytest.mark.parametrize("tls", [None, TlsCredentials()])
async def test_a_port_where_nobody_listens_is_no_disagreement(shell, tls):
    """A service that does not run is reported as before."""
    credentials = ClientCredentials(tls=tls)
    with pytest.raises(Unavailable, match=r"no service answers at 127\.0\.0\.1:1 within 1 s") as caught:
        async with shell.connect("127.0.0.1:1", settings=IMPATIENT, credentials=credentials):
            pass
    assert not isinstance(caught.value, TlsFailed)


async def test_every_kind_of_call_carries_the_token(service: ScriptedService, shell):
    """Single calls, streams and imports carry it, and a function is asked before each of them."""
    asked = []
    seen = []

    def supply() -> str:
        asked.append(f"token-{len(asked)}")
        return asked[-1]

    def noting(answer):
        async def noted(request, context):
            seen.append(token_of(context))
            return answer

        return noted

    service.on("OpenTracker", noting(OPENED))
    service.on("AddMessagesStream", noting(pb.AddMessagesStreamResponse(added=pb.AddMessagesResponse(added_count=1))))
    service.on("ImportSnapshots", noting(pb.ImportSnapshotsResponse(epoch=8)))
    async with shell.connect(service.address, credentials=ClientCredentials(token=supply)) as client:
        session = await client.open_tracker(TOPIC, "billing")
        async for _ in session.add_stream(Batches(([1], [1], [1]))):
            pass
        await client.import_snapshots(TOPIC, "billing", [], bucket_count=0)
        await session.leave()
    assert seen == [f"Bearer {token}" for token in asked]
    assert len(seen) == 3


async def test_without_a_token_none_is_sent(service: ScriptedService, shell):
    """A client without credentials sends no authorization."""
    seen = []

    async def open_(request, context):
        seen.append(token_of(context))
        return OPENED

    service.on("OpenTracker", open_)
    async with shell.connect(service.address) as client:
        await client.open_tracker(TOPIC, "billing")
    assert seen == [None]


async def test_a_token_file_is_read_again_when_it_changes(service: ScriptedService, shell, tmp_path):
    """The next call has the new token, and white space around it is ignored."""
    path = tmp_path / "token"
    path.write_text("first\n")
    door = Doorkeeper(service, "OpenTracker", "first", OPENED)
    async with shell.connect(service.address, credentials=ClientCredentials(token=TokenFile(path))) as client:
        await client.open_tracker(TOPIC, "billing")
        replace(path, " second\n")
        door.accepted = "second"
        await client.open_tracker(TOPIC, "billing")
    assert door.refused_count == 0


async def test_a_refused_call_is_repeated_once_if_the_token_was_replaced(service: ScriptedService, shell, tmp_path):
    """A token that was replaced while the call was under way costs no failed call."""
    path = tmp_path / "token"
    path.write_text("first")

    async def replaced_meanwhile(request, context):
        if token_of(context) == "Bearer first":
            replace(path, "second")
            await abort(context, grpc.StatusCode.UNAUTHENTICATED, "the token has expired")
        return OPENED

    service.on("OpenTracker", replaced_meanwhile)
    async with shell.connect(service.address, credentials=ClientCredentials(token=TokenFile(path))) as client:
        await client.open_tracker(TOPIC, "billing")
    assert len(service.requests_of("OpenTracker")) == 2


@pytest.mark.parametrize("kind", ["text", "file", "function"])
async def test_a_refused_credential_is_not_repeated(service: ScriptedService, shell, tmp_path, kind):
    """Without another token the call fails at once; with yet another one, after the second refusal."""
    path = tmp_path / "token"
    path.write_text("secret-0")
    made = iter(range(100))
    source = {"text": "secret-0", "file": TokenFile(path), "function": lambda: f"secret-{next(made)}"}[kind]
    door = Doorkeeper(service, "OpenTracker", "other", OPENED)
    async with shell.connect(service.address, credentials=ClientCredentials(token=source)) as client:
        with pytest.raises(Unauthenticated) as caught:
            await client.open_tracker(TOPIC, "billing")
    assert door.refused_count == (2 if kind == "function" else 1)
    assert caught.value.reason == "UNAUTHENTICATED"
    assert "secret" not in f"{caught.value!r} {caught.value} {caught.value.metadata} {caught.value.__cause__!r}"


async def test_permission_denied_names_principal_action_and_topic(service: ScriptedService, shell):
    """The names are fields of the error; the call is not repeated."""
    names = {"principal": "shop", "action": "dispatch", "topic": TOPIC}
    calls = []

    async def denied(request, context):
        calls.append(1)
        info = error_details_pb2.ErrorInfo(reason="PERMISSION_DENIED", domain=ERROR_DOMAIN, metadata=names)
        await abort(context, grpc.StatusCode.PERMISSION_DENIED, "principal 'shop' may not dispatch", info)

    service.on("OpenTracker", denied)
    async with shell.connect(service.address, credentials=ClientCredentials(token="secret")) as client:
        with pytest.raises(PermissionDenied, match="principal 'shop' may not dispatch") as caught:
            await client.open_tracker(TOPIC, "billing")
    error = caught.value
    assert (error.principal, error.action, error.topic) == ("shop", "dispatch", TOPIC)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, Unauthenticated, "refuses the credential .*; give another one"),
        (grpc.StatusCode.PERMISSION_DENIED, PermissionDenied, "refuses the call .*; ask its operator"),
    ],
)
async def test_a_proxy_that_refuses_is_told_by_its_status(service: ScriptedService, shell, code, kind, said):
    """Without a reason of the service, the status code decides, and the names are empty."""

    async def refused(request, context):
        await context.abort(code, "no")

    service.on("OpenTracker", refused)
    async with shell.connect(service.address) as client:
        with pytest.raises(kind, match=said) as caught:
            await client.open_tracker(TOPIC, "billing")
    assert caught.value.principal == ""


async def test_a_token_file_that_vanishes_stays_in_use_until_it_is_refused(service: ScriptedService, shell, tmp_path):
    """The last token goes on; once it is refused, the error is that of the file."""
    path = tmp_path / "token"
    path.write_text("first")
    door = Doorkeeper(service, "OpenTracker", "first", OPENED)
    async with shell.connect(service.address, credentials=ClientCredentials(token=TokenFile(path))) as client:
        os.truncate(path, 0)
        await client.open_tracker(TOPIC, "billing")
        path.unlink()
        await client.open_tracker(TOPIC, "billing")
        door.accepted = "second"
        with pytest.raises(InvalidInput, match=r"token_file: .*No such file or directory"):
            await client.open_tracker(TOPIC, "billing")


async def test_an_error_of_the_function_ends_the_call(service: ScriptedService, shell):
    """An error of the program's own function reaches the program, and nothing is sent."""

    def broken() -> str:
        raise KeyError("vault")

    async with shell.connect(service.address, credentials=ClientCredentials(token=broken)) as client:
        with pytest.raises(KeyError, match="vault"):
            await client.open_tracker(TOPIC, "billing")
    assert not service.requests


async def test_an_error_of_the_function_ends_the_calls_that_share_a_call(service: ScriptedService, shell):
    """Acks, polls and buffered adds raise it like other calls, no task loses it, and the next calls are made."""
    lost = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    is_broken = False

    def supply() -> str:
        if is_broken:
            raise OSError("vault")
        return "secret"

    service.on("AddMessages", pb.AddMessagesResponse(added_count=1))
    service.on("AckMessages", pb.AckMessagesResponse(acked_count=1))
    service.on("PollScheduledMessages", pb.PollScheduledMessagesResponse())

    async def outcomes(session) -> list[object]:
        calls = session.ack(1, [7], [0]), session.poll(1), session.add(1, 7, 0)
        return await asyncio.gather(*calls, return_exceptions=True)

    async with (
        shell.connect(service.address, credentials=ClientCredentials(token=supply)) as client,
        await client.open_tracker(TOPIC, "billing") as session,
    ):
        is_broken = True
        assert [repr(outcome) for outcome in await outcomes(session)] == ["OSError('vault')"] * 3
        is_broken = False
        acked, _, added = await outcomes(session)
        assert (acked.acked_count, added) == (1, AddResult.ADDED)
    del session
    gc.collect()
    assert not lost


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "[::1]:1", "ipv4:127.0.0.9:1", "unix:/run/tracker"])
async def test_a_token_goes_to_this_machine_in_plain(shell, address):
    """Loopback addresses and Unix sockets need no permission: the client goes on to connect."""
    settings = ClientSettings(connect_timeout_s=0.01)
    with pytest.raises(Unavailable):
        async with shell.connect(address, settings=settings, credentials=ClientCredentials(token="secret")):
            pass


@pytest.mark.parametrize(
    "address",
    ["192.0.2.1:1", "tracker:1", "dns:///tracker:1", "localhost.example:1", "ipv4:127.0.0.1:1,192.0.2.1:1", "xds:///x"],
)
async def test_a_token_does_not_go_to_another_machine_in_plain(shell, address):
    """The client refuses before it connects, unless the program permits it; the token is not in the error."""
    with pytest.raises(InvalidInput, match="a token is not sent to another machine without encryption") as caught:
        async with shell.connect(address, credentials=ClientCredentials(token="secret")):
            pass
    assert "secret" not in str(caught.value)
    permitted = ClientCredentials(token="secret", token_over_plain=True)
    with pytest.raises(Unavailable):
        async with shell.connect(address, settings=ClientSettings(connect_timeout_s=0.01), credentials=permitted):
            pass
