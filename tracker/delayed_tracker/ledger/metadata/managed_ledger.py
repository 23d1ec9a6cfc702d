"""Parses Pulsar's metadata of topics, their subscriptions and their ledgers, and finds topics in a metadata source."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from google.protobuf.message import DecodeError, Message

from delayed_tracker.core.values.columns import ENTRY_ID_MAX, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.compression import METADATA_BYTES_MAX, decompress
from delayed_tracker.ledger.entry.frame import text_of
from delayed_tracker.ledger.errors import CompressedDataInvalid, MetadataInvalid, SubscriptionNotFound, TopicNotFound
from delayed_tracker.ledger.metadata.ledger_metadata import LedgerMetadata, ledger_paths, parse_ledger_metadata
from delayed_tracker.ledger.metadata.metadata_dump import MetadataSource
from delayed_tracker.ledger.topic_name import TopicName, decode_name, encode_name, similar_names
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb

_ROOT: Final = "/managed-ledgers"
_COMPRESSED_MAGIC: Final = b"\x47\x78"
_HEADER_SIZE: Final = struct.Struct(">i")
_NAMES_LISTED_MAX: Final = 8

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class TopicLedger:
    """One ledger of a topic, by the topic's own metadata."""

    ledger_id: int
    entry_count: int | None
    """None until the topic records the end of the ledger."""
    payload_bytes: int | None
    closed_at_ms: int
    """0 until the topic records the end of the ledger."""
    offloaded: bool
    """True if tiered storage has a complete copy."""
    bookkeeper_deleted: bool
    """True if the bookies may have deleted the ledger."""
    offload_uuids: tuple[UUID, ...] = ()
    """Names of the complete copy in tiered storage: one, or several in order that have one part of the ledger each."""


@dataclass(frozen=True, slots=True)
class ManagedLedger:
    """Ledgers of one topic, ascending by id, which is message order."""

    ledgers: tuple[TopicLedger, ...]
    terminated_at: Position | None
    properties: Mapping[str, str]


def parse_managed_ledger(stored: bytes) -> ManagedLedger:
    """Parse the value of a topic's node. An empty value is a topic without ledgers.

    Raises:
        MetadataInvalid: the value is damaged.
    """
    info = _parsed(_uncompressed(stored, pb.ManagedLedgerInfoMetadata), pb.ManagedLedgerInfo)
    terminated = info.terminated_position if info.HasField("terminated_position") else None
    return ManagedLedger(
        # The stored order is arbitrary once a ledger was offloaded.
        ledgers=tuple(sorted(map(_topic_ledger, info.ledger_info), key=lambda ledger: ledger.ledger_id)),
        terminated_at=None if terminated is None else Position(terminated.ledger_id, terminated.entry_id),
        properties={text_of(entry.key): text_of(entry.value) for entry in info.properties},
    )


def _topic_ledger(info: pb.ManagedLedgerInfo.LedgerInfo) -> TopicLedger:
    # A ledger that is still written to has neither count nor size; some writers store zeros instead.
    ended = info.HasField("entries") and info.timestamp > 0
    if ended and not 0 <= info.entries <= ENTRY_ID_MAX + 1:
        raise MetadataInvalid(
            f"ledger {info.ledger_id} claims {info.entries} entries, and a ledger has 0 to {ENTRY_ID_MAX + 1}; restore "
            "the value from a copy"
        )
    return TopicLedger(
        ledger_id=info.ledger_id,
        entry_count=info.entries if ended else None,
        payload_bytes=info.size if ended else None,
        closed_at_ms=info.timestamp,
        offloaded=info.offload_context.complete,
        bookkeeper_deleted=info.offload_context.bookkeeper_deleted,
        offload_uuids=_offload_uuids(info.offload_context),
    )


def _offload_uuids(context: pb.OffloadContext) -> tuple[UUID, ...]:
    # Without "complete", an attempt is in flight or has failed, and the parts that it left must not be read.
    if context.complete and context.HasField("uid_msb"):
        return (_uuid(context.uid_msb, context.uid_lsb),)
    segments = sorted(context.offload_segment, key=lambda segment: segment.end_entry_id)
    return tuple(_uuid(segment.uid_msb, segment.uid_lsb) for segment in segments if segment.complete)


def _uuid(most: int, least: int) -> UUID:
    """Return a UUID from its halves, which are signed as in Java."""
    return UUID(int=(most % (1 << 64)) << 64 | least % (1 << 64))


def parse_cursor(stored: bytes) -> pb.ManagedCursorInfo:
    """Parse the value of a cursor's node.

    Raises:
        MetadataInvalid: the value is damaged.
    """
    return _parsed(_uncompressed(stored, pb.ManagedCursorInfoMetadata), pb.ManagedCursorInfo)


def parse_cursor_entry(stored: bytes) -> pb.PositionInfo:
    """Parse a cursor's state from an entry of its ledger.

    Raises:
        MetadataInvalid: the entry is damaged.
    """
    return _parsed(stored, pb.PositionInfo)


