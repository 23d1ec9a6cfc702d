"""The reflection service for tools such as grpcurl, whose streams stay open for as long as their caller likes."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from tracker.service.calls import Calls
from tracker.service.errors import ShuttingDown


class Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc, name-defined]  # the stubs lack the asynchronous half
    """Unlike the library's own, its streams end when the service stops, so that they never delay that."""

    def __init__(self, service_names: Iterable[str], calls: Calls) -> None:
        super().__init__(service_names)
        self._calls = calls

    async def ServerReflectionInfo(  # noqa: N802  # the name of the call
        self,
        request_iterator: AsyncIterable[reflection_pb2.ServerReflectionRequest],
        context: "grpc.aio.ServicerContext[Any, Any]",
    ) -> AsyncIterator[reflection_pb2.ServerReflectionResponse]:
        """Answer each request in turn."""
        requests = self._calls.requests_until_stopping(request_iterator)
        try:
            async for answer in super().ServerReflectionInfo(requests, context):
                yield answer
        except ShuttingDown:
            return
