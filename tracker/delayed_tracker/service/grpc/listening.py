"""The gRPC server of a service: its limits, and the addresses that it listens at."""

from collections.abc import Iterable
from typing import Final

import grpc

from delayed_tracker.service.process.listen import AddressInUse
from delayed_tracker.service.security.certificates import Certificates
from delayed_tracker.service.settings.address import ListenAddress
from delayed_tracker.service.settings.server import GRPC_KEEPALIVE_MS
from delayed_tracker.service.settings.settings import Settings
from delayed_tracker.wire.calls import METADATA_BYTES_MAX

_UNLIMITED: Final = 2**31 - 1
_STREAMS_BEYOND_CALLS: Final = 100
"""Streams of one connection above the limit of calls.

With them, a call above the limit is refused with a reason, and health checks are answered meanwhile.
"""
_AGED_CALLS_MS: Final = 60_000
"""Time for the calls of a connection that has reached its age; streams end then, and their clients open others."""


def make_server(settings: Settings, connections_max: int) -> grpc.aio.Server:
    """Return a server without methods and addresses.

    Args:
        settings: of the service.
        connections_max: connections of each address.
    """
    return grpc.aio.server(options=_options(settings, connections_max))


def add_addresses(
    server: grpc.aio.Server, addresses: Iterable[ListenAddress], certificates: Certificates | None
) -> None:
    """Listen at addresses. TLS is that of gRPC: 1.2 and 1.3.

    Args:
        server: has not started.
        addresses: without port 0.
        certificates: needed by those with TLS.
    Raises:
        AddressInUse: another process listens there.
    """
    for each in addresses:
        try:
            if certificates is None or not each.is_secured:
                server.add_insecure_port(str(each.address))
            else:
                server.add_secure_port(str(each.address), certificates.grpc_credentials(each.transport))
        except RuntimeError as error:
            raise AddressInUse("grpcListenAddress", each.address) from error


def _options(settings: Settings, connections_max: int) -> list[tuple[str, int]]:
    age_ms = settings.server.grpc_connection_age_max_ms
    has_tls = any(each.is_secured for each in settings.server.grpc_addresses)
    return [
        ("grpc.max_connection_age_ms", age_ms if has_tls else _UNLIMITED),
        ("grpc.max_connection_age_grace_ms", _AGED_CALLS_MS),
        # One more connection is accepted and closed at once. A connection without HTTP/2 ends after the handshake
        # timeout.
        ("grpc.max_allowed_incoming_connections", connections_max),
        ("grpc.server_handshake_timeout_ms", settings.server.grpc_handshake_timeout_ms),
        ("grpc.so_reuseport", 0),  # otherwise a second service would share the port instead of being refused
        # Calls that the event loop has not received yet. From 1,000 on, gRPC would cancel them at random, without a
        # reason for the client. Without gRPC's limit they wait for their turn, and above ``calls_max`` they are
        # refused with a status and a delay. The limit on streams still bounds the calls of one connection; more
        # calls wait in the client.
        ("grpc.server.max_pending_requests", _UNLIMITED),
        ("grpc.server.max_pending_requests_hard_limit", _UNLIMITED),
        ("grpc.max_concurrent_streams", settings.dispatcher.calls_max + _STREAMS_BEYOND_CALLS),
        # With these probes, gRPC would soon buffer megabytes of each unread call, instead of 64 KiB. A message that
        # is being read gets a window of its own size without them.
        ("grpc.http2.bdp_probe", 0),
        # The same value for both, because gRPC refuses at random between the two.
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.max_receive_message_length", settings.server.grpc_message_bytes_max),
        ("grpc.max_send_message_length", settings.server.grpc_message_bytes_max),
        ("grpc.keepalive_time_ms", GRPC_KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", settings.server.grpc_keepalive_timeout_ms),
        # gRPC waits this long for the answer to any ping. The default is a minute, independent of the timeout
        # above.
        ("grpc.http2.ping_timeout_ms", settings.server.grpc_keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", GRPC_KEEPALIVE_MS),
    ]
