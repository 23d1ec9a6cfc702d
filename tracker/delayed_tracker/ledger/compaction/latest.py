"""Phase one of compaction: where the latest message of each key is.

A message without a payload removes its key, as Pulsar has it, whether it is called null or merely empty. A message in
pieces counts where its last piece lies, and all of its pieces are kept: unlike Pulsar, whose compactor takes each piece
for a message and keeps the last one alone, which no consumer can read. A producer that fails in the middle leaves
pieces that wait for nothing, so that these are bounded, as a consumer bounds them: in number, and by their age.
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
"""Some 10 MB. A consumer holds the pieces of 10 messages (``maxPendingChunkedMessage``), which are payloads there."""
ABANDONED_AFTER_MS: Final = 60_000
"""``expireTimeOfIncompleteChunkedMessage`` of a consumer, by default."""


class Place(NamedTuple):
    """Where a message is."""

    position: Position
    batch_index: int = NO_BATCH
    earlier_pieces: tuple[Position, ...] = ()
    """Of a message in pieces: where the others are, the last one being at ``position``."""


@dataclass(slots=True)
class _Unfinished:
    """A message in pieces whose last one is still to come."""

    pieces: list[Position] = field(default_factory=list)
    published_ms: int = 0
    """When the newest of them was, by the producer's clock."""


class LatestByKey:
    """The latest place of each key, in the memory that the keys need. Fed once, from front to back.

    Args:
        retain_null_key: keep messages without a key.
        waiting_pieces_max: pieces of unfinished messages that are remembered. Beyond it, the message that got none for
            the longest time is given up.
    """

    def __init__(self, *, retain_null_key: bool, waiting_pieces_max: int = WAITING_PIECES_MAX) -> None:
        self.retain_null_key = retain_null_key
        self._places: dict[str, Place] = {}
        self._waiting_pieces_max = waiting_pieces_max
        self._waiting_count = 0
        # By uuid, the one that got a piece last at the end.
        self._unfinished: dict[str, _Unfinished] = {}
        self._pieces: frozenset[Position] = frozenset()

    def __len__(self) -> int:
        return len(self._places)

    def add_message(self, position: Position, metadata: MessageMetadata, payload_bytes: int) -> bool:
        """One more entry that is a message, or an encrypted batch, or a piece of a message.

        Args:
            position: ascending from call to call.
            metadata: of the entry.
            payload_bytes: as stored.
        Returns: whether it may be kept: it is no tombstone, and has a key if it needs one.
        """
        if not metadata.HasField("partition_key"):
            return self.retain_null_key
        if metadata.num_chunks_from_msg > 1:
            return self._add_piece(position, metadata)
        return self._put(metadata.partition_key, Place(position), has_value=_has_value(metadata, payload_bytes))

    def add_batch(self, position: Position, slots: Sequence[Slot]) -> bool:
        """One more entry that is a readable batch.

        Returns: whether any of it may be kept.
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
        """Whether an entry is kept as it is: for phase two, with what :meth:`add_message` was given."""
        if not metadata.HasField("partition_key"):
            return self.retain_null_key
        place = self._places.get(metadata.partition_key)
        return (place is not None and place[:2] == (position, NO_BATCH)) or position in self._pieces

    def kept_slots(self, position: Position, slots: Sequence[Slot]) -> list[int]:
        """Which messages of a batch are kept, by batch index: for phase two."""
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
        """There are no more entries: what is unfinished is no message, or none yet.

        Args:
            now_ms: when the last entry was published.
        Returns: the first piece of all messages whose producer may still be sending them; None when there is none.
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
            # Sent again: the pieces before it still wait. Otherwise one is missing, and what follows is refused too.
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
    """Unlike Pulsar, which takes the headers for a value where the producer states no size."""
    size = metadata.uncompressed_size if metadata.HasField("uncompressed_size") else payload_bytes
    return size > 0 and not metadata.null_value
