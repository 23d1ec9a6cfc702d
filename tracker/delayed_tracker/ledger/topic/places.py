"""Where in a file an entry lies: for what is said about one whose own checksum shows that it is wrong.

Storage that has checksums of its own names the place of what does not fit them. Of what it hands on as whole, only the
producer's checksum can be wrong, and whoever compares that knows no files: so ledgers that can are asked.
"""

from dataclasses import replace
from typing import Protocol, runtime_checkable

from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.topic.topic_log import Ledger


@runtime_checkable
class PlacedLedger(Protocol):
    """A ledger that knows where its entries are."""

    def locate(self, entry_id: int) -> tuple[str, int] | None:
        """File, and offset of an entry's record in it; None when that cannot be told.

        Cost: as reading the entry.
        """


def unreadable_entry(ledger: Ledger, entry_id: int, reason: str) -> BadEntry:
    """An entry that the storage handed on as whole, and that is not."""
    return placed(ledger, BadEntry(ledger.ledger_id, entry_id, None, None, reason))


def placed(ledger: Ledger, bad: BadEntry) -> BadEntry:
    """What is wrong with an entry of a ledger, with the place where it lies if that is not named yet."""
    if bad.file is not None or bad.entry_id is None or not isinstance(ledger, PlacedLedger):
        return bad
    place = ledger.locate(bad.entry_id)
    return bad if place is None else replace(bad, file=place[0], offset=place[1])
