"""Finds the file and offset of an entry, for error messages about damaged entries.

Storage with checksums of its own reports the place of each mismatch. If only the producer's checksum is wrong, the
damage is found by code that has no file names, so it calls the ledger to get the place.
"""

from dataclasses import replace
from typing import Protocol, runtime_checkable

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.topic.topic_log import Ledger, TopicLog


@runtime_checkable
class LocatedLedger(Protocol):
    """Ledger that can return the file and offset of an entry."""

    def locate(self, entry_id: int) -> tuple[str, int] | None:
        """Return the file, and the offset of an entry's record in it; None if unknown.

        Cost: as reading the entry.
        """


def unreadable_entry(ledger: Ledger, entry_id: int, reason: str) -> BadEntry:
    """Return a bad entry with its place, for an entry that the storage returned as good and that is damaged."""
    return placed(ledger, BadEntry(ledger.ledger_id, entry_id, None, None, reason))


def unreadable_at(log: TopicLog, position: Position, reason: str) -> BadEntry:
    """Return the same for an entry of a topic."""
    return unreadable_entry(log.ledger(position.ledger_id), position.entry_id, reason)


def placed(ledger: Ledger, bad: BadEntry) -> BadEntry:
    """Return ``bad`` with file and offset added, if they are missing and the ledger can provide them."""
    if bad.file is not None or bad.entry_id is None or not isinstance(ledger, LocatedLedger):
        return bad
    place = ledger.locate(bad.entry_id)
    return bad if place is None else replace(bad, file=place[0], offset=place[1])
