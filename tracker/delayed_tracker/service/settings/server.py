"""Settings of the two ports: addresses, connections, what they receive and answer at the same time, and the end."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.settings.address import ListenAddress, parse_addresses
from delayed_tracker.service.settings.keys import Form, Group, Section, setting

GRPC_KEEPALIVE_MS: Final = 30_000
"""A connection to the gRPC port that is silent for this long is probed, and clients may probe this often."""
_HOUR_MS = 3_600_000
_TIB = 1024**4
_DERIVED = (0, "as many as the limit of open files leaves room for")


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Section):
    """Settings of the gRPC port and the HTTP port."""

    grpc_listen_address: str = setting(
        "127.0.0.1:7650",
        "grpcListenAddress",
        Group.SERVER,
        "Where dispatchers connect. tls://host:port takes TLS connections, mtls://host:port those with a client certificate; "
        "several are divided by commas. Port 0 takes any free one.",
        form=Form.ADDRESSES,
    )
    http_listen_address: str = setting(
        "127.0.0.1:7651",
        "httpListenAddress",
        Group.SERVER,
        "Where /metrics, /health/live, /health/ready and getMessageIdByIndex answer; as grpcListenAddress.",
        form=Form.ADDRESSES,
    )
    health_listen_address: str = setting(
        "",
        "healthListenAddress",
        Group.SERVER,
        "One more address for probes without a certificate: /health/live and /health/ready alone, in plain HTTP, from any "
        "machine. Empty: none.",
        form=Form.PLAIN_ADDRESS,
    )
    allow_insecure_listen: bool = setting(
        False,
        "allowInsecureListen",
        Group.SERVER,
        "Listen beyond this machine in plain text or without authentication. Whoever reaches the port can then read and "
        "delete every tracker.",
    )
    grpc_message_bytes_max: int = setting(
        16 * 1024 * 1024,
        "grpcMessageBytesMax",
        Group.SERVER,
        "Size of the largest request and the largest answer.",
        unit="bytes",
        minimum=1024 * 1024,
        maximum=1024 * 1024 * 1024,
    )
    grpc_request_bytes_in_flight_max: int = setting(
        128 * 1024 * 1024,
        "grpcRequestBytesInFlightMax",
        Group.SERVER,
        "Requests that are received and worked on at the same time. A call is read when there is room for a request of "
        "grpcMessageBytesMax; until then its sender keeps it.",
        unit="bytes",
        minimum=1024 * 1024,
        maximum=_TIB,
    )
    grpc_answer_bytes_in_flight_max: int = setting(
        128 * 1024 * 1024,
        "grpcAnswerBytesInFlightMax",
        Group.SERVER,
        "Answers above 64 KiB that are made at the same time or that callers have not taken yet.",
        unit="bytes",
        minimum=1024 * 1024,
        maximum=_TIB,
    )
    grpc_unread_calls_max: int = setting(
        4_000,
        "grpcUnreadCallsMax",
        Group.SERVER,
        "Calls that wait for room in grpcRequestBytesInFlightMax, up to 64 KiB of each in memory; one more is refused.",
        unit="calls",
        minimum=1,
        maximum=1_000_000,
    )
    grpc_receive_ms_max: int = setting(
        30_000,
        "grpcReceiveMillisMax",
        Group.SERVER,
        "A call that has waited this long for room is refused, and so is one whose request needs longer to arrive.",
        unit="ms",
        minimum=1,
        maximum=3_600_000,
    )
    grpc_streams_max: int = setting(
        2_000,
        "grpcStreamsMax",
        Group.SERVER,
        "Streams of AddMessagesStream, ImportSnapshots and StreamMembership that are open at the same time; one more is "
        "refused. As many watches of health and reflection together may be open beside them. Each stream that adds or imports "
        "may send a message of grpcMessageBytesMax after small ones, unannounced.",
        unit="streams",
        minimum=1,
        maximum=1_000_000,
        reloadable=True,
    )
    grpc_connections_max: int = setting(
        0,
        "grpcConnectionsMax",
        Group.SERVER,
        "Connections that the gRPC port holds at the same time; one more is closed at once. 0 is what the limit of open "
        "files (ulimit -n) leaves beside HTTP and storage, 10000 at most.",
        unit="connections",
        minimum=1,
        maximum=1_000_000,
        special_value=_DERIVED,
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
    grpc_connection_age_max_ms: int = setting(
        _HOUR_MS,
        "grpcConnectionAgeMaxMillis",
        Group.SERVER,
        "A connection to the gRPC port that is this old, give or take a tenth, takes no new calls, and is closed a minute "
        "later: a new one meets the certificates of now. Applies if any address of grpcListenAddress has TLS.",
        unit="ms",
        minimum=1_000,
        maximum=30 * 24 * _HOUR_MS,
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
        special_value=_DERIVED,
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
    shutdown_grace_ms: int = setting(
        10_000,
        "shutdownGraceMillis",
        Group.SERVER,
        "After SIGTERM or SIGINT the service finishes what it has begun within this time. Its last second, at most half of it, "
        "is for closing connections and the storage.",
        unit="ms",
        maximum=3_600_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        health = self.health_address
        if health is None:
            return
        if "," in self.health_listen_address or health.is_secured:
            raise InvalidInput("healthListenAddress", self.health_listen_address, "give one host:port without TLS")

    @property
    def grpc_addresses(self) -> tuple[ListenAddress, ...]:
        """Addresses of ``grpcListenAddress``, at least one."""
        return parse_addresses(self.grpc_listen_address)

    @property
    def http_addresses(self) -> tuple[ListenAddress, ...]:
        """Addresses of ``httpListenAddress``, at least one."""
        return parse_addresses(self.http_listen_address)

    @property
    def health_address(self) -> ListenAddress | None:
        """Address of ``healthListenAddress``; None if there is none."""
        return next(iter(parse_addresses(self.health_listen_address)), None)

    def addresses(self) -> Iterator[tuple[str, ListenAddress]]:
        """Yield the addresses of gRPC and HTTP, each with its key."""
        for each in self.grpc_addresses:
            yield "grpcListenAddress", each
        for each in self.http_addresses:
            yield "httpListenAddress", each
