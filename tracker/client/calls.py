"""One place where calls leave this program: the channel, its retries, per-call timeouts, and errors made ours.

Retries are gRPC's own, by service config, on UNAVAILABLE only, and only for calls that may be repeated. Polls are not
among them: a hand-off whose answer was lost must not take more positions, and a leased poll is the caller's to repeat.
Neither are ClearMessages and CloseTracker, whose repetition would be answered as a fault.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from delayed_tracker.v1 import tracker_pb2
from tracker.client.errors import Unavailable, call_error
from tracker.core.errors import InvalidInput

_SERVICE: Final = tracker_pb2.DESCRIPTOR.services_by_name["DelayedDeliveryTrackerService"]

_RETRIED: Final = (
    "OpenTracker",
    "AddMessages",
    "AckMessages",
    "NackMessages",
    "ContainsMessages",
    "NextDeliveryTime",
    "AdvanceMarkDelete",
    "GetTrackerStats",
    "ListBuckets",
)
_RETRY_POLICY: Final = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
_SERVICE_CONFIG: Final = json.dumps(
    {
        "methodConfig": [
            {
                "name": [{"service": _SERVICE.full_name, "method": method} for method in _RETRIED],
                "retryPolicy": _RETRY_POLICY,
            }
        ]
    }
)
_ANSWER_BYTES_MAX: Final = 64 * 2**20

Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client behaves; the defaults suit a dispatcher next to its service."""

    connect_timeout_s: float = 5.0
    """How long to wait for the first connection."""
    call_timeout_s: float = 10.0
    """How long a call may take, its retries included; a poll has its waiting time on top."""
    open_timeout_s: float = 60.0
    """How long opening a tracker may take: recovery may read snapshots."""
    batch_max: int = 10_000
    """Columns longer than this travel in several calls."""
    flush_count: int = 1_000
    """Single adds leave when this many are buffered ..."""
    flush_delay_s: float = 0.002
    """... or this long after the first of them."""
    buffer_max: int = 50_000
    """Single adds buffered or on their way; more wait for room."""

    def __post_init__(self) -> None:
        """Refuse values no client can work with."""
        for name in ("batch_max", "flush_count", "buffer_max"):
            if getattr(self, name) < 1:
                raise InvalidInput(name, getattr(self, name), "give 1 or more")
        for name in ("connect_timeout_s", "call_timeout_s", "open_timeout_s"):
            if getattr(self, name) <= 0:
                raise InvalidInput(name, getattr(self, name), "give more than 0 seconds")
        if self.flush_delay_s < 0:
            raise InvalidInput("flush_delay_s", self.flush_delay_s, "give 0 seconds or more")


class Calls:
    """The unary calls of one channel to one service."""

    def __init__(self, address: str, settings: ClientSettings) -> None:
        if not address:
            raise InvalidInput("address", address, "give host:port of the service")
        self.address = address
        self.settings = settings
        self._channel = grpc.aio.insecure_channel(
            address,
            options=(
                ("grpc.service_config", _SERVICE_CONFIG),
                ("grpc.enable_retries", 1),
                # A service that was restarted is found again within a moment.
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.min_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 2_000),
                ("grpc.max_receive_message_length", _ANSWER_BYTES_MAX),
            ),
        )
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[Message, Message]] = {}

    async def connected(self) -> None:
        """Return when the service can be reached.

        Raises:
            Unavailable: not within ``connect_timeout_s``.
        """
        try:
            async with asyncio.timeout(self.settings.connect_timeout_s):
                await self._channel.channel_ready()
        except TimeoutError as error:
            raise Unavailable(
                f"no service answers at {self.address} within {self.settings.connect_timeout_s:g} s; "
                "start it with `delayed-tracker serve`, or give its address"
            ) from error

    async def call(
        self, method: str, request: Message, answer: type[Answer], *, timeout_s: float | None = None
    ) -> Answer:
        """Perform one call.

        Args:
            method: its name in the service, such as ``AddMessages``.
            request: its request message.
            answer: the type of its answer.
            timeout_s: if not ``call_timeout_s``.
        Raises:
            TrackerCallError: of the kind that the service's reason names.
        """
        performer = self._methods.get(method)
        if performer is None:
            performer = self._channel.unary_unary(
                f"/{_SERVICE.full_name}/{_SERVICE.methods_by_name[method].name}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            self._methods[method] = performer
        try:
            response = await performer(request, timeout=timeout_s or self.settings.call_timeout_s)
        except grpc.aio.AioRpcError as error:
            raise call_error(error) from error
        assert isinstance(response, answer)
        return response

    async def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        await self._channel.close(None)
