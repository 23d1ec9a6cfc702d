"""What the service answers about ledgers, as frozen values."""

import enum
from dataclasses import dataclass

from delayed_tracker.client.model.answers import Position


class IndexLookupMode(enum.Enum):
    """Whose rules say which entry an index stands for."""

    PROPOSAL = "proposal"
    """PIP-415's: a system message stands for the next user message, one that was deleted for the earliest."""
    PULSAR_COMPATIBLE = "pulsar_compatible"
    """Those of Pulsar 4.2 where it differs."""


@dataclass(frozen=True, slots=True)
class MessageId:
    """A message's id, as Pulsar's clients know it."""

    position: Position
    """-1:-1 is "the earliest"."""
    partition: int
    """-1 for a topic that is no partition of another."""
    batch_index: int
    """-1 outside of a batch, and where only the entry is meant."""


@dataclass(frozen=True, slots=True)
class TimeSeek:
    """Where to read on for a time."""

    position: Position
    """The entry to read next. Behind the end: where the next entry will be; -1:-1 if the topic has no ledger yet."""
    behind_end: bool
    """Every entry is earlier than the time."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One entry as it is stored."""

    position: Position
    payload: bytes
    """[broker frame] [checksum] message metadata, payload."""


@dataclass(frozen=True, slots=True)
class UnreadableEntries:
    """Some entries in a row that are missing or damaged, for one reason."""

    first: Position
    """Entry -1: which entries of the ledger is not known. Ledger -1: nor is which ledger."""
    entry_count: int
    reason: str


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Some entries of a topic, in order."""

    entries: tuple[StoredEntry, ...]
    unreadable: tuple[UnreadableEntries, ...]
    """Those between them that cannot be read."""
    next: Position | None
    """Where the next page begins; None: the topic has no more."""
