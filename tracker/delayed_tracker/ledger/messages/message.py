"""One message as a consumer sees it, and its id."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import PayloadInvalid


@dataclass(frozen=True, slots=True)
class MessageId:
    """Where a message is: its entry, and its place in the batch if it came in one."""

    ledger_id: int
    entry_id: int
    partition: int = -1
    """-1 for a topic that is no partition of another."""
    batch_index: int = -1
    """-1 outside of a batch."""
    batch_size: int = 0
    """Messages of the batch, compacted ones included; 0 outside of a batch."""
    first_chunk: Position | None = None
    """Where a message begins that was sent in pieces; the id itself is that of the last piece."""

    @property
    def position(self) -> Position:
        """The entry alone."""
        return Position(self.ledger_id, self.entry_id)

    def __str__(self) -> str:
        """As Pulsar's tools print it: ledger, entry, partition and, in a batch, the index."""
        plain = f"{self.ledger_id}:{self.entry_id}:{self.partition}"
        return plain if self.batch_index < 0 else f"{plain}:{self.batch_index}"


@dataclass(frozen=True, slots=True)
class Message:
    """What a consumer gets to see of one message. Times are milliseconds since 1970-01-01 UTC."""

    id: MessageId
    payload: bytes
    """Decrypted, decompressed, put together; empty when ``null_value`` is set."""
    key: str | None
    """As stored: text, or base64 of any bytes when ``key_base64`` is set."""
    key_base64: bool
    ordering_key: bytes | None
    properties: Mapping[str, str]
    publish_time_ms: int
    """By the producer's clock; of the whole entry."""
    event_time_ms: int
    """0 when the producer gave none."""
    deliver_at_ms: int | None
    """When a delayed message is due; of the whole entry."""
    producer: str
    sequence_id: int
    null_value: bool
    """A tombstone: the key has no value any more."""
    schema_version: bytes | None
    broker_publish_time_ms: int | None = None
    """By the broker's clock. None when the entry has no broker frame, or the reader is not shown it (PIP-90)."""
    index: int | None = None
    """The broker's count of messages. None as above."""

    @property
    def key_bytes(self) -> bytes | None:
        """The key as bytes, whichever way it was given.

        Raises:
            PayloadInvalid: the producer called something base64 that is not.
        """
        if self.key is None:
            return None
        if not self.key_base64:
            return self.key.encode()
        try:
            return base64.b64decode(self.key, validate=True)
        except (binascii.Error, ValueError) as error:
            raise PayloadInvalid(f"message {self.id}: key {self.key!r} is no base64: {error}") from error
