"""A dict and a sort: the naive tracker that the core must be equal to."""

from dataclasses import dataclass, field

from tracker.core.columns import BEFORE_ALL, Position
from tracker.core.limits import TrackerLimits

Row = tuple[int, int, int]


@dataclass
class Model:
    """What is tracked, what is leased, and where the cursor stands."""

    limits: TrackerLimits
    tracked: dict[Position, int] = field(default_factory=dict)
    leased: dict[Position, int] = field(default_factory=dict)
    expiry: dict[Position, int] = field(default_factory=dict)
    """When the lease of a leased position ends, in elapsed time."""
    mark_delete: Position = BEFORE_ALL

    def add(self, rows: list[Row], now_ms: int) -> tuple[list[int], list[int], list[int]]:
        """Offsets answered due, duplicate, below mark-delete."""
        due, duplicate, below, seen = [], [], [], set()
        for offset, (deliver_at_ms, ledger_id, entry_id) in enumerate(rows):
            position = Position(ledger_id, entry_id)
            if position <= self.mark_delete:
                below.append(offset)
            elif position in seen or position in self.leased:
                duplicate.append(offset)
            elif deliver_at_ms <= self.limits.cutoff_ms(now_ms):
                due.append(offset)
                self.tracked.pop(position, None)
            elif position in self.tracked:
                duplicate.append(offset)
            else:
                self.tracked[position] = deliver_at_ms
            seen.add(position)
        return due, duplicate, below

    def due(self, now_ms: int) -> list[Row]:
        cutoff_ms = self.limits.cutoff_ms(now_ms)
        return sorted(
            (deliver_at_ms, *position)
            for position, deliver_at_ms in self.tracked.items()
            if position not in self.leased and deliver_at_ms <= cutoff_ms
        )

    def expire(self, elapsed_ms: int) -> None:
        self.leased = {
            position: lease_id for position, lease_id in self.leased.items() if self.expiry[position] > elapsed_ms
        }

    def void_leases(self) -> None:
        self.leased.clear()

    def forget(self, position: Position) -> None:
        self.tracked.pop(position, None)
        self.leased.pop(position, None)
