"""proto <-> domain for every call of the tracker's API. Signatures first; the body follows."""

from delayed_tracker.v1 import tracker_pb2_grpc
from tracker.service.registry import TrackerRegistry


class TrackerServicer(tracker_pb2_grpc.DelayedDeliveryTrackerServiceServicer):
    """``grpc.aio`` servicer over a registry; limits and clock are the registry's.

    Serve it with ``tracker.service.status.StatusInterceptor()`` in ``grpc.aio.server(interceptors=[...])``.
    """

    def __init__(self, registry: TrackerRegistry) -> None:
        self._registry = registry
