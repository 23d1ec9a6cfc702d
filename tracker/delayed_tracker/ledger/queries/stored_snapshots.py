"""Reads the bucket snapshots that Pulsar itself stores for a subscription, as bytes.

A snapshot is a ledger. The cursor's properties have its id, under keys that contain the range of message ledgers that
it covers. Snapshots without such a property are orphans and are not found here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from delayed_tracker.ledger.errors import BadEntry, EntriesUnreadable, MetadataInvalid
from delayed_tracker.ledger.topic.topic_reader import TopicReader
from delayed_tracker.ledger.topic_name import TopicName

_KEY_PREFIX: Final = "#pulsar.internal.delayed.bucket"
_NUMBER: Final = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class BucketPointer:
    """One bucket in the cursor's properties."""

    first_ledger_id: int
    last_ledger_id: int
    """Message ledgers covered, both included."""
    bucket_id: int
    """Ledger that holds the snapshot."""


@dataclass(frozen=True, slots=True)
class PulsarSnapshot:
    """Snapshot of one bucket, not decoded."""

    pointer: BucketPointer
    metadata: bytes
    """Entry 0."""
    segments: tuple[bytes, ...]
    """Entries 1 to n."""

    @property
    def bucket_id(self) -> int:
        """Ledger that holds the snapshot."""
        return self.pointer.bucket_id

    @property
    def first_ledger_id(self) -> int:
        """First message ledger covered."""
        return self.pointer.first_ledger_id

    @property
    def last_ledger_id(self) -> int:
        """Last message ledger covered."""
        return self.pointer.last_ledger_id


def bucket_pointers(cursor_properties: Mapping[str, str]) -> list[BucketPointer]:
    """Return the buckets in a cursor's properties, ascending by range. Ignores other properties.

    Raises:
        MetadataInvalid: the key or value of a bucket is malformed.
    """
    pointers = []
    for key, value in cursor_properties.items():
        if not key.startswith(_KEY_PREFIX):
            continue
        _, *ledger_range = key.split("_")
        if len(ledger_range) != 2 or not all(map(_NUMBER.fullmatch, (*ledger_range, value))):
            raise MetadataInvalid(
                f"cursor property {key!r} = {value!r} points to no bucket; {_KEY_PREFIX}_<first>_<last> with a ledger "
                "id is expected"
            )
        pointers.append(BucketPointer(int(ledger_range[0]), int(ledger_range[1]), int(value)))
    return sorted(pointers, key=lambda pointer: (pointer.first_ledger_id, pointer.last_ledger_id, pointer.bucket_id))


def read_stored_snapshots(reader: TopicReader, topic: TopicName, subscription: str) -> list[PulsarSnapshot]:
    """Read the snapshots in a subscription's cursor, ascending by range.

    Raises:
        SubscriptionNotFound: the topic has no such subscription.
        MetadataInvalid: metadata of the cursor or of a snapshot's ledger is damaged.
        EntriesUnreadable: a snapshot's ledger is gone, or entries of it are missing or damaged.
    """
    info = reader.catalogue.cursor(topic, subscription)
    snapshots = []
    for pointer in bucket_pointers({entry.name: entry.value for entry in info.cursor_properties}):
        entries = reader.payloads(reader.span(pointer.bucket_id))
        if not entries:
            raise EntriesUnreadable([BadEntry(pointer.bucket_id, 0, None, None, "the snapshot's ledger is empty")])
        snapshots.append(PulsarSnapshot(pointer, entries[0], tuple(entries[1:])))
    return snapshots
