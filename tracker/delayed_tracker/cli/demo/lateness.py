"""Lateness of messages, by the service's clock: the time from the deadline to the answer that contained them."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class LatenessSummary:
    """Spread of the lateness of one group of deliveries, in milliseconds."""

    group: str
    count: int
    earliest_ms: int
    median_ms: int
    p99_ms: int
    latest_ms: int


@dataclass(slots=True)
class Lateness:
    """Collector of deliveries in named groups."""

    groups: dict[str, list[int]] = field(default_factory=dict)

    def record(self, group: str, late_ms: int) -> None:
        """Record one message; negative is early."""
        self.groups.setdefault(group, []).append(late_ms)

    @property
    def early_count(self) -> int:
        """Messages that polls returned before their deadline."""
        return sum(late_ms < 0 for group in self.groups.values() for late_ms in group)

    def summaries(self) -> list[LatenessSummary]:
        """Return one summary a group, in the order in which they began."""
        return [
            LatenessSummary(
                group=name,
                count=len(late_ms),
                earliest_ms=min(late_ms),
                median_ms=int(np.percentile(late_ms, 50)),
                p99_ms=int(np.percentile(late_ms, 99)),
                latest_ms=max(late_ms),
            )
            for name, late_ms in self.groups.items()
            if late_ms
        ]
