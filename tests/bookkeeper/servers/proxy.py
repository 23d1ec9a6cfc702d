"""Stands between a client and a server: cuts connections, loses replies, and holds them back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_CHUNK_BYTES = 64 * 1024


class Proxy:
    """A TCP proxy in the event loop of the test."""

    def __init__(self, port: int) -> None:
        self.port = 0
        """Port that clients connect to."""
        self.connection_count = 0
        """Number of connections that clients have made so far, without those that were turned away."""
        self.chunks_sent = 0
        """Number of chunks that clients have sent so far."""
        self._server_port = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self._sent = asyncio.Condition()
        self._loses_reply = False
        self._away = False

    @property
    def address(self) -> str:
        """Return the address for clients."""
        return f"127.0.0.1:{self.port}"

    def lose_next_reply(self) -> None:
        """Cut the connection in the place of the next reply; the server has performed the request."""
        self._loses_reply = True

    def hold_replies(self) -> None:
        """Keep replies back until :meth:`release`; requests go on to the server."""
        self._passing.clear()

    def release(self) -> None:
        """Pass on the replies that were kept back, and those to come."""
        self._passing.set()

    def turn_away(self) -> None:
        """Close all connections, and new ones as they come, until :meth:`serve_again`."""
        self._away = True
        self.cut()

    def serve_again(self) -> None:
        """Serve new connections."""
        self._away = False

    def cut(self) -> None:
        """Close all connections; new ones are accepted."""
        for writer in self._writers:
            writer.close()

    async def until_sent(self, chunks: int) -> None:
        """Wait until clients have sent as many chunks in all."""
        async with self._sent:
            await self._sent.wait_for(lambda: self.chunks_sent >= chunks)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client until either side closes it."""
        if self._away:
            writer.transport.abort()
            return
        self.connection_count += 1
        writers, directions = [writer], []
        try:
            upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._server_port)
            writers.append(upstream)
            self._writers |= {writer, upstream}
            directions = [
                asyncio.create_task(self._requests(reader, upstream)),
                asyncio.create_task(self._replies(upstream_reader, writer)),
            ]
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            # The server is away: the client's connection ends, too.
            pass
        finally:
            for direction in directions:
                direction.cancel()
            self._writers.difference_update(writers)
            for ended in writers:
                ended.transport.abort()
            closed = [ended.wait_closed() for ended in writers]
            await asyncio.gather(*directions, *closed, return_exceptions=True)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(_CHUNK_BYTES):
                writer.write(chunk)
                await writer.drain()
                async with self._sent:
                    self.chunks_sent += 1
                    self._sent.notify_all()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(_CHUNK_BYTES):
                if self._loses_reply:
                    self._loses_reply = False
                    return
                await self._passing.wait()
                writer.write(chunk)
                await writer.drain()


@asynccontextmanager
async def running_proxy(port: int) -> AsyncIterator[Proxy]:
    """Start a proxy before the server at a port of this machine, and stop it at the end."""
    proxy = Proxy(port)
    serving: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(proxy.serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()
