"""The index of messages as a topic's entries tell it: what the managed ledger's property does not know yet.

A broker looks at the last entry alone. That is enough for a ledger that was ended in order, because the property was
written then. In a ledger that a crash left, the last entries may have no index: they count for no message, or the
interceptors were off. So there the newest entry that has one is looked for.
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
    """The broker metadata of a ledger's newest entry that has an index, and what could not be read on the way there.

    Args:
        ledger: the topic's last one, not empty.
        look_back: look at all entries; otherwise at the last one alone, and at others only if that is bad.
    Raises:
        LedgerFileInvalid: the file cannot be a ledger's log.
        OSError: it cannot be read.
    Cost: O(bytes looked at).
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
