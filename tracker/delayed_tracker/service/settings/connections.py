"""Settings of connections: the maximum for each port, and the time that a port waits for a client."""

from dataclasses import dataclass
from typing import Final

from delayed_tracker.service.settings.keys import Group, setting

GRPC_KEEPALIVE_MS: Final = 30_000
"""A connection to the gRPC port that is silent for this long is probed, and clients may probe this often."""
_HOUR_MS = 3_600_000
_DERIVED = (0, "as many as the limit of open files leaves room for")


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """Settings of connections."""

    grpc_connections_max: int = setting(
        0,
        "grpcConnectionsMax",
        Group.SERVER,
        "Connections that the gRPC port holds at the same time; one more is closed at once. 0 is what the limit of open "
        "files (ulimit -n) leaves beside HTTP and storage, 10000 at most.",
        unit="connections",
        minimum=1,
        maximum=1_000_000,
        also=_DERIVED,
    )
    grpc_handshake_timeout_ms: int = setting(
        10_000,
        "grpcHandshakeTimeoutMillis",
        Group.SERVER,
        "A connection to the gRPC port that has not begun to speak HTTP/2 by then is closed.",
        unit="ms",
        minimum=1,
        maximum=_HOUR_MS,
    )
    grpc_keepalive_timeout_ms: int = setting(
        10_000,
        "grpcKeepaliveTimeoutMillis",
        Group.SERVER,
        "A connection to the gRPC port that does not answer a probe by then is closed; one is sent after "
        f"{GRPC_KEEPALIVE_MS // 1_000} seconds of silence.",
        unit="ms",
        minimum=1,
        maximum=_HOUR_MS,
    )
    http_connections_max: int = setting(
        0,
        "httpConnectionsMax",
        Group.SERVER,
        "Connections that the HTTP port holds at the same time. One more takes the place of the one that has waited longest "
        "for its client; if all are being answered it gets 503. 0 is a quarter of what the limit of open files leaves "
        "beside storage, 256 at most.",
        unit="connections",
        minimum=1,
        maximum=10_000,
        also=_DERIVED,
    )
    http_client_timeout_ms: int = setting(
        10_000,
        "httpClientTimeoutMillis",
        Group.SERVER,
        "An HTTP connection whose client takes longer to send a request, or to read its answer, is closed.",
        unit="ms",
        minimum=1,
        maximum=_HOUR_MS,
        reloadable=True,
    )
