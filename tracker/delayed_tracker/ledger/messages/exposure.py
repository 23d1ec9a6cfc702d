"""Who is shown the broker's part of an entry (PIP-90).

A broker keeps its frame to itself unless it is configured otherwise and the client speaks a protocol that knows of
frames; an older client would take the frame's first bytes for the size of the metadata.
Source: PIP-90; AbstractBaseDispatcher.java, PulsarCommandSenderImpl.java (sendMessagesToConsumer).
"""

from typing import Final

import numpy as np

from delayed_tracker.ledger.entry.stored_entries import StoredEntries

FRAME_PROTOCOL_VERSION: Final = 18
"""The first version of the client protocol whose clients understand a broker frame."""

_MAGIC: Final = np.frombuffer(b"\x0e\x02", np.uint8)
_HEADER_BYTES: Final = 6


def frame_exposed(*, exposing_enabled: bool, protocol_version: int) -> bool:
    """Whether a reader is shown broker frames.

    Args:
        exposing_enabled: the setting ``exposingBrokerEntryMetadataToClientEnabled``.
        protocol_version: what the reader speaks.
    """
    return exposing_enabled and protocol_version >= FRAME_PROTOCOL_VERSION


def without_broker_frames(stored: StoredEntries) -> StoredEntries:
    """The same entries as readers see them that are not shown broker frames; shares the buffer.

    A frame that is cut short stays: such an entry cannot be read either way.
    Cost: O(rows), whatever the entries' size.
    """
    octets = np.frombuffer(stored.buffer, np.uint8)
    start = stored.start.copy()
    rows = np.flatnonzero(stored.end - start >= _HEADER_BYTES)
    at = start[rows]
    framed = (octets[at] == _MAGIC[0]) & (octets[at + 1] == _MAGIC[1])
    rows, at = rows[framed], at[framed]
    # Big-endian i32; a negative size has the highest bit set and leads behind the entry's end.
    size = np.zeros(len(rows), np.int64)
    for byte in range(2, _HEADER_BYTES):
        size = (size << 8) | octets[at + byte]
    behind = at + _HEADER_BYTES + size
    fits = behind <= stored.end[rows]
    start[rows[fits]] = behind[fits]
    return StoredEntries(stored.buffer, stored.ledger_id, stored.entry_id, start, stored.end)
