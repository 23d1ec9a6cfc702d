"""When a topic's ledger is full and the next one begins."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import ENTRY_ID_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.local.files.records import Payloads

_MS_PER_HOUR: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class RolloverLimits:
    """A ledger that has reached one of these takes no more entries. The defaults are Pulsar's.

    Raises:
        InvalidInput: a limit is too small, or more entries than entry ids can count.
    """

    entries_max: int = 50_000
    bytes_max: int = 2 << 30
    """Of payloads without broker metadata. The entry that reaches it is still taken."""
    age_ms_max: int = 4 * _MS_PER_HOUR
    """Since the ledger was made; an empty ledger does not age."""

    def __post_init__(self) -> None:
        if not 1 <= self.entries_max <= ENTRY_ID_MAX + 1:
            raise InvalidInput("entries_max", self.entries_max, f"give 1 to {ENTRY_ID_MAX + 1} entries")
        if self.bytes_max < 1:
            raise InvalidInput("bytes_max", self.bytes_max, "give at least 1 byte")
        if self.age_ms_max < 1:
            raise InvalidInput("age_ms_max", self.age_ms_max, "give at least 1 ms")

    def room(self, payloads: Payloads, *, entry_count: int, payload_bytes: int) -> int:
        """How many of the first payloads a ledger takes that has so many entries and bytes."""
        sizes = payloads.end - payloads.start
        before = payload_bytes + np.cumsum(sizes, dtype=np.int64) - sizes
        fitting = int(np.searchsorted(before, self.bytes_max)) if len(before) else 0
        return min(fitting, self.entries_max - entry_count)

    def is_full(self, *, entry_count: int, payload_bytes: int, age_ms: int) -> bool:
        """Whether a ledger takes no more."""
        return entry_count >= self.entries_max or (
            entry_count > 0 and (payload_bytes >= self.bytes_max or age_ms >= self.age_ms_max)
        )
