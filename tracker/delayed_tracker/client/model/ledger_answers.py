"""Answers of the service about ledgers, as frozen values."""

import enum
from dataclasses import dataclass

from delayed_tracker.client.model.answers import Position


class IndexLookupMode(enum.Enum):
    """Rules that map an index to an entry."""

    PROPOSAL = "proposal"
    """Rules of PIP-415: a system message's index stands for the next user message, a deleted one's for the earliest."""
    PULSAR_COMPATIBLE = "pulsar_compatible"
    """Rules of Pulsar 4.2 where it differs."""


@dataclass(frozen=True, slots=True)
class MessageId:
    """Message id in the form of Pulsar's clients."""

    position: Position
    """Position of the entry; -1:-1 means "the earliest"."""
    partition: int
    """Partition number; -1 for a topic that is not a partition."""
    batch_index: int
    """Index within a batch; -1 outside of a batch, and where only the entry is meant."""


@dataclass(frozen=True, slots=True)
class TimeSeek:
    """Position at which to continue reading for a time."""

    position: Position
    """Entry to read next. Behind the end: the place of the next entry; -1:-1 if the topic has no ledger yet."""
    behind_end: bool
    """True if every entry is earlier than the time."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One entry as it is stored."""

    position: Position
    payload: bytes
    """Stored bytes: [broker frame] [checksum] message metadata, payload."""


@dataclass(frozen=True, slots=True)
class UnreadableEntries:
    """Consecutive entries that are missing or damaged for one reason."""

    first: Position
    """First of the entries. Entry -1: the entries of the ledger are unknown. Ledger -1: the ledger is unknown, too."""
    entry_count: int
    reason: str


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Some entries of a topic, in order."""

    entries: tuple[StoredEntry, ...]
    unreadable: tuple[UnreadableEntries, ...]
    """Entries between them that cannot be read."""
    next: Position | None
    """Start of the next page; None: the topic has no more."""
