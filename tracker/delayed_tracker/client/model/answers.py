"""Answers of the service to a dispatcher, as frozen values.

Columns are ``array('q')``. Offsets are indices into the columns of the call, ascending.
"""

import enum
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Position(NamedTuple):
    """Position of an entry: ledger, then entry. Entry -1, in mark-delete positions, means "before the first entry"."""

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
    """Result of the add of one position."""

    ADDED = "added"
    """Tracked from now on."""
    DUE = "due"
    """Already due: not tracked; the dispatcher delivers it now."""
    DUPLICATE = "duplicate"
    """Already tracked; its first deadline stays."""
    BEYOND_MAX_DELAY = "beyond_max_delay"
    """Deadline is later than the service allows: not tracked."""
    BELOW_MARK_DELETE = "below_mark_delete"
    """Already acknowledged: not tracked."""


@dataclass(frozen=True, slots=True)
class AddAnswer:
    """Results of a batch of adds. An offset in none of the tuples is now tracked."""

    added_count: int
    due_offsets: tuple[int, ...] = ()
    duplicate_offsets: tuple[int, ...] = ()
    beyond_max_delay_offsets: tuple[int, ...] = ()
    below_mark_delete_offsets: tuple[int, ...] = ()
    offered_through: Position | None = None
    """Claim that the service keeps; None if there is none, or if adds are not durable."""

    def results(self, count: int) -> list[AddResult]:
        """Return the result of each of the ``count`` positions, in order."""
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
    """Result of opening a tracker."""

    epoch: int
    replay_from: Position | None
    """Position to offer unacknowledged delayed entries from: behind mark-delete, or behind the dispatcher's claim if that
    is higher. None: from the beginning.
    """
    recovered_count: int
    bucket_count: int
    add_log_missing: bool = False
    """True if the tracker was recovered without the add log of its last owner, so that only its snapshots counted."""


@dataclass(frozen=True, slots=True)
class DueMessages:
    """Due positions as parallel columns, ordered by (deliver_at_ms, ledger, entry)."""

    deliver_at_ms: "array[int]"
    ledger_ids: "array[int]"
    entry_ids: "array[int]"
    next_delivery_at_ms: int | None
    """Time at which a poll would next succeed, in milliseconds since 1970, UTC; None if no other position is pending.
    """
    server_time_ms: int
    replay_required: bool
    """True if snapshots were lost since the tracker was opened: replay from mark-delete + 1, or open it again and replay
    from ``replay_from``. Claims do not rise until the next open.
    """
    pause_reading: bool = False
    """True if all messages seem to have the same delay: reading ahead may stop until the tracked ones are delivered."""

    def __len__(self) -> int:
        return len(self.ledger_ids)

    def __iter__(self) -> Iterator[Position]:
        return map(Position, self.ledger_ids, self.entry_ids)


@dataclass(frozen=True, slots=True)
class AckAnswer:
    """Results of the positions of an ack."""

    acked_count: int
    stale_offsets: tuple[int, ...] = ()
    """Positions that are tracked but not, or no longer, under this lease: unchanged, so a poll returns them again."""
    unknown_offsets: tuple[int, ...] = ()
    """Positions that are not tracked: nothing to do."""


@dataclass(frozen=True, slots=True)
class NackAnswer:
    """Results of the positions of a nack."""

    returned_count: int
    stale_offsets: tuple[int, ...] = ()
    """Positions no longer under this lease: unchanged."""
    unknown_offsets: tuple[int, ...] = ()
    """Positions that are not tracked: nothing to do."""


@dataclass(frozen=True, slots=True)
class NextDelivery:
    """Time at which a poll would next succeed, by the server's clock."""

    next_delivery_at_ms: int | None
    server_time_ms: int


@dataclass(frozen=True, slots=True)
class MarkDeleteAnswer:
    """Mark-delete position in force, and the number of tracked positions that the call dropped."""

    mark_delete: Position
    trimmed_count: int


@dataclass(frozen=True, slots=True)
class ExtendAnswer:
    """Results of the positions of an extend."""

    extended_count: int
    expires_at_ms: int
    """Time at which the extended positions expire, by the server's clock."""
    stale_offsets: tuple[int, ...] = ()
    """Positions no longer under this lease: unchanged."""
    unknown_offsets: tuple[int, ...] = ()
    """Positions that are not tracked: nothing to do."""


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """Results of the positions of a cancel. An offset in neither of the tuples is cancelled."""

    cancelled_count: int
    leased_offsets: tuple[int, ...] = ()
    """Positions under a lease: unchanged."""
    unknown_offsets: tuple[int, ...] = ()
    """Positions that are not tracked: nothing to do."""


class RescheduleResult(enum.Enum):
    """Result of the reschedule of one position."""

    RESCHEDULED = "rescheduled"
    """Tracked with its new deadline from now on."""
    DUE = "due"
    """The same, and the new deadline is due: the next poll returns it."""
    DUPLICATE = "duplicate"
    """Earlier in the same call: unchanged, its first row decides."""
    LEASED = "leased"
    """Under a lease: unchanged."""
    UNKNOWN = "unknown"
    """Not tracked: nothing to do."""
    BEYOND_MAX_DELAY = "beyond_max_delay"
    """New deadline is later than the service allows: unchanged."""


@dataclass(frozen=True, slots=True)
class RescheduleAnswer:
    """Results of the positions of a reschedule. An offset in none of the tuples has its new deadline."""

    rescheduled_count: int
    """Positions with a new deadline, those of ``due_offsets`` included."""
    due_offsets: tuple[int, ...] = ()
    """Positions with a new deadline that is due: the next poll returns them."""
    duplicate_offsets: tuple[int, ...] = ()
    """Positions that are earlier in the same call: unchanged."""
    leased_offsets: tuple[int, ...] = ()
    """Positions under a lease: unchanged."""
    unknown_offsets: tuple[int, ...] = ()
    """Positions that are not tracked: nothing to do."""
    beyond_max_delay_offsets: tuple[int, ...] = ()
    """Positions whose new deadline is later than the service allows: unchanged."""

    def results(self, count: int) -> list[RescheduleResult]:
        """Return the result of each of the ``count`` positions, in order."""
        each = [RescheduleResult.RESCHEDULED] * count
        for result, where in (
            (RescheduleResult.DUE, self.due_offsets),
            (RescheduleResult.DUPLICATE, self.duplicate_offsets),
            (RescheduleResult.LEASED, self.leased_offsets),
            (RescheduleResult.UNKNOWN, self.unknown_offsets),
            (RescheduleResult.BEYOND_MAX_DELAY, self.beyond_max_delay_offsets),
        ):
            for offset in where:
                each[offset] = result
        return each


@dataclass(frozen=True, slots=True)
class ResetAnswer:
    """Result of a reset of the cursor."""

    cleared_count: int
    replay_from: Position | None
    """Position to replay unacknowledged delayed entries from; None: from the beginning."""