def _uncompressed(
    stored: bytes, header_type: type[pb.ManagedLedgerInfoMetadata] | type[pb.ManagedCursorInfoMetadata]
) -> bytes:
    # None of these messages starts with the magic, so a value that starts with it is compressed.
    if not stored.startswith(_COMPRESSED_MAGIC):
        return stored
    start = len(_COMPRESSED_MAGIC) + _HEADER_SIZE.size
    size = int(_HEADER_SIZE.unpack_from(stored, len(_COMPRESSED_MAGIC))[0]) if len(stored) >= start else -1
    if not 0 <= size <= len(stored) - start:
        raise MetadataInvalid(f"a compressed value of {len(stored)} bytes is cut short; take the dump again")
    header = _parsed(stored[start : start + size], header_type)
    try:
        return decompress(
            header.compression_type, stored[start + size :], header.uncompressed_size, size_max=METADATA_BYTES_MAX
        )
    except CompressedDataInvalid as error:
        raise MetadataInvalid(f"{error.message}; take the dump again") from error


def _parsed(stored: bytes, message_type: type[_M]) -> _M:
    message = message_type()
    try:
        message.ParseFromString(stored)
    except DecodeError as error:
        raise MetadataInvalid(f"{message_type.DESCRIPTOR.name} does not parse: {error}; take the dump again") from error
    if not message.IsInitialized():
        raise MetadataInvalid(f"{message_type.DESCRIPTOR.name} lacks required fields; take the dump again")
    return message


class TopicCatalogue:
    """Finder of topics, subscriptions and ledgers in a metadata source, without a cache."""

    def __init__(self, source: MetadataSource) -> None:
        self._source = source

    def topics(self, beside: TopicName | None = None) -> list[TopicName]:
        """Return the topics that have ledgers of messages, ascending by name: all, or those of one namespace.

        Args:
            beside: a topic of the namespace, which need not exist; None for all topics.
        Cost: O(nodes), of the namespace if there is one.
        """
        found = [
            TopicName.of_managed_ledger(f"{level}/persistent/{name}")
            for level in (self._levels() if beside is None else (f"{beside.tenant}/{beside.namespace}",))
            for name in self._source.children(f"{_ROOT}/{level}/persistent")
        ]
        return sorted(topic for topic in found if topic is not None and topic.holds_messages)

    def _levels(self) -> Iterator[str]:
        children = self._source.children
        for tenant in children(_ROOT):
            for namespace in children(f"{_ROOT}/{tenant}"):
                below = f"{tenant}/{namespace}"
                yield below
                # Topics with a cluster in their names are one level further down.
                yield from (f"{below}/{child}" for child in children(f"{_ROOT}/{below}"))

    def topic(self, name: str) -> TopicName:
        """Return the topic that a user names.

        Raises:
            TopicNotFound: there is no topic of this name; the message lists similar names of its namespace.
            InvalidInput: the name is not a topic name, or the name of ledgers that hold no messages.
        """
        topic = TopicName.parse(name)
        if not topic.holds_messages:
            raise InvalidInput("topic", name, "its ledgers hold the state of transactions; give a topic of messages")
        if self._source.get(f"{_ROOT}/{topic.managed_ledger}") is not None:
            return topic
        known = [str(candidate) for candidate in self.topics(topic)]
        near = similar_names(topic, known)
        hint = f"similar names: {_listed(near)}" if near else f"its namespace has {len(known)} topics: {_listed(known)}"
        raise TopicNotFound(f"{self._source.name} has no topic {topic}; {hint}", metadata={"topic": str(topic)})

    def managed_ledger(self, topic: TopicName) -> ManagedLedger:
        """Return the ledgers of a topic.

        Raises:
            TopicNotFound: the topic was deleted.
            MetadataInvalid: the stored value is damaged. The message names the topic.
        """
        stored = self._source.get(f"{_ROOT}/{topic.managed_ledger}")
        if stored is None:
            raise TopicNotFound(f"{self._source.name} has no topic {topic}", metadata={"topic": str(topic)})
        try:
            return parse_managed_ledger(stored)
        except MetadataInvalid as error:
            raise MetadataInvalid(f"metadata of {topic}: {error.message}") from error

    def subscriptions(self, topic: TopicName) -> list[str]:
        """Return the decoded names of a topic's cursors, ascending, with Pulsar's own, such as ``__compaction``."""
        return sorted(decode_name(child) for child in self._source.children(f"{_ROOT}/{topic.managed_ledger}"))

    def cursor(self, topic: TopicName, subscription: str) -> pb.ManagedCursorInfo:
        """Return the metadata of a subscription's cursor.

        Raises:
            SubscriptionNotFound: the topic has no subscription of this name; the message lists the existing ones.
            MetadataInvalid: the stored value is damaged. The message names topic and subscription.
        """
        encoded = encode_name(subscription, "subscription")
        stored = self._source.get(f"{_ROOT}/{topic.managed_ledger}/{encoded}")
        if stored is None:
            raise SubscriptionNotFound(
                f"{topic} has no subscription {subscription!r}; it has {_listed(self.subscriptions(topic))}",
                metadata={"topic": str(topic), "subscription": subscription},
            )
        try:
            return parse_cursor(stored)
        except MetadataInvalid as error:
            raise MetadataInvalid(f"cursor {subscription!r} of {topic}: {error.message}") from error

    def ledger(self, ledger_id: int) -> LedgerMetadata | None:
        """Return BookKeeper's metadata of a ledger; None if it was deleted.

        Raises:
            MetadataInvalid: the stored value is damaged or of an unknown version. The message names the ledger.
        """
        for path in ledger_paths(ledger_id):
            stored = self._source.get(path)
            if stored is not None:
                return parse_ledger_metadata(ledger_id, stored)
        return None


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    rest = f" and {len(names) - _NAMES_LISTED_MAX} more" if len(names) > _NAMES_LISTED_MAX else ""
    return ", ".join(names[:_NAMES_LISTED_MAX]) + rest
