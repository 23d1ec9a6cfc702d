"""Checks entries from storage without digests, where only the producer's CRC32C reveals a wrong byte.

A bookie and a local ledger store a digest with each entry. If the digest fits, the entry is what the broker wrote.
Tiered storage has no digests, or digests that may be lost while the entries remain.
"""

from dataclasses import replace
from typing import Protocol, runtime_checkable

from delayed_tracker.ledger.entry.entry_columns import scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import ANOTHER_COPY
from delayed_tracker.ledger.topic.entry_location import unreadable_entry
from delayed_tracker.ledger.topic.topic_log import Ledger
from delayed_tracker.ledger.topic_name import TopicName


@runtime_checkable
class UndigestedLedger(Protocol):
    """Ledger whose entries may differ from what was written."""

    @property
    def lacks_digests(self) -> bool:
        """Always True. Ledgers with digests do not have this property."""


def proven_entries(topic: TopicName, ledger: Ledger, read: LedgerEntries) -> LedgerEntries:
    """Move messages with a wrong CRC32C or frame to the bad entries, with file and offset.

    Args:
        topic: topic of the ledger; entries that are not messages have no checksum.
        ledger: ledger of the entries; if it has digests, ``read`` is returned unchanged.
        read: entries read from the ledger.
    Cost: O(bytes) for ledgers without digests.
    """
    if not topic.holds_messages or not isinstance(ledger, UndigestedLedger):
        return read
    columns = scan_entries(read.entries)
    bad = [
        replace(unreadable_entry(ledger, int(read.entries.entry_id[row]), reason), remedy=ANOTHER_COPY)
        for row, reason in columns.unreadable()
    ]
    return LedgerEntries(read.entries.take(columns.readable), (*read.bad_entries, *bad)) if bad else read
