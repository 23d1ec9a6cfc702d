"""Reads the messages of a topic's entries as consumers receive them.

Takes entries, and gives messages out of batches and chunks, decompressed and decrypted, without those of aborted
transactions.
Open ``reader.py`` first.
"""

from delayed_tracker.ledger.messages.chunks import IncompleteMessage
from delayed_tracker.ledger.messages.exposure import FRAME_PROTOCOL_VERSION, frame_exposed, without_broker_frames
from delayed_tracker.ledger.messages.keys import KeyLoader, load_key_files
from delayed_tracker.ledger.messages.message import Message, MessageId
from delayed_tracker.ledger.messages.reader import MessageOptions, MessageReader
from delayed_tracker.ledger.messages.visibility import OpenTransactions

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
