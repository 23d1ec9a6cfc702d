"""With a million pending on disk, opening reads and keeps only what the prefetch window needs, in groups of segments."""

import gc
import tracemalloc

import numpy as np
import pytest

from delayed_tracker.core.values.columns import index_columns
from delayed_tracker.core.values.limits import GROUPS_MAX, TrackerLimits
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.storage.registry import open_storage
from tests.service.harness.shell import KEY, ControlledStorage, elapse, make_registry, settle

PENDING = 1_000_000
LEDGER_ENTRIES = 50_000
WINDOW_MS = 300_000
SEVEN_DAYS_MS = 7 * 86_400_000


class MeteredStorage(ControlledStorage):
    """Storage that counts reads, in calls and in bytes."""

    read_bytes = 0

    def __getattr__(self, name):
        operation = super().__getattr__(name)

        async def metered(*args, **kwargs):
            answer = await operation(*args, **kwargs)
            if name == "get_bucket_snapshot_segments":
                self.read_bytes += sum(map(len, answer))
            return answer

        return metered


async def _fill(path, clock: ManualClock) -> int:
    """Store a million indexes over seven days, a bucket for each ledger; return the number due within the window."""
    registry = make_registry(open_storage(f"sqlite:{path}"), clock, limits=TrackerLimits(strict=True))
    await registry.start()
    opened = await registry.open(KEY, owner="test", mark_delete=None)
    host = registry.host(KEY)
    delays = np.random.default_rng(195).integers(WINDOW_MS // 2, SEVEN_DAYS_MS, PENDING)
    entries = np.arange(PENDING)
    now_ms = clock.now_ms()
    for part in np.array_split(entries, 100):
        host.add(opened.epoch, index_columns(now_ms + delays[part], part // LEDGER_ENTRIES, part % LEDGER_ENTRIES))
    host.add(opened.epoch, index_columns([now_ms + SEVEN_DAYS_MS], [PENDING], [0]))
    await registry.close_tracker(KEY, opened.epoch)
    await registry.close()
    return int((delays <= 2 * WINDOW_MS).sum())


@pytest.mark.slow
async def test_opening_a_million_reads_and_keeps_what_is_nearly_due(tmp_path) -> None:
    """Opening reads one range per bucket: rows of at most two windows, or one group of segments each.

    Memory has bits, bounds of groups, and those rows.
    """
    clock = ManualClock()
    near_count = await _fill(tmp_path / "tracker.db", clock)
    gc.collect()

    storage = MeteredStorage(open_storage(f"sqlite:{tmp_path}/tracker.db"))
    registry = make_registry(storage, clock, limits=TrackerLimits(strict=True))
    await registry.start()
    tracemalloc.start()
    opened = await registry.open(KEY, owner="test", mark_delete=None)
    while registry.host(KEY).stats().loaded_count == 0 or registry.host(KEY)._gate.runner.in_flight_count:
        await settle()
    gc.collect()
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    host = registry.host(KEY)
    stats = host.stats()
    assert opened.recovered_count == stats.pending_count == PENDING
    assert storage.calls.count("get_bucket_snapshot_metadata") == 0, "the catalogue tells enough"
    assert storage.calls.count("get_bucket_snapshot_segments") <= PENDING // LEDGER_ENTRIES
    buckets = PENDING // LEDGER_ENTRIES
    read_count = near_count + buckets * LEDGER_ENTRIES // (GROUPS_MAX - 10)
    assert 0 < stats.loaded_count <= read_count
    row_bytes = 20
    assert storage.read_bytes <= read_count * row_bytes
    bounds_bytes = buckets * GROUPS_MAX * 3 * 8
    assert kept_bytes <= bounds_bytes + read_count * 3 * 8 + 2_000_000
    assert stats.membership_bytes <= PENDING // 8

    # Nothing more is read until the next deadlines are near.
    calls = len(storage.calls)
    await elapse(clock, 1_000)
    assert len(storage.calls) - calls <= PENDING // LEDGER_ENTRIES
    await registry.close()
