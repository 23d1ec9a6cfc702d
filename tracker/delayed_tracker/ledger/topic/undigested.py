"""Entries from storage that keeps no digest over them: only the CRC32C that their producer computed shows a wrong byte.

A bookie stores a digest with each entry, and so do local ledgers; what fits it is what the broker wrote, message or not.
Tiered storage keeps none, or one that may be lost apart from the entries.
"""

from dataclasses import replace
from typing import Protocol, runtime_checkable

from delayed_tracker.ledger.entry.entry_columns import scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import ANOTHER_COPY
from delayed_tracker.ledger.topic.places import unreadable_entry
from delayed_tracker.ledger.topic.topic_log import Ledger
from delayed_tracker.ledger.topic_name import TopicName


@runtime_checkable
class UndigestedLedger(Protocol):
    """A ledger whose entries may be other bytes than those that were written."""

    @property
    def lacks_digests(self) -> bool:
        """Always true; ledgers with digests have no such property."""


def proven_entries(topic: TopicName, ledger: Ledger, read: LedgerEntries) -> LedgerEntries:
    """Move messages whose CRC32C or frame is wrong to the bad entries, with file and offset.

    Args:
        topic: whose ledger it is; entries that are no messages have no checksum.
        ledger: where the entries come from; if it has digests, they are given back as they are.
        read: what was read of it.
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
