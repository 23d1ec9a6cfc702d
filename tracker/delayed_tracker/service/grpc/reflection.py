"""The reflection service, for tools such as grpcurl. Its streams stay open for as long as the caller keeps them open.

It is served under both of its names. grpcio-reflection has only ``v1alpha``; ``v1`` has the same messages in another
package, with the same bytes on the wire, so the library's servicer answers for both.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection, reflection_pb2

from delayed_tracker.service.admission.call_admission import CallAdmission
from delayed_tracker.service.errors import ShuttingDown

_V1_FILE: Final = "grpc/reflection/v1/reflection.proto"


class Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc, name-defined]  # the stubs lack the asynchronous half
    """Reflection servicer whose streams end when the service stops, so that they do not delay the stop as the library's
    do.
    """

    def __init__(self, service_names: Iterable[str], calls: CallAdmission) -> None:
        super().__init__([*service_names, *reflection_names()])
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


def reflection_names() -> tuple[str, str]:
    """Return the full names under which reflection is served."""
    alpha, v1 = (file.services_by_name["ServerReflection"] for file in (reflection_pb2.DESCRIPTOR, _v1_file()))
    return alpha.full_name, v1.full_name


def _v1_file() -> FileDescriptor:
    """Return the description of ``grpc.reflection.v1``, for tools that request it as they do for any other service."""
    pool = descriptor_pool.Default()
    try:
        return pool.FindFileByName(_V1_FILE)
    except KeyError:
        alpha = FileDescriptorProto()
        reflection_pb2.DESCRIPTOR.CopyToProto(alpha)
        described = text_format.Parse(str(alpha).replace("v1alpha", "v1"), FileDescriptorProto())
        described.name = _V1_FILE
        described.options.ClearField("deprecated")
        return pool.AddSerializedFile(described.SerializeToString())
