"""The columns of every message that has some, for client and service alike."""

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
CONTAINS_COLUMNS: Final = ColumnFields(pb.ContainsMessagesRequest, *_POSITIONS)

_ADD_TAG: Final = bytes((pb.AddMessagesStreamRequest.DESCRIPTOR.fields_by_name["add"].number << 3 | 2,))


def streamed_add(add: bytes) -> bytes:
    """An encoded AddMessagesRequest as an encoded AddMessagesStreamRequest."""
    return b"".join((_ADD_TAG, varint(len(add)), add))


class StreamedAdds:
    """Reads the requests of AddMessagesStream; stands where a message's class would."""

    @staticmethod
    def FromString(encoded: bytes) -> Columned[pb.AddMessagesRequest]:  # noqa: N802  # protobuf's name for it
        """The one add that a request of a stream holds, empty if it holds none; raises DecodeError as protobuf does."""
        # Nearly always it is all there is; what protobuf allows besides (several, which it merges) is left to protobuf.
        for header_bytes in range(2, min(5, len(encoded)) + 1):
            if encoded[:header_bytes] == _ADD_TAG + varint(len(encoded) - header_bytes):
                return ADD_COLUMNS.FromString(encoded[header_bytes:])
        return ADD_COLUMNS.FromString(pb.AddMessagesStreamRequest.FromString(encoded).add.SerializeToString())
