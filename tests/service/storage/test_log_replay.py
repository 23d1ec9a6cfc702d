"""Memory of a recovery while it applies the add log."""

from dataclasses import replace

import pytest

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.changes import Added
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.service.storage import log_replay
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.registry_life import FAR_MS, open_tracker, restarted
from tests.service.harness.shell import KEY, TINY, make_registry


async def test_rows_of_a_page_are_applied_before_there_are_many(storage, clock, monkeypatch: pytest.MonkeyPatch):
    """A page of tiny records may have millions of rows: not all of them are decoded together."""
    applied = []

    def replay(core, numbers, changes):
        applied.append(sum(len(change.indexes) for change in changes if isinstance(change, Added)))
        replayed(core, numbers, changes)

    replayed = TrackerCore.replay
    monkeypatch.setattr(TrackerCore, "replay", replay)
    monkeypatch.setattr(log_replay, "ROWS_AT_ONCE", 25, raising=False)
    log = MemoryAddLog()
    limits = replace(TINY, min_index_count_per_bucket=10**6, mutable_indexes_max=10**6)
    registry = make_registry(storage, clock, limits=limits, add_log=log)
    await registry.start()
    host, opened = await open_tracker(registry)
    due_ms = clock.now_ms() + FAR_MS
    for start in range(0, 40, 4):
        host.add(opened.epoch, IndexColumns.of([(due_ms, 1, entry) for entry in range(start, start + 4)]))
    host.cancel(opened.epoch, IndexColumns.of([(due_ms, 1, 0)]).positions)
    await host.until_durable()
    assert len((await log.read(*KEY, after=0, bytes_max=log_replay.PAGE_BYTES)).records) == 11
    again = await restarted(registry, storage, clock, limits=limits, add_log=log, seed=1)
    host, opened = await open_tracker(again)
    assert (applied, opened.recovered_count) == ([28, 12], 39)
    await again.close()
