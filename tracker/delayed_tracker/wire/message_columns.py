"""Columns of each message that has columns, for the client and the service."""

from typing import Final

from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.column_fields import Columned, ColumnFields, varint

_INDEXES: Final = ("deliver_at_ms", "ledger_ids", "entry_ids")
_POSITIONS: Final = ("ledger_ids", "entry_ids")

ADD_COLUMNS: Final = ColumnFields(pb.AddMessagesRequest, *_INDEXES)
POLLED_COLUMNS: Final = ColumnFields(pb.PollScheduledMessagesResponse, *_INDEXES)
PEEKED_COLUMNS: Final = ColumnFields(pb.PeekMessagesResponse, *_INDEXES)
ACK_COLUMNS: Final = ColumnFields(pb.AckMessagesRequest, *_POSITIONS)
NACK_COLUMNS: Final = ColumnFields(pb.NackMessagesRequest, *_POSITIONS)
EXTEND_COLUMNS: Final = ColumnFields(pb.ExtendLeaseRequest, *_POSITIONS)
CANCEL_COLUMNS: Final = ColumnFields(pb.CancelMessagesRequest, *_POSITIONS)
RESCHEDULE_COLUMNS: Final = ColumnFields(pb.RescheduleMessagesRequest, *_INDEXES)
CONTAINS_COLUMNS: Final = ColumnFields(pb.ContainsMessagesRequest, *_POSITIONS)

_ADD_TAG: Final = bytes((pb.AddMessagesStreamRequest.DESCRIPTOR.fields_by_name["add"].number << 3 | 2,))


def streamed_add(add: bytes) -> bytes:
    """Return an encoded AddMessagesRequest as an encoded AddMessagesStreamRequest."""
    return b"".join((_ADD_TAG, varint(len(add)), add))


class StreamedAdds:
    """Reader of the requests of AddMessagesStream, used in place of a message's class."""

    @staticmethod
    def FromString(encoded: bytes) -> Columned[pb.AddMessagesRequest]:  # noqa: N802  # protobuf's name for it
        """Return the one add of a stream request, empty if it has none; raises DecodeError as protobuf does."""
        # Nearly every request is one add and nothing else. Protobuf parses the rest: several adds are legal, and are
        # merged.
        for header_bytes in range(2, min(5, len(encoded)) + 1):
            if encoded[:header_bytes] == _ADD_TAG + varint(len(encoded) - header_bytes):
                return ADD_COLUMNS.FromString(encoded[header_bytes:])
        return ADD_COLUMNS.FromString(pb.AddMessagesStreamRequest.FromString(encoded).add.SerializeToString())
