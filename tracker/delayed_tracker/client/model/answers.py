"""What the service answers a dispatcher, as frozen values.

Columns are ``array('q')``; offsets point into the call's columns and ascend.
"""

import enum
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Position(NamedTuple):
    """One entry's place: ledger, then entry. Entry -1 (in mark-delete positions) is "before the first entry"."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


class EntryRange(NamedTuple):
    """Entries of one ledger, both ends inclusive."""

    ledger_id: int
    first_entry_id: int
    last_entry_id: int


class AddResult(enum.Enum):
    """What became of one offered position."""

    ADDED = "added"
    """Tracked from now on."""
    DUE = "due"
    """Due already: not tracked, the dispatcher sends it now."""
    DUPLICATE = "duplicate"
    """Tracked before: the first deadline stays."""
    BEYOND_MAX_DELAY = "beyond_max_delay"
    """Further away than the service allows: not tracked."""
    BELOW_MARK_DELETE = "below_mark_delete"
    """Acknowledged already: not tracked."""


@dataclass(frozen=True, slots=True)
class AddAnswer:
    """What became of a batch: an offset in none of the tuples is now tracked."""

    added_count: int
    due_offsets: tuple[int, ...] = ()
    duplicate_offsets: tuple[int, ...] = ()
    beyond_max_delay_offsets: tuple[int, ...] = ()
    below_mark_delete_offsets: tuple[int, ...] = ()

    def results(self, count: int) -> list[AddResult]:
        """The outcome of each of the ``count`` offered positions, in order."""
        each = [AddResult.ADDED] * count
        for result, where in (
            (AddResult.DUE, self.due_offsets),
            (AddResult.DUPLICATE, self.duplicate_offsets),
            (AddResult.BEYOND_MAX_DELAY, self.beyond_max_delay_offsets),
            (AddResult.BELOW_MARK_DELETE, self.below_mark_delete_offsets),
        ):
            for offset in where:
                each[offset] = result
        return each


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """What opening a tracker found."""

    epoch: int
    replay_from: Position | None
    """Replay unacknowledged delayed entries from here; None: from the beginning."""
    recovered_count: int
    bucket_count: int


@dataclass(frozen=True, slots=True)
class DueMessages:
    """Due positions as parallel columns, ordered by (deliver_at_ms, ledger, entry)."""

    deliver_at_ms: "array[int]"
    ledger_ids: "array[int]"
    entry_ids: "array[int]"
    next_delivery_at_ms: int | None
    """When a poll would next succeed; None if nothing else waits."""
    server_time_ms: int
    replay_required: bool
    """Snapshots were lost since the tracker was opened: replay from mark-delete + 1."""
    pause_reading: bool = False
    """All messages seem to have the same delay: reading ahead may stop until what is tracked has been delivered."""

    def __len__(self) -> int:
        return len(self.ledger_ids)

    def __iter__(self) -> Iterator[Position]:
        return map(Position, self.ledger_ids, self.entry_ids)


@dataclass(frozen=True, slots=True)
class AckAnswer:
    """What became of the positions of an ack."""

    acked_count: int
    stale_offsets: tuple[int, ...] = ()
    """Tracked and not this lease's, or no longer: unchanged, so they are handed out again."""
    unknown_offsets: tuple[int, ...] = ()
    """Not tracked: nothing to do."""


@dataclass(frozen=True, slots=True)
class NackAnswer:
    """What became of the positions of a nack."""

    returned_count: int
    stale_offsets: tuple[int, ...] = ()
    """Not under this lease any more: unchanged."""
    unknown_offsets: tuple[int, ...] = ()
    """Not tracked: nothing to do."""


@dataclass(frozen=True, slots=True)
class NextDelivery:
    """When a poll would succeed, by the server's clock."""

    next_delivery_at_ms: int | None
    server_time_ms: int


@dataclass(frozen=True, slots=True)
class MarkDeleteAnswer:
    """The mark-delete position in force, and how many tracked positions the call dropped."""

    mark_delete: Position
    trimmed_count: int


@dataclass(frozen=True, slots=True)
class ExtendAnswer:
    """What became of the positions of an extend."""

    extended_count: int
    expires_at_ms: int
    """When those that were extended expire, by the server's clock."""
    stale_offsets: tuple[int, ...] = ()
    """Not under this lease any more: unchanged."""
    unknown_offsets: tuple[int, ...] = ()
    """Not tracked: nothing to do."""


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """What became of the positions of a cancel: an offset in neither of the tuples is cancelled."""

    cancelled_count: int
    leased_offsets: tuple[int, ...] = ()
    """In somebody's hands: unchanged."""
    unknown_offsets: tuple[int, ...] = ()
    """Not tracked: nothing to do."""


@dataclass(frozen=True, slots=True)
class ResetAnswer:
    """What a reset of the cursor dropped, and where to begin again."""

    cleared_count: int
    replay_from: Position | None
    """Replay unacknowledged delayed entries from here; None: from the beginning."""
