"""Errors of reading ledgers, one class for each reaction of the caller, and the policy for bad entries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from delayed_tracker.core.values.errors import DelayedTrackerError

_IDS_LISTED_MAX: Final = 8
OTHER_BOOKIES: Final = "give the directories of all bookies"
"""Remedy for entries that one bookie lacks or has damaged; other bookies may have replicas."""
ANOTHER_COPY: Final = "restore the file from a copy"
"""Remedy for a damaged file without replicas."""


class ErrorPolicy(StrEnum):
    """Reaction to entries that cannot be read."""

    FAIL = "fail"
    """Raise :class:`EntriesUnreadable`; return nothing."""
    SKIP = "skip"
    """Skip bad entries and list them in the result."""


@dataclass(frozen=True, slots=True)
class BadEntry:
    """One entry, or one stretch of a file, that could not be read."""

    ledger_id: int | None
    """None if the damage hides the ledger id."""
    entry_id: int | None
    file: str | None
    """None if no file has the entry."""
    offset: int | None
    """Offset of the record in the uncompressed file."""
    reason: str
    entry_count: int = 1
    """Number of consecutive entries with this reason; ``entry_id`` is the first of them, or None for records of a file."""
    remedy: str | None = field(default=None, compare=False)
    """Place of a good copy, if the source can name one; None if the reason contains the remedy or there is none."""

    def __str__(self) -> str:
        if self.ledger_id is None:
            what = "a record" if self.entry_count <= 1 else f"{self.entry_count} records"
        elif self.entry_id is None:
            what = f"ledger {self.ledger_id}"
        elif self.entry_count > 1:
            what = f"entries {self.ledger_id}:{self.entry_id} to {self.entry_id + self.entry_count - 1}"
        else:
            what = f"entry {self.ledger_id}:{self.entry_id}"
        where = f" in {self.file} at byte {self.offset}" if self.file is not None else ""
        return f"{what}{where}: {self.reason}"


class LedgerError(DelayedTrackerError):
    """Base class of all errors of reading ledgers and their metadata."""

    reason = "LEDGER_ERROR"


class LedgerFileInvalid(LedgerError):
    """A file is damaged, of another kind, or of an unknown version. Give another file."""

    reason = "LEDGER_FILE_INVALID"


class MetadataInvalid(LedgerError):
    """A metadata value cannot be parsed. Take the dump again."""

    reason = "LEDGER_METADATA_INVALID"


class MetadataUnavailable(LedgerError):
    """A store of metadata or of ledgers does not answer. Start it, or correct its address."""

    reason = "LEDGER_METADATA_UNAVAILABLE"


class TopicNotFound(LedgerError):
    """The metadata has no such topic; the message lists similar names."""

    reason = "TOPIC_NOT_FOUND"


class NamespaceNotFound(TopicNotFound):
    """The metadata has no topic in that namespace."""

    reason = "NAMESPACE_NOT_FOUND"


class PartitionedTopic(LedgerError):
    """The topic itself has no ledgers; its partitions have. Name one of them."""

    reason = "PARTITIONED_TOPIC"

    def __init__(self, topic: str, partitions: Sequence[str]) -> None:
        listed = ", ".join(partitions[:_IDS_LISTED_MAX]) + (", ..." if len(partitions) > _IDS_LISTED_MAX else "")
        super().__init__(f"{topic} is partitioned; name one of its partitions: {listed}", metadata={"topic": topic})
        self.topic = topic


class SubscriptionNotFound(LedgerError):
    """The topic has no such subscription; the message lists the existing ones."""

    reason = "SUBSCRIPTION_NOT_FOUND"


class LedgerNotFound(LedgerError):
    """The topic has no such ledger, or the ledger cannot be found; the message lists the existing ones."""

    reason = "LEDGER_NOT_FOUND"

    @classmethod
    def of(cls, where: str, ledger_id: int, known: Sequence[int]) -> "LedgerNotFound":
        """Return the error for one missing id; the message lists the ids that ``where`` has."""
        rest = f" and {len(known) - _IDS_LISTED_MAX} more" if len(known) > _IDS_LISTED_MAX else ""
        listed = ", ".join(map(str, known[:_IDS_LISTED_MAX])) + rest if known else "none"
        return cls(f"{where} has no ledger {ledger_id}; it has {listed}", metadata={"ledger_id": str(ledger_id)})


class MessageIndexInvalid(LedgerError):
    """No message can have this index. Give 0 or more."""

    reason = "MESSAGE_INDEX_INVALID"

    def __init__(self, index: int) -> None:
        super().__init__(f"index: {index} is not valid; give 0 or more", metadata={"index": str(index)})
        self.index = index


class MessageNotFound(LedgerError):
    """The topic does not have this message, or not yet. Try again after more messages were published."""

    reason = "MESSAGE_NOT_FOUND"

    def __init__(self, topic: str, index: int | None) -> None:
        missing = f"no user message at or behind index {index}" if index is not None else "no messages"
        super().__init__(f"{topic} has {missing}", metadata={} if index is None else {"index": str(index)})
        self.topic = topic
        self.index = index
        """None if the topic has no messages at all."""


class MessageNotVisible(LedgerError):
    """The entry exists, but no consumer receives a message of it. Name another entry."""

    reason = "MESSAGE_NOT_VISIBLE"

    def __init__(self, position: str, why: str) -> None:
        super().__init__(f"no consumer gets to see entry {position}: {why}", metadata={"position": position})


class BrokerMetadataMissing(LedgerError):
    """The entries have no message index. Configure a broker to add it to new entries."""

    reason = "BROKER_METADATA_MISSING"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"entries of {topic} carry no message index; a broker adds it to new ones if its"
            " brokerEntryMetadataInterceptors has AppendIndexMetadataInterceptor"
        )
        self.topic = topic


class EntriesUnreadable(LedgerError):
    """Entries are missing or damaged, and the policy is to fail."""

    reason = "ENTRIES_UNREADABLE"

    def __init__(self, bad_entries: Sequence[BadEntry]) -> None:
        first = bad_entries[0]
        more = f" (and {len(bad_entries) - 1} more)" if len(bad_entries) > 1 else ""
        remedy = "give" if first.remedy is None else f"{first.remedy}, or"
        super().__init__(
            f"{first}{more}; {remedy} on_error=skip to go on without them (of a command: --on-error skip)",
            metadata={"bad_entry_count": str(len(bad_entries))},
        )
        self.bad_entries = tuple(bad_entries)


class CompressedDataInvalid(LedgerError):
    """Compressed bytes do not decompress to the size in their header. Treat the value as damaged."""

    reason = "COMPRESSED_DATA_INVALID"


class FrameInvalid(LedgerError):
    """The bytes are not a topic entry. Treat the entry as damaged."""

    reason = "FRAME_INVALID"


class PayloadInvalid(LedgerError):
    """The metadata and the payload of an entry contradict each other. Treat the entry as damaged."""

    reason = "PAYLOAD_INVALID"


class DecryptionFailed(LedgerError):
    """A payload cannot be decrypted with the given keys. Give the private key that the message names."""

    reason = "DECRYPTION_FAILED"
