"""Makes the calls of a program without an event loop: channel, time limits, conversion of errors."""

import os
import random
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar, cast

import grpc
from google.protobuf.message import Message

from delayed_tracker.client.errors import FailedCall, SessionClosed, TrackerCallError, WrongProcess, call_error
from delayed_tracker.client.model.channel import (
    channel_options,
    method_path,
    serialized,
    stream_channel_options,
    unreachable_error,
)
from delayed_tracker.client.model.credentials import NO_CREDENTIALS, BearerTokens, ClientCredentials
from delayed_tracker.client.model.diagnosis import tls_fault
from delayed_tracker.client.model.exchange import Call, Exchange, performed
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.model.tls import channel_credentials
from delayed_tracker.client.queues.overload import pause_before_retry_s
from delayed_tracker.v1 import tracker_pb2 as pb

Result = TypeVar("Result")

StreamCall: TypeAlias = "grpc.CallIterator[pb.AddMessagesStreamResponse]"


class Calls:
    """Calls to one service; any thread may make them. Each stream has a connection of its own."""

    def __init__(self, address: str, settings: ClientSettings, credentials: ClientCredentials = NO_CREDENTIALS) -> None:
        """Create the channel, which connects at the first call.

        Raises:
            InvalidInput: a certificate or the token cannot be read or used.
        """
        self.address = address
        self.settings = settings
        self._tls = credentials.tls
        self._tokens = BearerTokens(credentials.token)
        self._credentials = None if self._tls is None else channel_credentials(self._tls)
        self._channel = self._new_channel(channel_options(settings))
        self._stream_channels: set[grpc.Channel] = set()
        self._methods: dict[str, grpc.UnaryUnaryMultiCallable[Message | bytes, object]] = {}
        self._closing = threading.Event()
        self._process = os.getpid()

    def connected(self) -> None:
        """Return when the service can be reached.

        Raises:
            TlsFailed: client and service do not agree on TLS.
            Unavailable: not reached within ``connect_timeout_s``.
        """
        ready = grpc.channel_ready_future(self._channel)
        try:
            ready.result(timeout=self.settings.connect_timeout_s)
        except grpc.FutureTimeoutError as error:
            ready.cancel()
            raise unreachable_error(self.address, self.settings, tls_fault(self.address, self._tls)) from error

    def perform(self, exchange: Exchange[Result]) -> Result:
        """Make the calls of an exchange, one after the other.

        Returns: the return value of the exchange.
        Raises:
            InvalidInput: the exchange refused a value.
            TrackerCallError: a call failed; the class depends on the service's reason.
            SessionClosed: the client was closed.
        """
        return performed(exchange, self._make)

    @contextmanager
    def add_stream(self, requests: Iterator[bytes]) -> Iterator[StreamCall]:
        """Begin a stream of adds, whose requests a thread of gRPC reads; leaving the block early cancels it."""
        with self._stream_channel() as channel:
            performer = channel.stream_stream(
                method_path("AddMessagesStream"),
                request_serializer=serialized,
                response_deserializer=pb.AddMessagesStreamResponse.FromString,
            )
            yield performer(requests, metadata=self._tokens.metadata())

    def answers(self, call: Call) -> Generator[Any, None, None]:
        """Make a call with several answers and yield each as it comes; leaving early cancels the call."""
        with self._stream_channel() as channel:
            performer = channel.unary_stream(
                method_path(call.method),
                request_serializer=serialized,
                response_deserializer=call.answer.FromString,
            )
            stream = performer(call.request, timeout=call.timeout_s, metadata=self._tokens.metadata())
            try:
                yield from stream
            except grpc.RpcError as error:
                raise self.failure(error) from error

    def import_stream(self, requests: Iterator[pb.ImportSnapshotsRequest]) -> pb.ImportSnapshotsResponse:
        """Send an import and return its answer. An error in making a request ends the call: nothing is imported."""
        made = _Requests(requests)
        with self._stream_channel() as channel:
            performer = channel.stream_unary(
                method_path("ImportSnapshots"),
                request_serializer=serialized,
                response_deserializer=pb.ImportSnapshotsResponse.FromString,
            )
            metadata = self._tokens.metadata()
            try:
                answer: pb.ImportSnapshotsResponse = performer(
                    iter(made), timeout=self.settings.import_timeout_s, metadata=metadata
                )
            except grpc.RpcError as error:
                if made.error is not None:
                    raise made.error from error
                raise self.failure(error) from error
        return answer

    def close(self) -> None:
        """Close all channels; calls in flight in other threads end with SessionClosed."""
        if self._is_of_another_process:
            return  # the channels are the parent's, and closing them here would wait for its threads
        self._closing.set()
        for channel in (self._channel, *self._stream_channels):
            channel.close()

    def failure(self, error: grpc.RpcError) -> TrackerCallError | SessionClosed:
        """Return the exception for a failed call, to be raised ``from error``."""
        # The RpcError of a call is also the call, which gRPC's types do not express.
        failed = cast("FailedCall", error)
        if self._closing.is_set() and failed.code() is grpc.StatusCode.CANCELLED:
            return SessionClosed("the client was closed while the call was under way; it may have been applied")
        return call_error(failed)

    @property
    def _is_of_another_process(self) -> bool:
        return os.getpid() != self._process

    def _new_channel(self, options: Sequence[tuple[str, str | int]]) -> grpc.Channel:
        if self._credentials is None:
            return grpc.insecure_channel(self.address, options=options)
        return grpc.secure_channel(self.address, self._credentials, options=options)

    @contextmanager
    def _stream_channel(self) -> Iterator[grpc.Channel]:
        """Connect for one stream. A channel that streams shared would refuse them until its next attempt to connect."""
        self.require_open()
        channel = self._new_channel(stream_channel_options(self.settings))
        self._stream_channels.add(channel)
        try:
            self.require_open()  # again, because the client may have been closed before the channel was among the others
            yield channel
        finally:
            self._stream_channels.discard(channel)
            channel.close()

    def _make(self, call: Call) -> object:
        self.require_open()
        performer = self._methods.get(call.method)
        if performer is None:
            performer = self._channel.unary_unary(
                method_path(call.method),
                request_serializer=serialized,
                response_deserializer=call.answer.FromString,
            )
            self._methods[call.method] = performer
        left_s = timeout_s = call.timeout_s or self.settings.call_timeout_s
        ends_s = time.monotonic() + timeout_s
        metadata = self._tokens.metadata()
        renewed = False
        while True:
            try:
                return performer(call.request_after(timeout_s - left_s), timeout=left_s, metadata=metadata)
            except grpc.RpcError as error:
                failure = self.failure(error)
                newer = None if renewed else self._tokens.after_refusal(failure, metadata)
                if newer is not None and (left_s := ends_s - time.monotonic()) > 0:
                    metadata, renewed = newer, True
                    continue
                chance = random.random()  # noqa: S311  # jitter, not a secret
                pause_s = pause_before_retry_s(failure, left_s=ends_s - time.monotonic(), chance=chance)
                if pause_s is None:
                    raise failure from error
            self._closing.wait(pause_s)
            self.require_open()
            left_s = ends_s - time.monotonic()

    def require_open(self) -> None:
        """Refuse a call that cannot be made.

        Raises:
            SessionClosed: the client was closed.
            WrongProcess: the channel and the threads of the session are those of the parent of this process.
        """
        if self._is_of_another_process:
            raise WrongProcess
        if self._closing.is_set():
            raise SessionClosed("the client is closed; connect again")


class _Requests:
    """Requests that a thread of gRPC reads. If making one fails, they end, and the error is kept.

    A stream that ends early imports nothing, and an error in gRPC's thread would only be logged there.
    """

    def __init__(self, requests: Iterator[pb.ImportSnapshotsRequest]) -> None:
        self.error: Exception | None = None
        self._requests = requests

    def __iter__(self) -> Iterator[pb.ImportSnapshotsRequest]:
        try:
            yield from self._requests
        except Exception as error:  # noqa: BLE001  # raised again by the caller
            self.error = error
