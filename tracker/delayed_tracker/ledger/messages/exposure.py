"""Rules for exposing the broker's part of an entry to clients (PIP-90).

A broker removes its frame, unless the setting allows frames and the client's protocol version supports them. An older
client would read the frame's first bytes as the size of the metadata.
Source: PIP-90; AbstractBaseDispatcher.java, PulsarCommandSenderImpl.java (sendMessagesToConsumer).
"""

from typing import Final

import numpy as np

from delayed_tracker.ledger.entry.stored_entries import StoredEntries

FRAME_PROTOCOL_VERSION: Final = 18
"""First version of the client protocol that supports broker frames."""

_MAGIC: Final = np.frombuffer(b"\x0e\x02", np.uint8)
_HEADER_BYTES: Final = 6


def frame_exposed(*, exposing_enabled: bool, protocol_version: int) -> bool:
    """Return True if a reader receives broker frames.

    Args:
        exposing_enabled: the setting ``exposingBrokerEntryMetadataToClientEnabled``.
        protocol_version: the reader's protocol version.
    """
    return exposing_enabled and protocol_version >= FRAME_PROTOCOL_VERSION


def without_broker_frames(stored: StoredEntries) -> StoredEntries:
    """Return the entries without their broker frames; shares the buffer.

    A frame that is cut short stays: such an entry is unreadable in both forms.
    Cost: O(rows), whatever the entries' size.
    """
    octets = np.frombuffer(stored.buffer, np.uint8)
    start = stored.start.copy()
    rows = np.flatnonzero(stored.end - start >= _HEADER_BYTES)
    at = start[rows]
    framed = (octets[at] == _MAGIC[0]) & (octets[at + 1] == _MAGIC[1])
    rows, at = rows[framed], at[framed]
    # Big-endian i32; read as unsigned, a negative size has the highest bit set and points behind the entry's end.
    size = np.zeros(len(rows), np.int64)
    for byte in range(2, _HEADER_BYTES):
        size = (size << 8) | octets[at + byte]
    behind = at + _HEADER_BYTES + size
    fits = behind <= stored.end[rows]
    start[rows[fits]] = behind[fits]
    return StoredEntries(stored.buffer, stored.ledger_id, stored.entry_id, start, stored.end)
