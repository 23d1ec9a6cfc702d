"""The HTTP application and its server: health for supervisors, metrics for Prometheus, and the admin call of brokers.

``/health/live`` answers as long as the event loop runs. ``/health/ready`` answers 503 with the reason until the service
takes calls, and again while it drains. While the storage or the add log fails it answers 200 with the status "degraded"
and the reason: the service hands out what it has, and a restart would not help.
"""

import asyncio
import contextlib
import dataclasses
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from delayed_tracker.service.clock import Clock, SystemClock
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.exposition.scrape_turns import ScrapeTurns
from delayed_tracker.service.http.access import AccessControl
from delayed_tracker.service.http.connections import (
    REQUEST_HEAD_BYTES_MAX,
    BoundedConnection,
    HttpConnections,
    HttpLimits,
    plain,
)
from delayed_tracker.service.process.health import Health, Stage
from delayed_tracker.service.security.guard import Guard

_CLOSE_SECONDS = 1
"""Requests take milliseconds, so a client that has not read its answer by then is cut off at the stop."""
BODY_BYTES_MAX: Final = 64 * 1024


def build_app(health: Health, metrics: ServiceMetrics, *more: Route, guard: Guard | None = None) -> Starlette:
    """Return the application. Its only state is the order of scrapes.

    Args:
        health: of the service.
        metrics: of the service.
        more: further routes.
        guard: refuses callers without the right to a route; None lets everybody do everything.
    """
    turns = ScrapeTurns(metrics)

    async def scrape(request: Request) -> Response:
        exposition, content_type = await turns.scrape(request.headers.get("accept", ""))
        return Response(exposition, headers={"content-type": content_type})

    return Starlette(
        routes=[*_health_routes(health), Route("/metrics", scrape), *more],
        middleware=[Middleware(RequestFraming), *([] if guard is None else [Middleware(AccessControl, guard)])],
    )


def build_health_app(health: Health) -> Starlette:
    """Return an application with the routes for probes alone, which need no credential."""
    return Starlette(routes=_health_routes(health), middleware=[Middleware(RequestFraming)])


def _health_routes(health: Health) -> list[Route]:
    async def live(_: Request) -> Response:
        return JSONResponse({"status": "live"})

    async def ready(_: Request) -> Response:
        if health.stage is not Stage.SERVING:
            return JSONResponse({"status": "not ready", "reason": health.stage.value}, status_code=503)
        if reason := health.degradation():
            return JSONResponse({"status": "degraded", "reason": reason})
        return JSONResponse({"status": "ready"})

    return [Route("/health/live", live), Route("/health/ready", ready)]


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


class RequestFraming:
    """ASGI middleware that passes on only requests whose body has a known, small length.

    No path of this service reads a body, so bodies that are ambiguous, of unknown length or large are refused. The refusal
    closes the connection, so that no later bytes are read as a request: a proxy that reads the length differently could
    otherwise be tricked into passing on a request that it has not checked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        refusal = _refusal_of(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)


def _refusal_of(headers: Headers) -> PlainTextResponse | None:
    length = headers.get("content-length")
    if "transfer-encoding" in headers:
        if length is not None:
            return _refused(400, "Content-Length and Transfer-Encoding exclude each other: send one of them")
        return _refused(411, "no request needs a body: send none, or its Content-Length")
    # The HTTP parser has checked that these are digits.
    if length is not None and int(length) > BODY_BYTES_MAX:
        return _refused(413, f"a body has at most {BODY_BYTES_MAX} bytes, and no request needs one")
    return None


def _refused(status: int, remedy: str) -> PlainTextResponse:
    return PlainTextResponse(f"{remedy}\n", status, headers={"connection": "close"})
