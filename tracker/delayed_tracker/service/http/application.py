"""The HTTP application: health for supervisors, metrics for Prometheus, and the admin call of brokers.

``/health/live`` answers as long as the event loop runs. ``/health/ready`` answers 503 with the reason until the service
takes calls, and again while it drains. While the storage or the add log fails it answers 200 with the status "degraded"
and the reason: the service hands out what it has, and a restart would not help.

A request that ends with an unexpected error is answered with 500, and logged as a call of gRPC is.
"""

from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.exposition.scrape_turns import ScrapeTurns
from delayed_tracker.service.http.access import AccessControl
from delayed_tracker.service.http.framing import RequestFraming
from delayed_tracker.service.process.health import Health, Stage
from delayed_tracker.service.security.guard import Guard
from delayed_tracker.service.telemetry.failed_calls import FailedCalls

_REQUEST: Final = "HTTP"
"""All requests share the log lines of failed calls: a path may be any text of the caller."""


class AnsweredErrors:
    """ASGI middleware that answers unexpected errors. uvicorn would log each of them, without a bound.

    Args:
        app: the application behind it.
        failures: logs the errors.
    """

    def __init__(self, app: ASGIApp, failures: FailedCalls) -> None:
        self._app = app
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on. Answer with 500 if that fails."""
        has_begun = False

        async def note_and_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, note_and_send)
        except Exception as error:  # the process boundary: every error is answered
            self._failures.failed(_REQUEST, error)
            if has_begun:
                raise
            answer = JSONResponse({"reason": "internal error; see the log of the service"}, status_code=500)
            await answer(scope, receive, send)


def build_app(
    health: Health, metrics: ServiceMetrics, *more: Route, failures: FailedCalls, guard: Guard | None = None
) -> Starlette:
    """Return the application. Its only state is the order of scrapes.

    Args:
        health: of the service.
        metrics: of the service.
        more: further routes.
        failures: logs requests that end with an unexpected error.
        guard: refuses callers without the right to a route; None lets everybody do everything.
    """
    turns = ScrapeTurns(metrics)

    async def scrape(request: Request) -> Response:
        exposition, content_type = await turns.scrape(request.headers.get("accept", ""))
        return Response(exposition, headers={"content-type": content_type})

    return Starlette(
        routes=[*_health_routes(health), Route("/metrics", scrape), *more],
        middleware=[
            Middleware(AnsweredErrors, failures),
            Middleware(RequestFraming),
            *([] if guard is None else [Middleware(AccessControl, guard)]),
        ],
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
