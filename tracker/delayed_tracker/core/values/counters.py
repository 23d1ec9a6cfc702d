"""Counts of what happened to positions since the tracker was loaded.

A counter changes only when a bit changes. At any moment:

added + recovered = tracked + acked + handed_off + cancelled + trimmed + cleared + refused_as_due + dropped_as_corrupt,
where tracked = pending + leased.
"""

from dataclasses import dataclass, replace


@dataclass(slots=True)
class Counters:
    """Running totals, in positions unless named otherwise."""

    tracked: int = 0
    """Bits set in all buckets; the only counter that can fall."""
    added: int = 0
    recovered: int = 0
    acked: int = 0
    handed_off: int = 0
    cancelled: int = 0
    trimmed: int = 0
    cleared: int = 0
    refused_as_due: int = 0
    dropped_as_corrupt: int = 0
    due_on_offer: int = 0
    """Offers answered "due". This counter and all that follow are not part of the equation above."""
    duplicate: int = 0
    beyond_max_delay: int = 0
    below_mark_delete: int = 0
    rescheduled: int = 0
    """New deadlines of positions that stayed tracked, by reschedules and nacks."""
    lease_expired: int = 0
    effects_failed: int = 0
    """Effects, not positions."""
    merges: int = 0
    """Merges completed, not positions."""
    merged_indexes: int = 0
    """Indexes rewritten by merges."""

    def balance(self) -> int:
        """Return positions that came in, minus those that left, minus those still tracked; 0 at any moment."""
        came = self.added + self.recovered
        went = self.acked + self.handed_off + self.cancelled + self.trimmed + self.cleared
        return came - went - self.refused_as_due - self.dropped_as_corrupt - self.tracked

    def going_on_with(self, tracked: int) -> "Counters":
        """Return these totals for a tracker that was dropped from memory and recovered with so many positions.

        Lost positions leave; consumed ones come back if the catalogue cannot tell them any more.
        """
        return replace(
            self,
            dropped_as_corrupt=self.dropped_as_corrupt + max(0, self.tracked - tracked),
            recovered=self.recovered + max(0, tracked - self.tracked),
            tracked=tracked,
        )
