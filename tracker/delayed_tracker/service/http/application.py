"""The HTTP application: health for supervisors, metrics for Prometheus, and the admin call of brokers.

``/health/live`` answers as long as the event loop runs. ``/health/ready`` answers 503 with the reason until the service
takes calls, and again while it drains. While the storage or the add log fails it answers 200 with the status "degraded"
and the reason: the service hands out what it has, and a restart would not help.
"""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.exposition.scrape_turns import ScrapeTurns
from delayed_tracker.service.http.access import AccessControl
from delayed_tracker.service.http.framing import RequestFraming
from delayed_tracker.service.process.health import Health, Stage
from delayed_tracker.service.security.guard import Guard


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
