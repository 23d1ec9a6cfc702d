"""Phase one of compaction: finds the latest message of each key.

As in Pulsar, a message without a payload removes its key, whether it is marked as null or only empty. A message in
pieces counts at the position of its last piece, and all of its pieces are kept. Pulsar's compactor instead takes each
piece for a message and keeps only the last one, which no consumer can read. A producer that fails in the middle leaves
pieces that are never completed. As in a consumer, such pieces are limited in number and by their age.
Source: PublishingOrderCompactor.java (compactMessage, compactBatchMessage).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.messages.batch import Slot
from delayed_tracker.ledger.messages.build import signed
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

NO_BATCH = -1
WAITING_PIECES_MAX: Final = 100_000
"""Most pieces remembered; some 10 MB. A consumer holds the pieces, with payloads, of 10 messages
(``maxPendingChunkedMessage``)."""
ABANDONED_AFTER_MS: Final = 60_000
"""Default of a consumer's ``expireTimeOfIncompleteChunkedMessage``."""


class Place(NamedTuple):
    """Place of a message."""

    position: Position
    batch_index: int = NO_BATCH
    earlier_pieces: tuple[Position, ...] = ()
    """For a message in pieces, the positions of all pieces but the last, which is at ``position``."""


@dataclass(slots=True)
class _Unfinished:
    """Message in pieces whose last piece is missing so far."""

    pieces: list[Position] = field(default_factory=list)
    published_ms: int = 0
    """Publish time of the newest piece, by the producer's clock."""


class LatestByKey:
    """Latest place of each key; the memory grows with the keys. Entries are added once, from front to back.

    Args:
        retain_null_key: keep messages without a key.
        waiting_pieces_max: the most pieces of unfinished messages to remember. Above it, the message whose newest piece
            is the oldest is given up.
    """

    def __init__(self, *, retain_null_key: bool, waiting_pieces_max: int = WAITING_PIECES_MAX) -> None:
        self.retain_null_key = retain_null_key
        self._places: dict[str, Place] = {}
        self._waiting_pieces_max = waiting_pieces_max
        self._waiting_count = 0
        # By uuid; the message that received a piece last is at the end.
        self._unfinished: dict[str, _Unfinished] = {}
        self._pieces: frozenset[Position] = frozenset()

    def __len__(self) -> int:
        return len(self._places)

    def add_message(self, position: Position, metadata: MessageMetadata, payload_bytes: int) -> bool:
        """Add an entry that is a message, an encrypted batch, or a piece of a message.

        Args:
            position: the entry's position; ascending from call to call.
            metadata: the entry's metadata.
            payload_bytes: size of the payload as stored.
        Returns: True if it may be kept: it is not a tombstone, and has a key if it needs one.
        """
        if not metadata.HasField("partition_key"):
            return self.retain_null_key
        if metadata.num_chunks_from_msg > 1:
            return self._add_piece(position, metadata)
        return self._put(metadata.partition_key, Place(position), has_value=_has_value(metadata, payload_bytes))

    def add_batch(self, position: Position, slots: Sequence[Slot]) -> bool:
        """Add an entry that is a readable batch.

        Returns: True if any of its messages may be kept.
        """
        kept = False
        for slot in slots:
            if slot.metadata.compacted_out:
                continue
            if slot.metadata.HasField("partition_key"):
                place = Place(position, slot.batch_index)
                kept |= self._put(slot.metadata.partition_key, place, has_value=bool(slot.body))
            else:
                kept |= self.retain_null_key
        return kept

    def keeps_message(self, position: Position, metadata: MessageMetadata) -> bool:
        """Return True if phase two keeps an entry unchanged; takes the arguments of :meth:`add_message`."""
        if not metadata.HasField("partition_key"):
            return self.retain_null_key
        place = self._places.get(metadata.partition_key)
        return (place is not None and place[:2] == (position, NO_BATCH)) or position in self._pieces

    def kept_slots(self, position: Position, slots: Sequence[Slot]) -> list[int]:
        """Return the batch indexes of the messages that phase two keeps of a batch."""
        kept = []
        for slot in slots:
            if slot.metadata.compacted_out:
                continue
            if not slot.metadata.HasField("partition_key"):
                retained = self.retain_null_key
            else:
                place = self._places.get(slot.metadata.partition_key)
                retained = place is not None and place[:2] == (position, slot.batch_index)
            if retained:
                kept.append(slot.batch_index)
        return kept

    def finish(self, now_ms: int) -> Position | None:
        """Declare the end of the entries: unfinished messages do not count, at least not yet.

        Args:
            now_ms: the publish time of the last entry.
        Returns: the first piece of all messages whose producer may still be sending them; None if there are none.
        """
        waiting = [
            message.pieces[0]
            for message in self._unfinished.values()
            if message.published_ms > now_ms - ABANDONED_AFTER_MS
        ]
        self._unfinished.clear()
        self._pieces = frozenset(piece for place in self._places.values() for piece in place.earlier_pieces)
        return min(waiting, default=None)

    def _put(self, key: str, place: Place, *, has_value: bool) -> bool:
        if has_value:
            self._places[key] = place
        else:
            self._places.pop(key, None)
        return has_value

    def _add_piece(self, position: Position, metadata: MessageMetadata) -> bool:
        uuid, chunk = metadata.uuid, metadata.chunk_id
        if chunk == 0:
            self._forget(uuid)
            self._unfinished[uuid] = _Unfinished()
        message = self._unfinished.get(uuid)
        if message is None or chunk != len(message.pieces):
            # A piece that was sent again is ignored. If a piece is missing, all later pieces are rejected, too.
            return False
        if chunk == metadata.num_chunks_from_msg - 1:
            self._forget(uuid)
            place = Place(position, NO_BATCH, tuple(message.pieces))
            return self._put(metadata.partition_key, place, has_value=True)
        message.pieces.append(position)
        message.published_ms = signed(metadata.publish_time)
        self._unfinished[uuid] = self._unfinished.pop(uuid)
        self._waiting_count += 1
        while self._waiting_count > self._waiting_pieces_max:
            self._forget(next(iter(self._unfinished)))
        return False

    def _forget(self, uuid: str) -> None:
        message = self._unfinished.pop(uuid, None)
        self._waiting_count -= 0 if message is None else len(message.pieces)


def _has_value(metadata: MessageMetadata, payload_bytes: int) -> bool:
    """Return True if the message has a value. Pulsar counts the headers as a value if the producer states no size."""
    size = metadata.uncompressed_size if metadata.HasField("uncompressed_size") else payload_bytes
    return size > 0 and not metadata.null_value
