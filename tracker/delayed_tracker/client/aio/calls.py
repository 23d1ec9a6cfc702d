"""Makes the calls of an asyncio program: channel, time limits, conversion of errors."""

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from typing import Any, TypeVar, cast

import grpc
from google.protobuf.message import Message

from delayed_tracker.client.errors import FailedCall, SessionClosed, TrackerCallError, WrongEventLoop, call_error
from delayed_tracker.client.model.channel import channel_options, method_path, serialized, unreachable_error
from delayed_tracker.client.model.credentials import NO_CREDENTIALS, BearerTokens, ClientCredentials
from delayed_tracker.client.model.diagnosis import tls_fault
from delayed_tracker.client.model.exchange import Call, Exchange
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.model.tls import channel_credentials
from delayed_tracker.client.queues.overload import pause_before_retry_s
from delayed_tracker.v1 import tracker_pb2 as pb

Result = TypeVar("Result")

StreamCall = grpc.aio.StreamStreamCall[bytes, pb.AddMessagesStreamResponse]
ImportCall = grpc.aio.StreamUnaryCall[pb.ImportSnapshotsRequest, pb.ImportSnapshotsResponse]


class Calls:
    """Calls of one channel to one service."""

    def __init__(self, address: str, settings: ClientSettings, credentials: ClientCredentials = NO_CREDENTIALS) -> None:
        """Create the channel, which connects at the first call.

        Raises:
            InvalidInput: a certificate or the token cannot be read or used.
        """
        self.address = address
        self.settings = settings
        self._tls = credentials.tls
        self._tokens = BearerTokens(credentials.token)
        options = channel_options(settings)
        if self._tls is None:
            self._channel = grpc.aio.insecure_channel(address, options=options)
        else:
            self._channel = grpc.aio.secure_channel(address, channel_credentials(self._tls), options=options)
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[Message | bytes, object]] = {}
        self._closed = False
        self._loop = asyncio.get_running_loop()

    async def connected(self) -> None:
        """Return when the service can be reached.

        Raises:
            TlsFailed: client and service do not agree on TLS.
            Unavailable: not reached within ``connect_timeout_s``.
        """
        try:
            async with asyncio.timeout(self.settings.connect_timeout_s):
                await self._channel.channel_ready()
        except TimeoutError as error:
            fault = await asyncio.to_thread(tls_fault, self.address, self._tls)
            raise unreachable_error(self.address, self.settings, fault) from error

    async def perform(self, exchange: Exchange[Result]) -> Result:
        """Make the calls of an exchange, one after the other.

        Returns: the return value of the exchange.
        Raises:
            InvalidInput: the exchange refused a value.
            TrackerCallError: a call failed; the class depends on the service's reason.
            SessionClosed: the client was closed.
        """
        try:
            call = next(exchange)
            while True:
                try:
                    response = await self._make(call)
                except TrackerCallError as error:
                    call = exchange.throw(error)
                else:
                    call = exchange.send(response)
        except StopIteration as returned:
            result: Result = returned.value
            return result

    def add_stream(self) -> StreamCall:
        """Begin a stream of adds; the caller writes, reads and ends it."""
        self.require_open()
        performer = self._channel.stream_stream(
            method_path("AddMessagesStream"),
            request_serializer=serialized,
            response_deserializer=pb.AddMessagesStreamResponse.FromString,
        )
        # grpc-stubs requires the requests here; they may be written later.
        return performer(metadata=self._tokens.metadata())  # type: ignore[call-arg]

    async def answers(self, call: Call) -> AsyncGenerator[Any, None]:
        """Make a call with several answers and yield each as it comes; leaving early cancels the call."""
        self.require_open()
        performer = self._channel.unary_stream(
            method_path(call.method),
            request_serializer=serialized,
            response_deserializer=call.answer.FromString,
        )
        stream = performer(call.request, timeout=call.timeout_s, metadata=self._tokens.metadata())
        try:
            async for answer in stream:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise self.failure(error) from error
        except asyncio.CancelledError:
            self.require_cancelled()
            raise
        finally:
            stream.cancel()

    async def import_stream(self, requests: Iterator[pb.ImportSnapshotsRequest]) -> pb.ImportSnapshotsResponse:
        """Send an import and return its answer. An error in making a request ends the call: nothing is imported."""
        self.require_open()
        performer = self._channel.stream_unary(
            method_path("ImportSnapshots"),
            request_serializer=serialized,
            response_deserializer=pb.ImportSnapshotsResponse.FromString,
        )
        call = performer(  # type: ignore[call-arg]  # as for add_stream
            timeout=self.settings.import_timeout_s, metadata=self._tokens.metadata()
        )
        try:
            return await upload(call, requests)
        except grpc.aio.AioRpcError as error:
            raise self.failure(error) from error
        except asyncio.CancelledError:
            self.require_cancelled()
            raise

    def failure(self, error: grpc.aio.AioRpcError) -> TrackerCallError:
        """Return the exception for a failed call, to be raised ``from error``."""
        # Here grpc-stubs has the trailers' type of the synchronous API.
        return call_error(cast("FailedCall", error))

    async def close(self) -> None:
        """Close the channel; calls in flight end with SessionClosed."""
        self._closed = True
        await self._channel.close(None)

    async def _make(self, call: Call) -> object:
        self.require_open()
        performer = self._methods.get(call.method)
        if performer is None:
            performer = self._channel.unary_unary(
                method_path(call.method),
                request_serializer=serialized,
                response_deserializer=call.answer.FromString,
            )
            self._methods[call.method] = performer
        clock = asyncio.get_running_loop().time
        left_s = timeout_s = call.timeout_s or self.settings.call_timeout_s
        ends_s = clock() + timeout_s
        metadata = self._tokens.metadata()
        renewed = False
        while True:
            try:
                return await performer(call.request_after(timeout_s - left_s), timeout=left_s, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                failure = self.failure(error)
                newer = None if renewed else self._tokens.after_refusal(failure, metadata)
                if newer is not None and (left_s := ends_s - clock()) > 0:
                    metadata, renewed = newer, True
                    continue
                chance = random.random()  # noqa: S311  # jitter, not a secret
                pause_s = pause_before_retry_s(failure, left_s=ends_s - clock(), chance=chance)
                if pause_s is None:
                    raise failure from error
            except asyncio.CancelledError:
                self.require_cancelled()
                raise
            await asyncio.sleep(pause_s)
            self.require_open()
            left_s = ends_s - clock()

    def require_open(self) -> None:
        """Refuse a call that cannot be made.

        Raises:
            SessionClosed: the client was closed.
            WrongEventLoop: the channel and the shared state of the session belong to another event loop.
        """
        self.require_loop()
        if self._closed:
            raise SessionClosed("the client is closed; connect again")

    def require_cancelled(self) -> None:
        """Return if a CancelledError is the program's: closing the client cancels calls, and no task.

        Raises:
            SessionClosed: the client was closed, and the current task was not cancelled.
        """
        if self._closed and not is_cancelled():
            raise SessionClosed(
                "the client was closed while the call was under way; it may have been applied"
            ) from None

    def require_loop(self) -> None:
        """Refuse a call from another event loop; raises WrongEventLoop."""
        if asyncio.get_running_loop() is not self._loop:
            raise WrongEventLoop


def is_cancelled() -> bool:
    """Return True if the current task is being cancelled, and not only the call for which it waits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def stop_at_end(sender: "asyncio.Task[None]", call: "grpc.aio.RpcContext") -> None:
    """Cancel the task that writes a call's requests when the service ends the call.

    A write that fails at that time would replace the service's status by INTERNAL (grpc/grpc#36066).
    """

    def stop(_: object) -> None:
        sender.cancel()

    call.add_done_callback(stop)


async def upload(call: ImportCall, requests: Iterator[pb.ImportSnapshotsRequest]) -> pb.ImportSnapshotsResponse:
    """Write the requests of a call that has begun, and return its answer, which may come before all are written.

    Raises:
        grpc.aio.AioRpcError: as the service ended the call.
        SessionClosed: the program cancelled the task that writes.
    """
    sender = asyncio.create_task(_send(call, requests))
    stop_at_end(sender, call)
    try:
        await asyncio.wait({sender})
        if not sender.cancelled():
            sender.result()
        elif not call.done():
            # The program cancelled it, perhaps before its first step: the service would wait for the rest.
            call.cancel()
        return await call
    except asyncio.CancelledError:
        if sender.cancelled() and not is_cancelled():
            raise SessionClosed("the session ended while this import was sent; it may have been applied") from None
        raise
    finally:
        sender.cancel()
        call.cancel()
        await asyncio.gather(sender, return_exceptions=True)


async def _send(call: ImportCall, requests: Iterator[pb.ImportSnapshotsRequest]) -> None:
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        for request in requests:
            await call.write(request)
        await call.done_writing()
