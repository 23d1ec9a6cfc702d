"""Values of an adoption: the buckets that are found, those that are left out, and the ways of adopting."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from delayed_tracker.bookkeeper.errors import DigestMismatch, EntryMissing, Unauthorized
from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid, LedgerNotFound
from delayed_tracker.cluster.change_record import ChangeRecord
from delayed_tracker.cluster.cursor_node import BucketProperty
from delayed_tracker.cluster.snapshot_ledger import SnapshotLedger
from delayed_tracker.core.values.columns import Int64Array, Position
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.maintenance.claiming import Attempt
from delayed_tracker.storage.maintenance.working import Retries
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.publication import catalogue_entry

GONE_OR_DAMAGED: Final = (
    LedgerNotFound, EntryMissing, DigestMismatch, Unauthorized, LedgerMetadataInvalid, SnapshotNotFound, SnapshotCorrupt
)  # fmt: skip
"""Errors of one bucket that another attempt does not mend, unless brokers have replaced it."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A bucket that is not adopted."""

    property: BucketProperty
    reason: str
    """One sentence."""


@dataclass(frozen=True, slots=True, eq=False)
class BucketSource:
    """A bucket that can be read, without its rows."""

    property: BucketProperty
    ledger: SnapshotLedger
    metadata: bytes
    counts: Int64Array
    """Messages of each segment."""
    message_count: int
    first: Position
    last: Position
    summary: bytes
    consumed: bytes

    def entry(self, bucket_id: int, seal_number: int | None, mark_delete: Position) -> CatalogueEntry:
        """Return the catalogue entry of its copy."""
        return catalogue_entry(
            bucket_id,
            self.first,
            self.last,
            self.summary,
            seal_number=seal_number,
            mark_delete=mark_delete,
            consumed=self.consumed,
        )


@dataclass(slots=True)
class AdoptedSubscription:
    """Buckets of one subscription that are, or would be, adopted."""

    topic: TopicName
    subscription: str
    bucket_count: int = 0
    message_count: int = 0
    """Messages in these buckets, acknowledged ones included."""
    byte_count: int = 0
    """Payload bytes of these buckets."""
    is_there: bool = False
    """True if the storage has exactly these buckets already; then nothing is changed."""
    epoch: int = 0
    """Epoch of the tracker in the storage; 0 if nothing was adopted."""
    left_out: list[LeftOut] = field(default_factory=list)

    def note(self, sources: Iterable[BucketSource]) -> None:
        """Set the sums to those of these buckets."""
        counts = [(source.message_count, source.ledger.reader.metadata.payload_bytes) for source in sources]
        self.bucket_count = len(counts)
        self.message_count, self.byte_count = (
            (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
        )


@dataclass(frozen=True, slots=True)
class AdoptionOptions:
    """Ways of adopting."""

    attempt: Attempt = field(default_factory=Retries)
    """Performs each operation of the storage; repeats it by default."""
    record: ChangeRecord | None = None
    """Gets each tracker before its buckets are named; None for no record."""
    copied: Callable[[int], None] = lambda _: None
    """Called with the number of buckets that were copied, or left out."""
    at_point: Callable[[str], None] = lambda _: None
    """Called with the name of a point that has been reached; tests stop there."""
