"""Bounds of calls, and the decoding of their messages, on which client and service agree."""

from typing import Final, Protocol, TypeVar

Message_co = TypeVar("Message_co", covariant=True)

METADATA_BYTES_MAX: Final = 16 * 1_024
"""Most metadata of a call, and of its answer, in bytes: names and values, and 32 bytes for each entry."""
ACKS_MAX: Final = 1_000
"""Leases that one call may acknowledge."""


class MessageDecoder(Protocol[Message_co]):
    """Reader of a message's bytes: its class, or its ``ColumnFields``."""

    def FromString(self, encoded: bytes, /) -> Message_co:  # noqa: N802  # the name in protobuf
        """Return the message; raises DecodeError for other bytes."""
        ...
