"""Tests of TLS, which begins after one request in the clear."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from delayed_tracker.bookkeeper.errors import BookieReplyInvalid, BookieUnavailable, ClientClosed, TlsRefused
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.bookkeeper.wire.requests import ReadRequests
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb
from tests.bookkeeper.wire.scripted_bookie import Peer, add_of, connected, framed, reply_to


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key and its own certificate, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bookie")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "bookie.pem"
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(secret + signed.public_bytes(encoding))
    return path


@pytest.fixture
def bookies_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


async def test_requests_wait_for_the_handshake(bookies_side, trusting):
    """Requests that are sent before the connection is secure go through TLS, large ones too, both ways."""
    large = bytes(range(256)) * 8_000
    bodies = []

    async def secure(peer: Peer) -> None:
        await peer.start_tls(bookies_side)
        bodies.extend([(await peer.answer(body=large)).addRequest.body[36:] for _ in range(2)])
        await peer.answer(body=large)
        await peer.until_closed()

    async with connected(secure, tls=trusting) as (connection, _):
        sent = [connection.send(add_of(0, large)), connection.send(add_of(1))]
        assert [reply.status for reply in await asyncio.gather(*sent)] == [Status.OK, Status.OK]
        assert (await connection.call(ReadRequests(77).of(0))).body == large

    assert bodies == [large, b"hello"]


async def test_a_bookie_without_tls_is_named():
    """A bookie that refuses START_TLS gets no request in the clear."""
    asked = []

    async def plain(peer: Peer) -> None:
        asked.append(await peer.answer(Status.BAD_REQUEST))
        await peer.until_closed()

    async with connected(plain, tls=ssl.create_default_context()) as (connection, _):
        with pytest.raises(TlsRefused, match=r"bookie b1: it refuses TLS \(BAD_REQUEST\); set tlsProviderFactoryClass"):
            await connection.call(add_of())

    assert [request.header.operation for request in asked] == [pb.START_TLS]


async def test_a_certificate_of_nobody_is_refused(bookies_side):
    """The certificate is verified: one that no authority signed ends the connection, and closing is prompt."""

    async def secure(peer: Peer) -> None:
        await peer.start_tls(bookies_side)

    async with connected(secure, tls=ssl.create_default_context()) as (connection, _):
        with pytest.raises(BookieUnavailable, match="certificate verify failed"):
            await connection.call(add_of())


@pytest.mark.parametrize("behind", [b"\0", framed(b"\x08\x03")])
async def test_bytes_in_the_clear_before_the_handshake_are_refused(bookies_side, trusting, behind):
    """An attacker who puts bytes behind the reply to START_TLS cannot pass them off as the bookie's."""

    async def injecting(peer: Peer) -> None:
        request = await peer.request()
        peer.writer.write(framed(reply_to(request).SerializeToString()) + behind)
        await peer.until_closed()

    async with connected(injecting, tls=trusting) as (connection, _):
        with pytest.raises(BookieReplyInvalid):
            await connection.call(add_of())


@pytest.mark.parametrize("answers_request", [False, True])
async def test_a_handshake_that_hangs_takes_the_time_to_connect(trusting, answers_request):
    """A bookie that is silent before or in the handshake fails the requests after the time to connect."""

    async def hanging(peer: Peer) -> None:
        if answers_request:
            await peer.answer()
        await peer.until_closed()

    async with connected(hanging, tls=trusting, connect_timeout_ms=100) as (connection, _):
        with pytest.raises(BookieUnavailable, match=r"no connection to 127\.0\.0\.1:\d+ within 100 ms"):
            await connection.call(add_of())


async def test_closing_in_the_handshake(trusting):
    """A connection can be closed while the bookie lets the handshake hang."""
    in_handshake = asyncio.Event()

    async def hanging(peer: Peer) -> None:
        await peer.answer()
        await peer.reader.read(1)
        in_handshake.set()
        await peer.until_closed()

    async with connected(hanging, tls=trusting, connect_timeout_ms=600_000) as (connection, _):
        sent = connection.send(add_of())
        await in_handshake.wait()
        await connection.close()
        with pytest.raises(ClientClosed):
            await sent
