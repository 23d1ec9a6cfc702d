"""Interceptors that add broker metadata to entries before they are stored (PIP-70).

An interceptor belongs to one topic and is called with every batch of entries before it is written. It sets whole
columns, because broker metadata has only two fields: ``index`` and ``broker_timestamp``. Entries that count as no
message get no broker frame and are not passed to interceptors.

Source: BrokerEntryMetadataInterceptor.java, AppendBrokerTimestampMetadataInterceptor.java,
AppendIndexMetadataInterceptor.java, ManagedLedgerInterceptorImpl.java. There, an interceptor reads the system clock and
is called for each entry. Here, the caller passes the time and a batch.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
from google.protobuf.message import DecodeError

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata

INDEX_PROPERTY: Final = "index"
"""Property of the managed ledger in which Pulsar stores the message counter."""

BROKER_MAGIC: Final = b"\x0e\x02"
"""First bytes of an entry with broker metadata."""

_HEADER_BYTES: Final = 6
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class BrokerMetadataColumns:
    """Broker metadata of entries that are about to be stored, one row per entry; None for a field that is not set."""

    broker_timestamp_ms: Int64Array | None = None
    index: Int64Array | None = None


class BrokerEntryMetadataInterceptor(Protocol):
    """Interceptor of one topic. Called by one thread at a time; inherit from it to get the optional methods."""

    def intercept(
        self, metadata: BrokerMetadataColumns, num_messages: Int64Array, *, now_ms: int
    ) -> BrokerMetadataColumns:
        """Return the metadata of a batch of entries, in the order in which they are stored.

        Args:
            metadata: fields that the interceptors before this one have set.
            num_messages: messages that each entry counts for, 1 or more. Must not be written to.
            now_ms: time of the add, milliseconds since 1970-01-01 UTC.
        Returns: the same metadata with more fields set, as columns of one row per entry. The caller owns them.
        """

    def add_failed(self, num_messages: Int64Array) -> None:
        """Undo the effect of the last batch on the interceptor, because its entries were not stored."""

    def recover(self, properties: Mapping[str, str], last_entry: BrokerEntryMetadata | None) -> None:
        """Restore the state from what the topic stored. Called once, before the first entry.

        Args:
            properties: properties of the managed ledger.
            last_entry: broker metadata of the newest entry that has an index and may be newer than the properties; None
                if there is none.
        Raises:
            MetadataInvalid: a property has an invalid value.
        """

    def properties(self) -> Mapping[str, str]:
        """Return the properties to store in the managed ledger. Called each time its metadata is written."""
        return {}


class AppendBrokerTimestampMetadataInterceptor(BrokerEntryMetadataInterceptor):
    """Interceptor that sets ``broker_timestamp`` to the time of the add."""

    def intercept(
        self, metadata: BrokerMetadataColumns, num_messages: Int64Array, *, now_ms: int
    ) -> BrokerMetadataColumns:
        """Set the same time for every entry of the batch."""
        return replace(metadata, broker_timestamp_ms=np.full(len(num_messages), now_ms, np.int64))


class AppendIndexMetadataInterceptor(BrokerEntryMetadataInterceptor):
    """Interceptor that numbers messages: ``index`` is the number of the entry's last message, counted from 0."""

    def __init__(self) -> None:
        self.index = -1
        """Index of the last message that was numbered and whose add did not fail."""

    def intercept(
        self, metadata: BrokerMetadataColumns, num_messages: Int64Array, *, now_ms: int
    ) -> BrokerMetadataColumns:
        """Advance the counter by the messages of each entry. Ignores the time."""
        del now_ms
        index = self.index + np.cumsum(num_messages, dtype=np.int64)
        if len(index):
            self.index = int(index[-1])
        return replace(metadata, index=index)

    def add_failed(self, num_messages: Int64Array) -> None:
        """Set the counter back, so that the next entries get the same numbers."""
        self.index -= int(num_messages.sum())

    def recover(self, properties: Mapping[str, str], last_entry: BrokerEntryMetadata | None) -> None:
        """Continue from the larger of the property and the index of the last entry; from -1 if neither exists."""
        known = [-1]
        if INDEX_PROPERTY in properties:
            known.append(_parsed_index(properties[INDEX_PROPERTY]))
        if last_entry is not None and last_entry.HasField("index") and last_entry.index < 1 << 63:
            known.append(last_entry.index)
        self.index = max(known)

    def properties(self) -> Mapping[str, str]:
        """Return the counter in the form that Pulsar stores."""
        return {INDEX_PROPERTY: str(self.index)}


def _parsed_index(value: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(value):
        raise MetadataInvalid(
            f"property {INDEX_PROPERTY} of the managed ledger is {value!r}; it must be a whole number"
        )
    return int(value)


def intercept_all(
    interceptors: Sequence[BrokerEntryMetadataInterceptor], num_messages: Int64Array, *, now_ms: int
) -> BrokerMetadataColumns:
    """Return the metadata that all interceptors set. If one of them raises, those before it undo the batch.

    Args: as for :meth:`BrokerEntryMetadataInterceptor.intercept`.
    Raises:
        InvalidInput: an interceptor returned columns of another length.
    """
    metadata = BrokerMetadataColumns()
    shown = 0
    try:
        for interceptor in interceptors:
            metadata = interceptor.intercept(metadata, num_messages, now_ms=now_ms)
            shown += 1
            _check_rows(interceptor, metadata, len(num_messages))
    except BaseException:
        for interceptor in interceptors[:shown]:
            interceptor.add_failed(num_messages)
        raise
    return metadata


def _check_rows(interceptor: BrokerEntryMetadataInterceptor, metadata: BrokerMetadataColumns, row_count: int) -> None:
    for column in (metadata.broker_timestamp_ms, metadata.index):
        if column is not None and column.shape != (row_count,):
            raise InvalidInput(
                type(interceptor).__name__, column.shape, f"give columns of one row for each of the {row_count} entries"
            )


def broker_metadata_of(entry: bytes) -> BrokerEntryMetadata | None:
    """Parse the broker metadata at the start of an entry; return None if there is none or it does not parse."""
    if not entry.startswith(BROKER_MAGIC):
        return None
    size = int.from_bytes(entry[len(BROKER_MAGIC) : _HEADER_BYTES], "big", signed=True)
    if not 0 <= size <= len(entry) - _HEADER_BYTES:
        return None
    try:
        return BrokerEntryMetadata.FromString(entry[_HEADER_BYTES : _HEADER_BYTES + size])
    except DecodeError:
        return None
