"""The readiness of the service: one state for gRPC (``grpc.health.v1``) and HTTP."""

import asyncio
import enum
from collections.abc import Callable

import grpc
from grpc_health.v1 import health, health_pb2

SERVICE_NAME = "delayed_tracker.v1.DelayedDeliveryTrackerService"
LEDGER_SERVICE_NAME = "delayed_tracker.v1.LedgerService"
_SERVICES = ("", SERVICE_NAME, LEDGER_SERVICE_NAME)


class Stage(enum.Enum):
    """Stages of the process. The value is the reason why it is not ready; empty if it is."""

    STARTING = "starting: the storage is being opened"
    SERVING = ""
    DRAINING = "draining: the service is shutting down"


class Health(health.aio.HealthServicer):  # type: ignore[misc, name-defined]  # the stubs lack the asynchronous half
    """The stage of the service, and the servicer that reports it to callers of Check and Watch.

    A degraded service is SERVING: it hands out what it has, and callers get the error of the call that cannot work.

    Args:
        degradation: returns what of the storage fails now; empty if nothing does.
    """

    def __init__(self, degradation: Callable[[], str] = lambda: "") -> None:
        super().__init__()
        self.stage = Stage.STARTING
        self.degradation = degradation
        self._changed = asyncio.Event()
        self._watches_ended = False

    async def enter(self, stage: Stage) -> None:
        """Enter a stage and notify every watcher."""
        self.stage = stage
        serving = stage is Stage.SERVING
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in _SERVICES:
            await self.set(service, status)
        self._wake_watches()

    async def Watch(  # noqa: N802 -- the name of the call
        self,
        request: health_pb2.HealthCheckRequest,
        context: "grpc.aio.ServicerContext[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]",
    ) -> None:
        """Stream the status. Unlike the library's method it ends when the service stops, so that it does not delay the
        stop.

        It ends by returning between two writes: gRPC cannot end a call that was cancelled within a write.
        """
        told = None
        while True:
            changed = self._changed
            status = self._server_status.get(request.service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if status != told:
                await context.write(health_pb2.HealthCheckResponse(status=status))
                told = status
            if self._watches_ended:
                return
            await changed.wait()

    def end_watches(self) -> None:
        """End every stream, after NOT_SERVING was sent."""
        self._watches_ended = True
        self._wake_watches()

    def _wake_watches(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
