"""A server that speaks the bookies' frames and does what each test tells it, over real sockets."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.connection import BookieConnection, Endpoint
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType, master_key
from delayed_tracker.bookkeeper.wire.replies import REPLIES_OF_VERSION_3, ReplyFormat
from delayed_tracker.bookkeeper.wire.requests import AddRequests, Request
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb

KEY = master_key(b"")


def add_of(entry_id: int = 0, payload: bytes = b"hello", *, ledger_id: int = 77) -> Request:
    sealed = Digest(DigestType.CRC32C).seal(ledger_id, entry_id, entry_id - 1, len(payload), payload)
    return AddRequests(ledger_id, KEY).of(entry_id, sealed, payload)


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def reply_to(request: pb.Request, status: int = 0, body: bytes | None = None) -> pb.Response:
    """Return the reply that a bookie would give to a request."""
    response = pb.Response(header=request.header, status=status)
    if request.HasField("addRequest"):
        asked = request.addRequest
        response.addResponse.MergeFrom(pb.AddResponse(status=status, ledgerId=asked.ledgerId, entryId=asked.entryId))
    elif request.HasField("readRequest"):
        read = request.readRequest
        found = pb.ReadResponse(status=status, ledgerId=read.ledgerId, entryId=read.entryId, body=body)
        response.readResponse.MergeFrom(found)
    elif request.HasField("writeLacRequest"):
        ledger_id = request.writeLacRequest.ledgerId
        response.writeLacResponse.MergeFrom(pb.WriteLacResponse(status=status, ledgerId=ledger_id))
    elif request.HasField("readLacRequest"):
        ledger_id = request.readLacRequest.ledgerId
        response.readLacResponse.MergeFrom(pb.ReadLacResponse(status=status, ledgerId=ledger_id, lacBody=body))
    return response


class Peer:
    """The bookie's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def message(self) -> bytes:
        """Return the next request, encoded; raises IncompleteReadError at the end of the connection."""
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(length)

    async def request(self) -> pb.Request:
        """Return the next request, as :meth:`message`."""
        return pb.Request.FromString(await self.message())

    async def send(self, *responses: pb.Response) -> None:
        self.writer.write(b"".join(framed(response.SerializeToString()) for response in responses))
        await self.writer.drain()

    async def answer(self, status: int = 0, body: bytes | None = None) -> pb.Request:
        """Answer the next request and return it."""
        request = await self.request()
        await self.send(reply_to(request, status, body))
        return request

    async def start_tls(self, context: ssl.SSLContext) -> None:
        await self.answer()
        await self.writer.start_tls(context)

    async def until_closed(self) -> None:
        """Wait until the client ends the connection, reading nothing but its end."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass


Script = Callable[[Peer], Awaitable[None]]


class ScriptedBookie:
    """Server of one script after the other, one for each connection; the last one is used again."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.connections = 0
        self.failure: BaseException | None = None
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self._scripts[min(self.connections, len(self._scripts) - 1)]
        self.connections += 1
        try:
            await script(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass  # the client left
        except Exception as error:  # noqa: BLE001  # an assertion of a script belongs to the test
            self.failure = error
        finally:
            writer.transport.abort()


async def echo(peer: Peer) -> None:
    """Answer every request with success, reads with the requested ids as their body."""
    while True:
        request = await peer.request()
        body = b"body" if request.HasField("readRequest") else None
        await peer.send(reply_to(request, body=body))


@contextlib.asynccontextmanager
async def bookie_of(*scripts: Script) -> AsyncIterator[ScriptedBookie]:
    """Serve the scripts on a free port of this machine."""
    bookie = ScriptedBookie(*scripts)
    server = await asyncio.start_server(bookie.serve, "127.0.0.1", 0)
    bookie.port = server.sockets[0].getsockname()[1]
    try:
        yield bookie
    finally:
        server.close()
        await server.wait_closed()
    if bookie.failure is not None:
        raise bookie.failure


def connection_to(
    host: str,
    port: int,
    settings: ClientSettings,
    bookie: str = "b1",
    replies: ReplyFormat = REPLIES_OF_VERSION_3,
) -> BookieConnection:
    """Return a connection to an address, which is not opened yet."""

    async def find() -> Endpoint:
        return Endpoint(host, port)

    return BookieConnection(bookie, find, settings, replies=replies)


@contextlib.asynccontextmanager
async def connected(*scripts: Script, **settings: object) -> AsyncIterator[tuple[BookieConnection, ScriptedBookie]]:
    """Serve the scripts, and yield a connection to them with these settings."""
    async with bookie_of(*scripts) as bookie:
        connection = connection_to("127.0.0.1", bookie.port, ClientSettings(**settings))  # type: ignore[arg-type]
        try:
            yield connection, bookie
        finally:
            await connection.close()
