"""What adds broker metadata to entries as they are stored: PIP-70's interceptors.

An interceptor belongs to one topic and sees every batch of entries before it is written. It sets columns, not entries
one by one: ``index`` and ``broker_timestamp`` are all that a broker's metadata can hold. Entries that count for no
message get no frame and are not shown to interceptors at all.

Source: BrokerEntryMetadataInterceptor.java, AppendBrokerTimestampMetadataInterceptor.java,
AppendIndexMetadataInterceptor.java, ManagedLedgerInterceptorImpl.java. There time comes from the system's clock and
entries come one at a time; here the caller says what time it is.
"""

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
"""The managed ledger's property in which Pulsar keeps the counter of messages."""

BROKER_MAGIC: Final = b"\x0e\x02"
"""What an entry with broker metadata starts with."""

_HEADER_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class BrokerMetadataColumns:
    """Broker metadata of entries that are about to be stored, a row for each; None is a field that nobody has set."""

    broker_timestamp_ms: Int64Array | None = None
    index: Int64Array | None = None


class BrokerEntryMetadataInterceptor(Protocol):
    """Sets broker metadata of one topic's entries. Called by one thread at a time; inherit to get what is optional."""

    def intercept(
        self, metadata: BrokerMetadataColumns, num_messages: Int64Array, *, now_ms: int
    ) -> BrokerMetadataColumns:
        """Metadata of a batch of entries, in the order in which they are stored.

        Args:
            metadata: what the interceptors before this one have set.
            num_messages: how many messages each entry counts for, 1 or more. Not to be written to.
            now_ms: the time of the add.
        Returns: the same with more fields set; columns of one row per entry, owned by the caller.
        """

    def add_failed(self, num_messages: Int64Array) -> None:
        """The last entries that were shown, these, are not stored: take back what they did to the interceptor."""

    def recover(self, properties: Mapping[str, str], last_entry: BrokerEntryMetadata | None) -> None:
        """Go on where the topic stopped; called once, before the first entry.

        Args:
            properties: those of the managed ledger.
            last_entry: the broker metadata of the newest entry that has an index which the properties may not know of;
                None when there is none.
        Raises:
            MetadataInvalid: a property is not what it should be.
        """

    def properties(self) -> Mapping[str, str]:
        """What to keep in the managed ledger's properties from now on; asked whenever metadata is written."""
        return {}


class AppendBrokerTimestampMetadataInterceptor(BrokerEntryMetadataInterceptor):
    """Sets ``broker_timestamp`` to the time of the add."""

    def intercept(
        self, metadata: BrokerMetadataColumns, num_messages: Int64Array, *, now_ms: int
    ) -> BrokerMetadataColumns:
        """The same time for every entry of the batch."""
        return replace(metadata, broker_timestamp_ms=np.full(len(num_messages), now_ms, np.int64))


class AppendIndexMetadataInterceptor(BrokerEntryMetadataInterceptor):
    """Numbers messages: ``index`` is that of the entry's last message, the topic's first message has 0."""

    def __init__(self) -> None:
        self.index = -1
        """Of the last message that was shown and did not fail."""

    def intercept(
        self, metadata: BrokerMetadataColumns, num_messages: Int64Array, *, now_ms: int
    ) -> BrokerMetadataColumns:
        """Counts on by each entry's messages; the time does not matter."""
        del now_ms
        index = self.index + np.cumsum(num_messages, dtype=np.int64)
        if len(index):
            self.index = int(index[-1])
        return replace(metadata, index=index)

    def add_failed(self, num_messages: Int64Array) -> None:
        """Counts back, so that the next entries get the same numbers."""
        self.index -= int(num_messages.sum())

    def recover(self, properties: Mapping[str, str], last_entry: BrokerEntryMetadata | None) -> None:
        """The larger of the property and the last entry's index; -1 when there is neither."""
        known = [-1]
        if INDEX_PROPERTY in properties:
            known.append(_parsed_index(properties[INDEX_PROPERTY]))
        if last_entry is not None and last_entry.HasField("index") and last_entry.index < 1 << 63:
            known.append(last_entry.index)
        self.index = max(known)

    def properties(self) -> Mapping[str, str]:
        """The counter, as Pulsar keeps it."""
        return {INDEX_PROPERTY: str(self.index)}


def _parsed_index(value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise MetadataInvalid(
            f"property {INDEX_PROPERTY} of the managed ledger is {value!r}; it must be a whole number"
        ) from error


def intercept_all(
    interceptors: Sequence[BrokerEntryMetadataInterceptor], num_messages: Int64Array, *, now_ms: int
) -> BrokerMetadataColumns:
    """What all interceptors together set; when one of them raises, those before it have forgotten the entries.

    Args: as :meth:`BrokerEntryMetadataInterceptor.intercept`.
    Raises:
        InvalidInput: an interceptor gave columns of another length.
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
    """The broker metadata in front of an entry, whatever comes after it; None when there is none that parses."""
    if not entry.startswith(BROKER_MAGIC):
        return None
    size = int.from_bytes(entry[len(BROKER_MAGIC) : _HEADER_BYTES], "big", signed=True)
    if not 0 <= size <= len(entry) - _HEADER_BYTES:
        return None
    try:
        return BrokerEntryMetadata.FromString(entry[_HEADER_BYTES : _HEADER_BYTES + size])
    except DecodeError:
        return None
