"""An HTTP port for the tests, and clients that send raw bytes over a socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.applications import Starlette

from delayed_tracker.service.http.connections import HttpLimits
from delayed_tracker.service.http.http_server import HttpServer
from delayed_tracker.service.process.listen import listen
from delayed_tracker.service.settings.address import Address

LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass
class Port:
    server: HttpServer
    address: Address

    @property
    def open_count(self) -> int:
        return len(self.server.connections.open)

    @contextlib.asynccontextmanager
    async def client(
        self, *, buffer_bytes: int = 2**16
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect, and close the connection at the end even if the server has closed it."""
        reader, writer = await asyncio.open_connection(self.address.host, self.address.port, limit=buffer_bytes)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def answer_to(self, request: bytes) -> bytes:
        """Return all bytes that the server sends until it closes the connection."""
        async with self.client() as (reader, writer), asyncio.timeout(10):
            writer.write(request)
            return await rest_of(reader)


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes until the connection is closed or reset."""
    read = b""
    with contextlib.suppress(ConnectionResetError):
        while more := await reader.read(2**16):
            read += more
    return read


@contextlib.asynccontextmanager
async def serving(app: Starlette, limits: HttpLimits, **kwargs) -> AsyncIterator[Port]:
    listener, bound = await listen("httpListenAddress", Address("127.0.0.1", 0))
    server = HttpServer(app, listener, limits=limits, **kwargs)
    await server.start()
    try:
        yield Port(server, bound)
    finally:
        await server.stop()
