"""Limits at which a topic's ledger is full and a new one begins."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import ENTRY_ID_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.local.files.records import Payloads

_MS_PER_HOUR: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class RolloverLimits:
    """Limits of a ledger: when it has reached one of them, it accepts no more entries. The defaults are Pulsar's.

    Raises:
        InvalidInput: a limit is too small, or ``entries_max`` is more than entry ids can count.
    """

    entries_max: int = 50_000
    bytes_max: int = 2 << 30
    """Bytes of payloads without broker metadata. The entry that reaches the limit is still accepted."""
    age_ms_max: int = 4 * _MS_PER_HOUR
    """Milliseconds since the ledger was created; an empty ledger is never too old."""

    def __post_init__(self) -> None:
        if not 1 <= self.entries_max <= ENTRY_ID_MAX + 1:
            raise InvalidInput("entries_max", self.entries_max, f"give 1 to {ENTRY_ID_MAX + 1} entries")
        if self.bytes_max < 1:
            raise InvalidInput("bytes_max", self.bytes_max, "give at least 1 byte")
        if self.age_ms_max < 1:
            raise InvalidInput("age_ms_max", self.age_ms_max, "give at least 1 ms")

    def room(self, payloads: Payloads, *, entry_count: int, payload_bytes: int) -> int:
        """Return how many of the first payloads fit into a ledger with the given number of entries and bytes."""
        sizes = payloads.end - payloads.start
        before = payload_bytes + np.cumsum(sizes, dtype=np.int64) - sizes
        fitting = int(np.searchsorted(before, self.bytes_max)) if len(before) else 0
        return min(fitting, self.entries_max - entry_count)

    def is_full(self, *, entry_count: int, payload_bytes: int, age_ms: int) -> bool:
        """Return True if the ledger accepts no more entries."""
        return entry_count >= self.entries_max or (
            entry_count > 0 and (payload_bytes >= self.bytes_max or age_ms >= self.age_ms_max)
        )
