"""gRPC server with scripted answers, for cases that a real service does not produce on command."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status

from delayed_tracker.v1 import ledger_pb2
from delayed_tracker.v1 import tracker_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["DelayedDeliveryTrackerService"]
LEDGERS = ledger_pb2.DESCRIPTOR.services_by_name["LedgerService"]

STREAM = "AddMessagesStream"

Answerer = Callable[[Message, grpc.aio.ServicerContext], Awaitable[Message]]


class ScriptedService:
    """Server that records requests and answers each method from ``answers``."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Message]] = []
        self.answers: dict[str, Answerer] = {}
        self.address = ""

    def on(self, method: str, answer: Answerer | Message) -> None:
        """Answer a method with a message, or with the result of a coroutine function of (request, context)."""

        async def constant(request: Message, context: grpc.aio.ServicerContext) -> Message:
            return answer

        self.answers[method] = answer if callable(answer) else constant

    def requests_of(self, method: str) -> list[Message]:
        return [request for name, request in self.requests if name == method]

    def handler(self, descriptor: MethodDescriptor) -> grpc.RpcMethodHandler:
        method = descriptor.name

        async def answer(request: Message, context: grpc.aio.ServicerContext) -> Message:
            self.requests.append((method, request))
            return await self.answers[method](request, context)

        async def answer_each(requests: AsyncIterator[Message], context: grpc.aio.ServicerContext):
            async for request in requests:
                yield await answer(request, context)

        async def answer_all(requests: AsyncIterator[Message], context: grpc.aio.ServicerContext) -> Message:
            async for request in requests:
                self.requests.append((method, request))
            return await self.answers[method](request, context)

        codecs = {
            "request_deserializer": GetMessageClass(descriptor.input_type).FromString,
            "response_serializer": GetMessageClass(descriptor.output_type).SerializeToString,
        }

        async def answer_in_parts(request: Message, context: grpc.aio.ServicerContext):
            self.requests.append((method, request))
            async for part in self.answers[method](request, context):
                yield part

        if descriptor.server_streaming and not descriptor.client_streaming:
            return grpc.unary_stream_rpc_method_handler(answer_in_parts, **codecs)
        if method == STREAM:
            return grpc.stream_stream_rpc_method_handler(answer_each, **codecs)
        if descriptor.client_streaming:
            return grpc.stream_unary_rpc_method_handler(answer_all, **codecs)
        return grpc.unary_unary_rpc_method_handler(answer, **codecs)

    async def start(self, address: str = "127.0.0.1:0", *, credentials: grpc.ServerCredentials | None = None) -> None:
        self._server = grpc.aio.server()
        for served in (SERVICE, LEDGERS):
            handlers = {method.name: self.handler(method) for method in served.methods}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(served.full_name, handlers),))
        if credentials is None:
            port = self._server.add_insecure_port(address)
        else:
            port = self._server.add_secure_port(address, credentials)
        self.address = f"{address.rpartition(':')[0]}:{port}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)


@asynccontextmanager
async def scripted_service(
    credentials: grpc.ServerCredentials | None = None, *, address: str = "127.0.0.1:0"
) -> AsyncIterator[ScriptedService]:
    service = ScriptedService()
    service.on("OpenTracker", pb.OpenTrackerResponse(epoch=7, recovered_count=3, bucket_count=1))
    await service.start(address, credentials=credentials)
    try:
        yield service
    finally:
        await service.stop()


@contextmanager
def scripted_service_of_threads(credentials: grpc.ServerCredentials | None = None) -> Iterator[ScriptedService]:
    """Run the service in an event loop of its own, for callers that block their thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = scripted_service(credentials)
    try:
        yield asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result()
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def abort(context: grpc.aio.ServicerContext, code: grpc.StatusCode, message: str, *details: Message) -> None:
    packed = []
    for detail in details:
        row = Any()
        row.Pack(detail)
        packed.append(row)
    status = status_pb2.Status(code=getattr(code_pb2, code.name), message=message, details=packed)
    await context.abort_with_status(rpc_status.to_status(status))
