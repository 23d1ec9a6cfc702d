"""What consumers see of a topic's entries."""

from tracker.ledger.messages.chunks import IncompleteMessage
from tracker.ledger.messages.exposure import FRAME_PROTOCOL_VERSION, frame_exposed, without_broker_frames
from tracker.ledger.messages.keys import KeyLoader, load_key_files
from tracker.ledger.messages.message import Message, MessageId
from tracker.ledger.messages.reader import MessageOptions, MessageReader
from tracker.ledger.messages.visibility import OpenTransactions

__all__ = [
    "FRAME_PROTOCOL_VERSION",
    "IncompleteMessage",
    "KeyLoader",
    "Message",
    "MessageId",
    "MessageOptions",
    "MessageReader",
    "OpenTransactions",
    "frame_exposed",
    "load_key_files",
    "without_broker_frames",
]
