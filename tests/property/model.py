"""Naive tracker, a dict and a sort, that the core must equal."""

from dataclasses import dataclass, field

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.limits import TrackerLimits

Row = tuple[int, int, int]


@dataclass
class Model:
    """Tracked positions, leased positions, and the mark-delete position."""

    limits: TrackerLimits
    tracked: dict[Position, int] = field(default_factory=dict)
    leased: dict[Position, int] = field(default_factory=dict)
    expiry: dict[Position, int] = field(default_factory=dict)
    """End of the lease of each leased position, in elapsed time."""
    ended: dict[Position, tuple[int, int]] = field(default_factory=dict)
    """The lease that held a position when it ended, and the time, unless the position was changed since."""
    mark_delete: Position = BEFORE_ALL

    def add(self, rows: list[Row], now_ms: int) -> tuple[list[int], list[int], list[int]]:
        """Add rows; return the offsets that are due, duplicate, and below the mark-delete position."""
        due, duplicate, below, decided = [], [], [], {}
        for offset, (deliver_at_ms, ledger_id, entry_id) in enumerate(rows):
            position = Position(ledger_id, entry_id)
            if position <= self.mark_delete:
                below.append(offset)
            elif position in decided:
                decided[position].append(offset)
                continue
            elif position in self.leased:
                duplicate.append(offset)
            elif deliver_at_ms <= self.limits.cutoff_ms(now_ms):
                due.append(offset)
                self.forget(position)
                decided[position] = due
                continue
            elif position in self.tracked:
                duplicate.append(offset)
            else:
                self.forget(position)
                self.tracked[position] = deliver_at_ms
            decided[position] = duplicate
        return due, duplicate, below

    def reschedule(self, rows: list[Row], now_ms: int) -> dict[str, list[int]]:
        """Give tracked positions new deadlines; return the offsets of each outcome, ``moved`` for those that have one."""
        offsets: dict[str, list[int]] = {
            name: [] for name in ("moved", "due", "duplicate", "leased", "unknown", "beyond")
        }
        seen = set()
        for offset, (deliver_at_ms, ledger_id, entry_id) in enumerate(rows):
            position = Position(ledger_id, entry_id)
            if position in seen:
                offsets["duplicate"].append(offset)
            elif position in self.leased:
                offsets["leased"].append(offset)
            elif position not in self.tracked:
                offsets["unknown"].append(offset)
            elif self.limits.max_delay_ms and deliver_at_ms > now_ms + self.limits.max_delay_ms:
                offsets["beyond"].append(offset)
            else:
                self.tracked[position] = deliver_at_ms
                self.ended.pop(position, None)
                offsets["moved"].append(offset)
                if deliver_at_ms <= self.limits.cutoff_ms(now_ms):
                    offsets["due"].append(offset)
            seen.add(position)
        return offsets

    def due(self, now_ms: int) -> list[Row]:
        cutoff_ms = self.limits.cutoff_ms(now_ms)
        return sorted(
            (deliver_at_ms, *position)
            for position, deliver_at_ms in self.tracked.items()
            if position not in self.leased and deliver_at_ms <= cutoff_ms
        )

    def expire(self, elapsed_ms: int) -> None:
        for position in [position for position in self.leased if self.expiry[position] <= elapsed_ms]:
            self.ended[position] = (self.leased.pop(position), self.expiry[position])

    def lease(self, position: Position, lease_id: int, expires_ms: int) -> None:
        self.leased[position], self.expiry[position] = lease_id, expires_ms
        self.ended.pop(position, None)

    def may_ack(self, lease_id: int, position: Position, elapsed_ms: int) -> bool:
        """Return True if the lease holds a tracked position, or held it when the lease ended."""
        if position in self.leased:
            return self.leased[position] == lease_id
        ended_id, ended_ms = self.ended.get(position, (0, 0))
        return ended_id == lease_id and ended_ms > elapsed_ms - self.limits.late_ack_ms

    def void_leases(self) -> None:
        self.leased.clear()
        self.ended.clear()

    def forget(self, position: Position) -> None:
        self.tracked.pop(position, None)
        self.leased.pop(position, None)
        self.ended.pop(position, None)
