"""Options of a channel to the service, the same for the asyncio and the blocking client: names, options, retries.

Retries are made by gRPC, as its service config requests: on UNAVAILABLE only, and only for calls that may be repeated.
These calls are not retried:

- polls: a hand-off whose answer was lost must not take more positions, and the caller repeats a leased poll;
- ClearMessages, ResetCursor, DeleteTracker and CloseTracker: the service would answer the repeated call with an error;
- ImportSnapshots: its stream is made while it is sent;
- StreamMembership: the caller drops what it has read before it reads again;
- CancelMessages and SealBucket: the service would answer the repeated call as if there had been nothing to do.

Calls about ledgers change nothing, so all of them may be repeated.

The service config also makes calls wait for a service that is being restarted: a call that waits has not been sent.
Streams do not wait, because they have no time limit or a very long one.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from google.protobuf.message import Message

from delayed_tracker.client.errors import TlsFailed, Unavailable
from delayed_tracker.client.model.bounds import require_type
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.v1 import ledger_pb2, tracker_pb2
from delayed_tracker.wire.calls import METADATA_BYTES_MAX

_SERVICE: Final = tracker_pb2.DESCRIPTOR.services_by_name["DelayedDeliveryTrackerService"]
_LEDGERS: Final = ledger_pb2.DESCRIPTOR.services_by_name["LedgerService"]
# The two services have no method name in common.
_PATHS: Final = {
    method.name: f"/{service.full_name}/{method.name}" for service in (_SERVICE, _LEDGERS) for method in service.methods
}

_RETRIED: Final = (
    "OpenTracker",
    "AddMessages",
    "AckMessages",
    "NackMessages",
    "ExtendLease",
    "RescheduleMessages",
    "ContainsMessages",
    "FilterEntries",
    "NextDeliveryTime",
    "AdvanceMarkDelete",
    "GetTrackerStats",
    "ListBuckets",
    "ListTrackers",
    "PeekMessages",
    "ExplainMessage",
    "DeliveryHistogram",
    "VerifySnapshots",
)
_STREAMS: Final = ("AddMessagesStream", "ImportSnapshots", "StreamMembership")
_RETRY_POLICY: Final = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
_ANSWER_BYTES_MAX: Final = 64 * 2**20
_RETRIES: Final = "grpc.enable_retries"
_KEEPALIVE_MS: Final = 60_000
_KEEPALIVE_TIMEOUT_MS: Final = 10_000
_PORT_MAX: Final = 65_535
_HOST_PORT: Final = re.compile(r"([^\s:/\[\]]+|\[[0-9A-Fa-f:.%\w]+\]):(?P<port>\d{1,5})", re.ASCII)
_TARGET: Final = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|xds):\S*[/:]\S+")
"""Targets that gRPC resolves itself, such as ``dns:///tracker.lab:7650`` and ``unix:/run/tracker.sock``."""
_ONE_HOST: Final = re.compile(r"\A(?:dns:(?://[^/]*/)?|ipv4:|ipv6:)")
"""Beginning of targets that are a host and a port."""


def service_config(settings: ClientSettings) -> str:
    """Return gRPC's service config: the calls that are retried, and the calls that wait for a connection."""
    return json.dumps(
        {
            "methodConfig": [
                {
                    "name": [
                        *({"service": _SERVICE.full_name, "method": method} for method in _RETRIED),
                        {"service": _LEDGERS.full_name},
                    ],
                    "waitForReady": settings.wait_for_ready,
                    "retryPolicy": _RETRY_POLICY,
                },
                {"name": [{"service": _SERVICE.full_name}], "waitForReady": settings.wait_for_ready},
                {
                    "name": [{"service": _SERVICE.full_name, "method": method} for method in _STREAMS],
                    "waitForReady": False,
                },
            ]
        }
    )


def channel_options(settings: ClientSettings) -> Sequence[tuple[str, str | int]]:
    """Return the options of a channel to the service."""
    return (
        ("grpc.service_config", service_config(settings)),
        (_RETRIES, 1),
        # Reconnects soon after the service was restarted.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # Detects a service that vanished without closing its connection while a poll waits or a stream is open.
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        ("grpc.max_receive_message_length", _ANSWER_BYTES_MAX),
        # Equal values: between two different ones gRPC would refuse at random.
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
    )


def stream_channel_options(settings: ClientSettings) -> Sequence[tuple[str, str | int]]:
    """Return the options of a channel for one stream of a thread, which gRPC must not repeat.

    With its retries enabled, gRPC 1.85 loses the end of a stream that a thread begins while the connection closes: the
    reader would wait for ever, whatever its time limit, until the channel is closed.
    """
    return tuple((name, 0 if name == _RETRIES else value) for name, value in channel_options(settings))


def method_path(method: str) -> str:
    """Return the path of a method, such as ``AddMessages``, on the wire."""
    return _PATHS[method]


def serialized(message: Message | bytes) -> bytes:
    """Return a message as bytes; bytes are returned as they are."""
    return message if isinstance(message, bytes) else message.SerializeToString()


def require_address(address: str) -> str:
    """Return the address; raises InvalidInput if it is neither ``host:port`` nor a gRPC target with a scheme."""
    remedy = "give host:port of the service's gRPC, such as 127.0.0.1:7650 or [::1]:7650"
    require_type("address", address, str, remedy)
    found = _HOST_PORT.fullmatch(address)
    is_place = found is not None and 0 < int(found["port"]) <= _PORT_MAX and _can_be_looked_up(found[1])
    if not is_place and not _TARGET.fullmatch(address):
        raise InvalidInput("address", address, remedy)
    return address


def _can_be_looked_up(host: str) -> bool:
    """Return True if a host is an address, or a name whose labels are neither empty nor too long."""
    try:
        host.encode("idna")  # as the look-up does, which would raise UnicodeError
    except UnicodeError:
        return False
    return True


def is_socket_file(address: str) -> bool:
    """Return True if the address is of a Unix socket, which ends on this machine."""
    return address.startswith(("unix:", "unix-abstract:"))


def host_and_port(address: str) -> tuple[str, int] | None:
    """Return host and port of an address that has one of each, an IPv6 address without brackets; None otherwise.

    None as well if the host is no name that can be looked up, as it may be in a target of gRPC.
    """
    found = _HOST_PORT.fullmatch(_ONE_HOST.sub("", address))
    if not found or not _can_be_looked_up(found[1]):
        return None
    return found[1].strip("[]"), int(found["port"])


def unreachable_error(address: str, settings: ClientSettings, tls_fault: str | None) -> Unavailable:
    """Return the error for a service that was not reached in time.

    Args:
        address: of the service.
        settings: with the time.
        tls_fault: disagreement about TLS, if that is the reason.
    """
    if tls_fault is not None:
        return TlsFailed(tls_fault)
    return Unavailable(
        f"no service answers at {address} within {settings.connect_timeout_s:g} s; "
        "start it with `delayed-tracker serve`, or give the address of its gRPC (grpcListenAddress)"
    )
