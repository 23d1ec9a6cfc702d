"""Serves health and reflection over gRPC: servicers of libraries, whose requests are read within limits of their own.

They are not counted or limited as calls, so they answer while other calls are refused. Nor do they share the room for
requests and the number of streams: health needs no credential, and strangers must not hold up calls.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_status import rpc_status

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.admission.request_admission import Context, RequestAdmission
from delayed_tracker.service.errors import Unauthenticated
from delayed_tracker.service.grpc.access import MethodAccess
from delayed_tracker.service.grpc.methods import RequestT, parser_of
from delayed_tracker.service.grpc.reflection import Reflection, reflection_names
from delayed_tracker.service.grpc.status import status_of
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.process.health import Health
from delayed_tracker.service.security.guard import Guard
from delayed_tracker.wire.calls import MessageDecoder

_REQUEST_BYTES_MAX: Final = 4 * 2**10
"""Largest request. It carries only a name, which reflection sends back, and which a watch keeps."""
_SEATS: Final = 4
"""Largest messages of gRPC for which there is room."""
_RECEIVE_MAX_MS: Final = 5_000
"""Time for a request to arrive. A probe sends it with its call."""
_SEAT_SECONDS: Final = 0.2
"""Time for which a call keeps its seat, so that strangers who send no request hold up no probe."""
_HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

Behaviour = Callable[[Context], Awaitable[Any]]


def standard_limits(limits: ServiceLimits) -> ServiceLimits:
    """Return the limits of health and reflection: of their room for requests, and of the number of their streams.

    They are an object of their own, which must adopt new limits of the service as the service's own does.
    """
    return replace(
        limits,
        request_bytes_in_flight_max=_SEATS * limits.message_bytes_max,
        receive_max_ms=min(_RECEIVE_MAX_MS, limits.receive_max_ms),
    )


def standard_admission(limits: ServiceLimits) -> RequestAdmission:
    """Return what reads the requests of health and reflection, within :func:`standard_limits`."""
    return RequestAdmission(limits, seat_seconds_max=_SEAT_SECONDS)


def serve_health(health: Health, server: grpc.aio.Server, admission: RequestAdmission) -> None:
    """Add ``grpc.health.v1`` to a server that has not started."""
    parsed_check = _parser_of("Check", health_pb2.HealthCheckRequest)
    parsed_list = _parser_of("List", health_pb2.HealthListRequest)

    async def check(context: Context) -> health_pb2.HealthCheckResponse:
        with await admission.budget.seat("Check") as hold:
            request = parsed_check(await admission.request(hold, context))
            answer: health_pb2.HealthCheckResponse = await health.Check(request, context)
            return answer

    async def list_all(context: Context) -> health_pb2.HealthListResponse:
        with await admission.budget.seat("List") as hold:
            request = parsed_list(await admission.request(hold, context))
            answer: health_pb2.HealthListResponse = await health.List(request, context)
            return answer

    async def watch(context: Context) -> None:
        with admission.stream("Watch", context, parsed_check) as requests:
            async for request in requests:
                await health.Watch(request, context)
                return

    handlers = {
        "Check": grpc.stream_unary_rpc_method_handler(_refusing(check), response_serializer=_encoded),
        "List": grpc.stream_unary_rpc_method_handler(_refusing(list_all), response_serializer=_encoded),
        "Watch": grpc.stream_stream_rpc_method_handler(_refusing(watch), response_serializer=_encoded),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_HEALTH, handlers),))


def serve_reflection(
    reflection: Reflection, server: grpc.aio.Server, admission: RequestAdmission, guard: Guard | None = None
) -> None:
    """Add reflection, under each of its names, to a server that has not started. With a guard, any principal may ask."""
    name = "ServerReflectionInfo"
    parsed = _parser_of(name, reflection_pb2.ServerReflectionRequest)

    def handler(access: MethodAccess) -> "grpc.RpcMethodHandler[Any, Any]":
        async def reflect(context: Context) -> None:
            try:
                check = access.begin(context, context.invocation_metadata() or ())
                try:
                    with admission.stream(name, context, parsed) as requests:
                        async for answer in reflection.ServerReflectionInfo(check.until_expiry(requests), context):
                            await context.write(answer)
                finally:
                    check.leave()
            except Unauthenticated as error:
                access.refused(error, context)
                raise

        return grpc.stream_stream_rpc_method_handler(_refusing(reflect), response_serializer=_encoded)

    server.add_generic_rpc_handlers(
        tuple(
            grpc.method_handlers_generic_handler(service, {name: handler(MethodAccess(guard, service, name))})
            for service in reflection_names()
        )
    )


def _parser_of(method: str, request: MessageDecoder[RequestT]) -> Callable[[bytes], RequestT]:
    return parser_of(method, request, bytes_max=_REQUEST_BYTES_MAX)


def _encoded(answer: Any) -> bytes:
    encoded: bytes = answer.SerializeToString()
    return encoded


def _refusing(behaviour: Behaviour) -> Callable[[object, Context], Awaitable[Any]]:
    """Wrap a method: answer the service's own errors with their status."""

    async def answer(_requests: object, context: Context) -> Any:
        try:
            return await behaviour(context)
        except DelayedTrackerError as error:
            status = rpc_status.to_status(status_of(error))
        return await context.abort(status.code, status.details, status.trailing_metadata)

    return answer
