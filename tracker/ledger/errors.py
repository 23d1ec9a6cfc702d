"""Errors of reading ledgers, sorted by what the caller does next, and the policy for bad entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tracker.core.errors import DelayedTrackerError


class ErrorPolicy(Enum):
    """What to do with entries that cannot be read."""

    FAIL = "fail"
    """Raise :class:`EntriesUnreadable`; nothing is answered."""
    SKIP = "skip"
    """Go on without them and list them in the answer."""


@dataclass(frozen=True, slots=True)
class BadEntry:
    """One entry, or one stretch of a file, that could not be read."""

    ledger_id: int | None
    """None when the damage hides which ledger it was."""
    entry_id: int | None
    file: str | None
    """None when no file has the entry."""
    offset: int | None
    """Where the record starts in the file (of the uncompressed bytes)."""
    reason: str

    def __str__(self) -> str:
        what = f"entry {self.ledger_id}:{self.entry_id}" if self.ledger_id is not None else "a record"
        where = f" in {self.file} at {self.offset}" if self.file is not None else ""
        return f"{what}{where}: {self.reason}"


class LedgerError(DelayedTrackerError):
    """Base of every error of reading ledgers and their metadata."""

    reason = "LEDGER_ERROR"


class LedgerFileInvalid(LedgerError):
    """A file is not what it should be, or of a version this program does not know. Give another file."""

    reason = "LEDGER_FILE_INVALID"


class MetadataInvalid(LedgerError):
    """A metadata value cannot be understood. Take the dump again."""

    reason = "LEDGER_METADATA_INVALID"


class TopicNotFound(LedgerError):
    """The metadata has no such topic; the message lists near names."""

    reason = "TOPIC_NOT_FOUND"


class SubscriptionNotFound(LedgerError):
    """The topic has no such subscription; the message lists those it has."""

    reason = "SUBSCRIPTION_NOT_FOUND"


class EntriesUnreadable(LedgerError):
    """Entries that should be there are missing or damaged, and the policy says to fail."""

    reason = "ENTRIES_UNREADABLE"

    def __init__(self, bad_entries: Sequence[BadEntry]) -> None:
        first = bad_entries[0]
        more = f" (and {len(bad_entries) - 1} more)" if len(bad_entries) > 1 else ""
        super().__init__(
            f"{first}{more}; give the directories of all bookies, or on_error=skip to go on without them",
            metadata={"bad_entry_count": str(len(bad_entries))},
        )
        self.bad_entries = tuple(bad_entries)
