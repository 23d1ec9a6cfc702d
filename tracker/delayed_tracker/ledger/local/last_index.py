"""Finds the message index in a topic's entries, because the managed ledger's property may be out of date.

A broker reads only the last entry. That is enough for a ledger that was closed properly, because the property was
written then. In a ledger that a crash left open, the last entries may have no index: they count as no message, or the
interceptors were off. In that case all entries are searched for the newest one
with an index.
"""

from typing import Final

import numpy as np

from delayed_tracker.ledger.entry.interceptors import BROKER_MAGIC, broker_metadata_of
from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.local.ledger import LocalLedger
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata

_ENTRIES_AT_ONCE: Final = 4_096


def last_index(ledger: LocalLedger, *, look_back: bool) -> tuple[BrokerEntryMetadata | None, tuple[BadEntry, ...]]:
    """Return the broker metadata of the newest entry that has an index, and the unreadable entries found on the way.

    Args:
        ledger: the topic's last ledger, not empty.
        look_back: search all entries; otherwise only the last one, and others only if that is bad.
    Raises:
        LedgerFileInvalid: the file cannot be a ledger's log.
        OSError: the file cannot be read.
    Cost: O(bytes read).
    """
    bad: list[BadEntry] = []
    last = ledger.last_entry_id
    first = last
    while last >= 0:
        read = ledger.read(first, last)
        bad += read.bad_entries
        found = _newest(read.entries)
        if found is not None or not (look_back or bad):
            return found, tuple(bad)
        last = first - 1
        first = max(0, last - _ENTRIES_AT_ONCE + 1)
    return None, tuple(bad)


def _newest(entries: StoredEntries) -> BrokerEntryMetadata | None:
    framed = entries.end - entries.start >= len(BROKER_MAGIC)
    octets = np.frombuffer(entries.buffer, np.uint8)
    for place, octet in enumerate(BROKER_MAGIC):
        framed[framed] = octets[entries.start[framed] + place] == octet
    for row in reversed(np.flatnonzero(framed).tolist()):
        metadata = broker_metadata_of(entries.payload(row))
        if metadata is not None and metadata.HasField("index"):
            return metadata
    return None
