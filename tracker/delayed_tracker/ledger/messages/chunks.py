"""Joins messages that were sent in pieces, one entry each.

The pieces of a message share a uuid and come in order, but other entries may lie between them. A producer that fails in
the middle leaves an incomplete group; one that sends a piece again leaves a duplicate. Consumers receive neither.
Source: ConsumerImpl.java (processMessageChunk). It limits the number of groups; this module limits their bytes.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import PayloadInvalid
from delayed_tracker.ledger.messages.payload import RAISE_MESSAGE_BYTES
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

PIECE_OVERHEAD_BYTES: Final = 500
"""Approximate memory of a piece beside its bytes. Without it, the number of empty pieces held would be unlimited."""


@dataclass(frozen=True, slots=True)
class IncompleteMessage:
    """Message that was sent in pieces and lacks some of them."""

    uuid: str
    first: Position
    """Position of the first piece seen; ``last`` is that of the last one."""
    last: Position
    reason: str

    def __str__(self) -> str:
        return f"message {self.uuid!r} in pieces from {self.first} to {self.last}: {self.reason}"


class WholeMessage(NamedTuple):
    """Joined pieces of one message."""

    first: Position
    body: bytes
    """Decrypted bytes, still compressed."""


@dataclass(slots=True)
class _Group:
    uuid: str
    chunk_count: int
    total_bytes: int
    first: Position
    last: Position
    bodies: list[bytes] = field(default_factory=list)
    held_bytes: int = 0


class ChunkAssembler:
    """Assembler of pieces, for several messages at a time.

    Args:
        pending_bytes_max: bytes of unfinished messages held at once, with 500 for each piece. Above it, the oldest
            message is given up.
        message_bytes_max: a message that claims to be larger is rejected.
    """

    def __init__(self, *, pending_bytes_max: int, message_bytes_max: int) -> None:
        self.incomplete: list[IncompleteMessage] = []
        """Messages given up so far."""
        self._pending_bytes_max = pending_bytes_max
        self._message_bytes_max = message_bytes_max
        self._pending_bytes = 0
        self._groups: dict[str, _Group] = {}

    def add(self, position: Position, metadata: MessageMetadata, body: bytes) -> WholeMessage | None:
        """Add a piece; return the whole message if this was its last piece.

        Args:
            position: the piece's position; ascending from call to call.
            metadata: the piece's metadata; its number of chunks is above 1.
            body: the piece, decrypted.
        Raises:
            PayloadInvalid: the piece contradicts itself or its group; the group is given up.
        """
        uuid, chunk = metadata.uuid, metadata.chunk_id
        count, total = metadata.num_chunks_from_msg, metadata.total_chunk_msg_size
        if not 0 <= chunk < count or not 0 < total <= self._message_bytes_max:
            raise PayloadInvalid(
                f"chunk {chunk} of {count}, of {total} bytes in all: give chunks 0 to {count - 1} "
                f"of messages of 1 to {self._message_bytes_max} bytes; {RAISE_MESSAGE_BYTES}"
            )
        group = self._groups.get(uuid)
        if chunk == 0:
            if group is not None:
                self._give_up(group, "the producer began it anew")
            group = self._groups[uuid] = _Group(uuid, count, total, position, position)
        elif group is None:
            self.incomplete.append(
                IncompleteMessage(uuid, position, position, f"nothing before chunk {chunk} was seen")
            )
            return None
        elif chunk < len(group.bodies):
            return None  # this piece was sent again
        elif chunk > len(group.bodies):
            self._give_up(group, f"chunk {len(group.bodies)} of {group.chunk_count} is missing")
            return None
        elif (count, total) != (group.chunk_count, group.total_bytes):
            self._give_up(group, f"chunk {chunk} says {count} chunks of {total} bytes in all, those before it do not")
            raise PayloadInvalid(f"chunk {chunk} says {count} chunks of {total} bytes in all, those before it do not")
        group.bodies.append(body)
        group.last = position
        group.held_bytes += len(body)
        self._pending_bytes += len(body) + PIECE_OVERHEAD_BYTES
        return self._whole(group)

    def _whole(self, group: _Group) -> WholeMessage | None:
        last = len(group.bodies) == group.chunk_count
        if group.held_bytes > group.total_bytes or (last and group.held_bytes < group.total_bytes):
            found = f"{len(group.bodies)} of {group.chunk_count} chunks have {group.held_bytes} bytes"
            self._give_up(group, f"{found}, {group.total_bytes} were announced")
            raise PayloadInvalid(f"{found} of a message of {group.total_bytes}")
        if last:
            self._forget(group)
            return WholeMessage(group.first, b"".join(group.bodies))
        while self._pending_bytes > self._pending_bytes_max:
            oldest = next(iter(self._groups.values()))
            self._give_up(oldest, f"unfinished messages hold more than {self._pending_bytes_max} bytes")
        return None

    def finish(self) -> None:
        """Declare the end of the pieces: messages that are not complete by now are given up."""
        for group in list(self._groups.values()):
            self._give_up(group, f"the entries end before chunk {len(group.bodies)} of {group.chunk_count}")

    def _give_up(self, group: _Group, reason: str) -> None:
        self.incomplete.append(IncompleteMessage(group.uuid, group.first, group.last, reason))
        self._forget(group)

    def _forget(self, group: _Group) -> None:
        self._pending_bytes -= group.held_bytes + len(group.bodies) * PIECE_OVERHEAD_BYTES
        del self._groups[group.uuid]
