"""Serves the API over gRPC: request bytes in, one method of a servicer, answer bytes out. This is the process boundary.

A request is read when there is room for it (``request_admission.py``). An answer counts as in flight until the caller
has taken it (``answer_admission.py``).

Each method is wrapped once, when the server is made, so that a call does not repeat decisions that can be made then.
Columns stay bytes (``delayed_tracker.wire.message_columns``), every error becomes its status (``status.py``), and calls
are counted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_status import rpc_status

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.admission.answer_admission import LISTING_METHODS
from delayed_tracker.service.admission.call_admission import CallAdmission
from delayed_tracker.service.grpc.access import CallCheck, MethodAccess
from delayed_tracker.service.grpc.ledger_servicer import LedgerServicer
from delayed_tracker.service.grpc.request_bounds import require_at_most, require_counts, require_size
from delayed_tracker.service.grpc.servicer import TrackerServicer
from delayed_tracker.service.grpc.status import code_of, status_of
from delayed_tracker.service.instruments.call_counts import CallType
from delayed_tracker.service.security.guard import Guard
from delayed_tracker.service.telemetry.call_identity import begin_call
from delayed_tracker.v1 import ledger_pb2, tracker_pb2
from delayed_tracker.wire.calls import MessageDecoder
from delayed_tracker.wire.column_fields import Columned
from delayed_tracker.wire.message_columns import (
    ACK_COLUMNS,
    ADD_COLUMNS,
    CANCEL_COLUMNS,
    CONTAINS_COLUMNS,
    EXTEND_COLUMNS,
    NACK_COLUMNS,
    RESCHEDULE_COLUMNS,
    StreamedAdds,
)

_TRACKER: Final = tracker_pb2.DESCRIPTOR.services_by_name["DelayedDeliveryTrackerService"]
_LEDGER: Final = ledger_pb2.DESCRIPTOR.services_by_name["LedgerService"]
_COLUMNED: Final[dict[str, MessageDecoder[object]]] = {
    "AddMessages": ADD_COLUMNS,
    "AddMessagesStream": StreamedAdds,
    "AckMessages": ACK_COLUMNS,
    "NackMessages": NACK_COLUMNS,
    "ExtendLease": EXTEND_COLUMNS,
    "CancelMessages": CANCEL_COLUMNS,
    "RescheduleMessages": RESCHEDULE_COLUMNS,
    "ContainsMessages": CONTAINS_COLUMNS,
}
"""Parsers of the requests that carry columns, by method."""

Context = grpc.aio.ServicerContext
Behaviour = Callable[[Any, "Context[Any, Any]"], Any]
"""Returns an awaitable answer, or the parts of one as an asynchronous generator."""
Answering = Callable[["Context[Any, Any]", CallCheck], Awaitable[Any]]
RequestT = TypeVar("RequestT")


def serve_tracker(
    servicer: TrackerServicer, server: grpc.aio.Server, calls: CallAdmission, guard: Guard | None = None
) -> None:
    """Add every method of ``DelayedDeliveryTrackerService`` to a server that has not started.

    Args:
        servicer: object with a method of the same name for each.
        server: gRPC server to add them to.
        calls: counts the calls and refuses those above its limit.
        guard: refuses callers without the right to a call; None lets everybody do everything.
    """
    _serve(_TRACKER, servicer, server, calls, guard)


def serve_ledgers(
    servicer: LedgerServicer, server: grpc.aio.Server, calls: CallAdmission, guard: Guard | None = None
) -> None:
    """Add every method of ``LedgerService`` to a server that has not started; see :func:`serve_tracker`."""
    _serve(_LEDGER, servicer, server, calls, guard)


def _serve(
    service: ServiceDescriptor, servicer: object, server: grpc.aio.Server, calls: CallAdmission, guard: Guard | None
) -> None:
    handlers = {
        method.name: _handler(
            method, getattr(servicer, method.name), calls, MethodAccess(guard, service.full_name, method.name)
        )
        for method in service.methods
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))


def _handler(
    method: MethodDescriptor, behaviour: Behaviour, calls: CallAdmission, access: MethodAccess
) -> "grpc.RpcMethodHandler[Any, Any]":
    name = method.name
    admission, answers = calls.requests, calls.answers
    request_type = _COLUMNED.get(name) or GetMessageClass(method.input_type)
    decoded = parser_of(name, request_type)

    def parsed(received: bytes) -> Any:
        require_size(name, len(received), calls.limits)
        request = decoded(received)
        require_counts(name, request, len(received), calls.limits)
        return request

    async def answer_request(context: "Context[Any, Any]", check: CallCheck) -> bytes:
        with await admission.budget.seat(name) as hold:
            received = await admission.request(hold, context)
            request = parsed(received)
            check.require(request, len(received))
            if isinstance(request, Columned):
                await calls.iteration_budget.take(request.row_count)
            encoded = _encoded(await check.in_time(behaviour(request, context)))
            check.answered(len(encoded))
            answers.hold_until_call_ends(name, encoded, context)
            return encoded

    async def list_with_room(context: "Context[Any, Any]", check: CallCheck) -> bytes:
        with await admission.budget.seat(name) as hold:
            received = await admission.request(hold, context)
            request = parsed(received)
            check.require(request, len(received))
            with await answers.budget.seat(name):
                encoded = _encoded(await behaviour(request, context))
                check.answered(len(encoded))
                answers.hold_until_call_ends(name, encoded, context)
                return encoded

    async def answer_in_parts(context: "Context[Any, Any]", check: CallCheck) -> None:
        with await admission.budget.seat(name) as hold:
            received = await admission.request(hold, context)
            request = parsed(received)
            check.require(request, len(received))
        admission.enter_stream()
        try:
            async with aclosing(behaviour(request, context)) as parts:
                room = await answers.budget.seat(name)
                while True:
                    with room:
                        part = await anext(parts, None)
                        if part is None:
                            return
                        encoded = _encoded(part)
                        room.settle(len(encoded))
                        check.answered(len(encoded))
                        # Returns when gRPC has room for more: a caller that does not read stops the stream here.
                        await context.write(encoded)
                    check.require_time_left()
                    room = await answers.budget.seat_in_time(name)
        finally:
            admission.leave_stream()

    async def answer_stream(context: "Context[Any, Any]", check: CallCheck) -> Any:
        def permitted(encoded: bytes) -> object:
            request = parsed(encoded)
            check.require(request, len(encoded))
            return request

        # Requests are parsed when the behaviour reads the next one, so `_answering` handles parse errors, too.
        with admission.stream(name, context, permitted, check.begin_request) as requests:
            return await behaviour(check.until_expiry(requests), context)

    if method.server_streaming and not method.client_streaming:
        # Registered with a stream of requests for the same reason as the unary methods below.
        return grpc.stream_stream_rpc_method_handler(_answering(method, answer_in_parts, calls, access))
    if method.client_streaming and method.server_streaming:
        return grpc.stream_stream_rpc_method_handler(
            _answering(method, answer_stream, calls, access), response_serializer=_encoded
        )
    if method.client_streaming:
        return grpc.stream_unary_rpc_method_handler(
            _answering(method, answer_stream, calls, access), response_serializer=_encoded
        )
    # Unary methods are registered as streams: gRPC would otherwise read the request before the service has room for it.
    answer = list_with_room if name in LISTING_METHODS else answer_request
    return grpc.stream_unary_rpc_method_handler(_answering(method, answer, calls, access))


def parser_of(
    method: str, request: MessageDecoder[RequestT], *, bytes_max: int | None = None
) -> Callable[[bytes], RequestT]:
    """Return a parser of a method's requests.

    Without it, gRPC would answer UNKNOWN to bytes that are no message, and log a traceback.

    Args:
        method: its name, for errors.
        request: the class of its requests, or what decodes them.
        bytes_max: size of the largest one; None leaves that to gRPC.
    """

    def parsed(encoded: bytes) -> RequestT:
        if bytes_max is not None:
            require_at_most(len(encoded), bytes_max)
        try:
            return request.FromString(encoded)
        except DecodeError as error:
            remedy = f"send the message that {method} takes, with text in UTF-8"
            raise InvalidInput("request", f"{len(encoded)} bytes", remedy) from error

    return parsed


def call_type_of(method: MethodDescriptor) -> CallType:
    """Return which sides of a method stream."""
    if method.client_streaming:
        return CallType.BIDI_STREAM
    return CallType.SERVER_STREAM if method.server_streaming else CallType.UNARY


def _encoded(answer: Message | bytes) -> bytes:
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def _answering(
    method: MethodDescriptor, receive_and_answer: Answering, calls: CallAdmission, access: MethodAccess
) -> Behaviour:
    """Wrap a method: authenticate its caller, count the call and answer every error with its status. Unexpected errors
    are logged here, once.
    """
    counts, spans = calls.counts, calls.spans
    service, name = method.containing_service.full_name, method.name
    counted = counts.serve(service, name, call_type_of(method))

    async def answer(_requests: object, context: "Context[Any, Any]") -> Any:
        begun_ms, code = counts.begin(counted), grpc.StatusCode.CANCELLED
        metadata = context.invocation_metadata() or ()
        identity = begin_call(metadata)
        span, check = None, None
        if spans is not None:
            span = spans.call(service, name, metadata)
            identity.trace_id = span.trace_id
        try:
            check = access.begin(context, metadata)
            calls.enter()
            try:
                answered = await receive_and_answer(context, check)
            finally:
                calls.leave()
            code = grpc.StatusCode.OK
        except grpc.aio.InternalError as error:
            # Sending or receiving failed because the caller is gone. There is no caller to answer, and gRPC logs a
            # cancelled call at debug level.
            raise asyncio.CancelledError from error
        except Exception as error:  # noqa: BLE001  # the process boundary: every error is answered
            code = code_of(error)
            access.refused(error, context)
            if code is grpc.StatusCode.INTERNAL:
                calls.failures.failed(f"/{service}/{name}", error)
            status = rpc_status.to_status(status_of(error, identity.request_id))
        else:
            return answered
        finally:
            counts.end(counted, begun_ms, code)
            if check is not None:
                check.ended(code)
            if span is not None:
                span.end(code)
        return await context.abort(status.code, status.details, status.trailing_metadata)

    return answer
