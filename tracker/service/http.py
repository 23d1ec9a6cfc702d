"""The HTTP edge: health for supervisors, metrics for Prometheus, and what brokers answer over HTTP.

``/health/live`` answers as long as the loop turns. ``/health/ready`` answers 503 with the reason until the service takes
calls, and again once it drains.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tracker.service.health import Health, Stage
from tracker.service.metrics.exporter import ServiceMetrics

_CLOSE_SECONDS = 1
"""Requests take milliseconds: whoever has not read its answer by then is cut off at the stop."""


def build_app(health: Health, metrics: ServiceMetrics, *more: Route) -> Starlette:
    """The application; it holds no state of its own."""

    async def live(_: Request) -> Response:
        return JSONResponse({"status": "live"})

    async def ready(_: Request) -> Response:
        if health.stage is Stage.SERVING:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready", "reason": health.stage.value}, status_code=503)

    async def scrape(request: Request) -> Response:
        exposition, content_type = await metrics.scrape(request.headers.get("accept", ""))
        return Response(exposition, headers={"content-type": content_type})

    return Starlette(
        routes=[
            Route("/health/live", live),
            Route("/health/ready", ready),
            Route("/metrics", scrape),
            *more,
        ]
    )


class _EmbeddedServer(uvicorn.Server):
    """uvicorn as a part of a process whose signals belong to somebody else."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


class HttpServer:
    """Serves one application on one listening socket, which it owns from here on."""

    def __init__(self, app: Starlette, listener: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
        self._server = _EmbeddedServer(config)
        self._listener = listener
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return once requests are answered."""
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if serving.done():
            serving.result()
        self._serving = serving

    async def stop(self) -> None:
        """Finish the requests under way and close the socket; harmless if it never started."""
        if self._serving is None:
            self._listener.close()
        else:
            self._server.should_exit = True
            await self._serving
