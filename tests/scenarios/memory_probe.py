"""Reported and actual memory of a tracker, run in a separate process, which prints both in bytes.

    python -m tests.scenarios.memory_probe SHAPE

SHAPE is one of SHAPES.
"""

import ctypes
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effect_results import SnapshotStored
from delayed_tracker.core.engine.effects import LoadSegments, StoreSnapshot
from delayed_tracker.core.rules.seal import SealedIndexes, seal
from delayed_tracker.core.values.columns import Int64Array, index_columns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits

NOW_MS = 1_700_000_000_000
NOW = Instant(NOW_MS, 0)
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
COUNT = 1_000_000
BATCH = 1_000
BUCKET = 50_000


def resident_bytes() -> int:
    """Return the memory of the process, without freed memory that the allocator keeps."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Filled:
    """A tracker with positions of a week: ledgers of so many entries, every other entry delayed."""

    def __init__(self, count: int, *, per_ledger: int = BUCKET, batch: int = BATCH, **limits: object) -> None:
        defaults = {"mutable_indexes_max": 2 * COUNT, "loaded_indexes_max": 2 * COUNT, "load_indexes_max": COUNT}
        self.core = TrackerCore(TrackerLimits(**{**defaults, **limits}))  # type: ignore[arg-type]
        self.count = count
        self.now_ms = NOW_MS
        draw = np.random.default_rng(7)
        for start in range(0, count, batch):
            rows = np.arange(start, start + batch)
            deadlines = NOW_MS + HOUR_MS + draw.integers(0, WEEK_MS, batch)
            self.core.add(index_columns(deadlines, rows // per_ledger, 2 * (rows % per_ledger)), NOW)
            self.perform()

    def perform(self) -> None:
        """Store snapshots without keeping them, as if on a disk."""
        for effect in self.core.take_effects():
            assert not isinstance(effect, LoadSegments)
            if isinstance(effect, StoreSnapshot):
                sealed: SealedIndexes = seal(effect.frozen)
                self.core.apply(SnapshotStored(effect.effect_id, effect.effect_id, sealed, snapshot_bytes=1), NOW)

    def seal(self) -> "Filled":
        self.core.seal_mutable_bucket(NOW)
        self.perform()
        return self

    def take_half(self, *, lease_ms: int = 0) -> "Filled":
        """Take the first half of the week, a thousand positions at a time."""
        self.now_ms = NOW_MS + HOUR_MS + WEEK_MS // 2
        while len(self.core.pop_due(BATCH, Instant(self.now_ms, 0), lease_ms=lease_ms).indexes):
            self.perform()
        return self

    def cancel_half(self) -> "Filled":
        """Cancel every other position of each ledger, in memory or not."""
        rows: Int64Array = np.arange(0, self.count, 2)
        for part in np.array_split(rows, 500):
            columns = index_columns(part, part // BUCKET, 2 * (part % BUCKET))
            self.core.cancel(columns.positions, NOW)
        return self


EVERYTHING_NEAR = {"prefetch_window_ms": 2 * WEEK_MS}
IN_MEMORY = {"kind": TrackerKind.IN_MEMORY}

SHAPES: dict[str, Callable[[int], Filled]] = {
    "bucket, all in the mutable one": lambda n: Filled(n, min_index_count_per_bucket=2 * COUNT),
    "bucket, sealed and not loaded": lambda n: Filled(n).seal(),
    "bucket, sealed and loaded": lambda n: Filled(n, **EVERYTHING_NEAR).seal(),
    "bucket, 20 to a ledger": lambda n: Filled(n, per_ledger=20).seal(),
    "bucket, loaded and half drained": lambda n: Filled(n, **EVERYTHING_NEAR).seal().take_half(),
    "bucket, not loaded and half cancelled": lambda n: Filled(n).seal().cancel_half(),
    "in-memory": lambda n: Filled(n, **IN_MEMORY),
    "in-memory, 20 to a ledger": lambda n: Filled(n, per_ledger=20, **IN_MEMORY),
    "in-memory, ten at a time": lambda n: Filled(n // 5, batch=10, **IN_MEMORY),
    "in-memory, half drained": lambda n: Filled(n, **IN_MEMORY).take_half(),
    "in-memory, half leased": lambda n: Filled(n, **IN_MEMORY).take_half(lease_ms=HOUR_MS),
}


if __name__ == "__main__":
    make = SHAPES[sys.argv[1]]
    make(COUNT // 10)  # allocate once what does not depend on the size
    before = resident_bytes()
    filled = make(COUNT)
    measured = resident_bytes() - before
    print(filled.core.stats().memory_bytes, measured)
