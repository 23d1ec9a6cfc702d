"""One message as a consumer receives it, and its id."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import PayloadInvalid


@dataclass(frozen=True, slots=True)
class MessageId:
    """Place of a message: its entry, and its index in the batch if it belongs to one."""

    ledger_id: int
    entry_id: int
    partition: int = -1
    """Number of the partition; -1 for a topic that is not a partition."""
    batch_index: int = -1
    """Index in the batch; -1 outside of a batch."""
    batch_size: int = 0
    """Number of messages in the batch, including those that compaction removed; 0 outside of a batch."""
    first_chunk: Position | None = None
    """Position of the first piece of a message that was sent in pieces; the id itself is that of the last piece."""

    @property
    def position(self) -> Position:
        """Position of the entry."""
        return Position(self.ledger_id, self.entry_id)

    def __str__(self) -> str:
        """Format the id as Pulsar's tools do: ledger, entry, partition and, in a batch, the index."""
        plain = f"{self.ledger_id}:{self.entry_id}:{self.partition}"
        return plain if self.batch_index < 0 else f"{plain}:{self.batch_index}"


@dataclass(frozen=True, slots=True)
class Message:
    """One message with the fields that a consumer receives. Times are milliseconds since 1970-01-01 UTC."""

    id: MessageId
    payload: bytes
    """Payload: decrypted, joined from its pieces, decompressed; empty if ``null_value`` is set."""
    key: str | None
    """Key as stored: text, or base64 of any bytes if ``key_base64`` is set. Bytes that are no text are escaped."""
    key_base64: bool
    ordering_key: bytes | None
    properties: Mapping[str, str]
    publish_time_ms: int
    """Time by the producer's clock, the same for the whole entry."""
    event_time_ms: int
    """Time set by the producer; 0 if it set none."""
    deliver_at_ms: int | None
    """Time at which a delayed message is due, the same for the whole entry; None if not delayed."""
    producer: str
    sequence_id: int
    null_value: bool
    """True for a tombstone: the key has no value any more."""
    schema_version: bytes | None
    broker_publish_time_ms: int | None = None
    """Time by the broker's clock. None if the entry has no broker frame, or the reader does not receive it (PIP-90)."""
    index: int | None = None
    """Message index assigned by the broker. None in the same cases as above."""
    raw_key: bytes | None = None
    """Key as stored, if it is not UTF-8."""

    @property
    def key_bytes(self) -> bytes | None:
        """Key as bytes, decoded if it is stored as base64; None if there is no key.

        Raises:
            PayloadInvalid: the key is marked as base64 but is not valid base64.
        """
        if self.key is None:
            return None
        if not self.key_base64:
            return self.key.encode() if self.raw_key is None else self.raw_key
        try:
            return base64.b64decode(self.key, validate=True)
        except (binascii.Error, ValueError) as error:
            raise PayloadInvalid(f"message {self.id}: key {self.key!r} is no base64: {error}") from error
