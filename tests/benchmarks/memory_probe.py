"""What a million pending indexes take: run in a process of its own, prints bytes of resident memory above the start.

python -m tests.benchmarks.memory_probe unloaded|loaded|heap_and_dict
"""

import ctypes
import gc
import os
import sys
from pathlib import Path

import numpy as np

from tests.benchmarks.heap_and_dict import HeapAndDict
from tracker.core.columns import IndexColumns, index_columns
from tracker.core.core import TrackerCore
from tracker.core.effects import StoreSnapshot
from tracker.core.limits import TrackerLimits
from tracker.core.seal import seal

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
BUCKET = 50_000


def resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def bucket(number: int) -> IndexColumns:
    """A ledger of delayed messages, every other entry, over a week."""
    deadlines = NOW_MS + HOUR_MS + np.random.default_rng(number).integers(0, WEEK_MS, BUCKET)
    return index_columns(deadlines, np.full(BUCKET, number), 2 * np.arange(BUCKET))


def fill(core: TrackerCore, buckets: int) -> None:
    """Seal and "store" buckets; the stored bytes are on a disk, so nothing keeps them here."""
    for number in range(buckets):
        core.add(bucket(number), NOW_MS)
        core.seal_now(NOW_MS)
        for effect in core.take_effects():
            if isinstance(effect, StoreSnapshot):
                sealed = seal(effect.frozen)
                core.snapshot_stored(effect.effect_id, number, sealed, snapshot_bytes=1, now_ms=NOW_MS)


def measure(shape: str, buckets: int) -> int:
    """Bytes above the start with this many buckets tracked."""
    before = resident_bytes()
    if shape == "heap_and_dict":
        peer = HeapAndDict()
        for number in range(buckets):
            peer.add(list(bucket(number)), NOW_MS)
        assert len(peer) == buckets * BUCKET
        return resident_bytes() - before
    window_ms = 2 * WEEK_MS if shape == "loaded" else TrackerLimits().prefetch_window_ms
    everything = buckets * BUCKET
    core = TrackerCore(
        TrackerLimits(prefetch_window_ms=window_ms, load_indexes_max=everything, loaded_indexes_max=2 * everything)
    )
    fill(core, buckets)
    stats = core.stats()
    assert stats.pending_count == everything
    assert stats.loaded_count == (everything if shape == "loaded" else 0)
    return resident_bytes() - before


if __name__ == "__main__":
    measure(sys.argv[1], 1)  # what is allocated once, whatever the size
    print(measure(sys.argv[1], 20))
