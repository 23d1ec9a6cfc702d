"""The server of one HTTP application on one socket: uvicorn, with connections that have bounds."""

import asyncio
import contextlib
import dataclasses
import socket
import ssl
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette

from delayed_tracker.service.clock import Clock, SystemClock
from delayed_tracker.service.http.connections import (
    REQUEST_HEAD_BYTES_MAX,
    BoundedConnection,
    HttpConnections,
    HttpLimits,
    plain,
)

_CLOSE_SECONDS = 1
"""Requests take milliseconds, so a client that has not read its answer by then is cut off at the stop."""


class _EmbeddedServer(uvicorn.Server):
    """uvicorn server inside a process that handles signals and bounds connections itself."""

    def __init__(self, config: uvicorn.Config, connections: HttpConnections) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._connections = connections
        self._accepting: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._accepting = asyncio.create_task(self._connections.accept(self._connection))
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        await super().shutdown(sockets)
        self._connections.close()

    def _connection(self) -> BoundedConnection:
        return BoundedConnection(self.config, self.server_state, self.lifespan.state, self._connections)


class HttpServer:
    """HTTP server of one application on one listening socket, which it closes."""

    def __init__(
        self,
        app: Starlette,
        listener: socket.socket,
        *,
        limits: HttpLimits | None = None,
        clock: Clock | None = None,
        secure: Callable[[], ssl.SSLContext | None] = plain,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedConnection,
            h11_max_incomplete_event_size=REQUEST_HEAD_BYTES_MAX,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
        self.connections = HttpConnections(listener, clock or SystemClock(), limits or HttpLimits(), secure)
        self._server = _EmbeddedServer(config, self.connections)
        self._serving: asyncio.Task[None] | None = None

    def set_client_timeout(self, timeout_ms: int) -> None:
        """Set the time that connections wait for their clients, also for those that wait already."""
        self.connections.limits = dataclasses.replace(self.connections.limits, client_timeout_ms=timeout_ms)
        for connection in tuple(self.connections.open):
            connection.apply_limits()

    def set_connections_max(self, connections_max: int) -> None:
        """Set the maximum of connections. Those above it are closed when the next one comes."""
        self.connections.limits = dataclasses.replace(self.connections.limits, connections_max=connections_max)

    async def start(self) -> None:
        """Start to serve. Returns when requests are answered."""
        serving = asyncio.create_task(self._server.serve(sockets=[]))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if serving.done():
            serving.result()
        self._serving = serving

    async def stop(self) -> None:
        """Finish the requests in flight and close the socket. May be called if it never started."""
        if self._serving is None:
            self.connections.close()
        else:
            self._server.should_exit = True
            await self._serving
