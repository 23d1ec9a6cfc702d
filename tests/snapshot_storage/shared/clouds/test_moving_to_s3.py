"""A copy into S3 that is killed with -9 at each of its named points, and goes on; then a copy back."""

import asyncio
import os
import sys

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.maintenance.checking import check_storage
from delayed_tracker.storage.maintenance.copying import copy_storage
from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.maintenance.sizes import measure_storage
from delayed_tracker.storage.protocol import LogMark
from tests.repository.project_tree import ROOT
from tests.snapshot_storage.shared.maintenance.stores import KEY, add_bucket, content, ignore, marked

OTHER = ("persistent://t/ns/orders", "audit")
# The last two are reached once a run, the others with each snapshot or tracker.
KILLS = [
    ("copy.begun", 1), ("snapshot.created", 2), ("snapshot.published", 2), ("tracker.snapshots", 1),
    ("tracker.log", 1), ("tracker.committed", 1), ("copy.verified", 1),
]  # fmt: skip


async def run(source: str, target: str, point: str, time: int) -> int:
    """Copy in another process, which kills itself at a point; return its status."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.snapshot_storage.shared.maintenance.copy_worker", source, target, point, str(time),
        cwd=ROOT,
        env=dict(os.environ),
    )  # fmt: skip
    return await process.wait()


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_copy_that_is_killed_at_each_point_is_completed(s3, place, tmp_path):
    """No published snapshot is copied again, and in the end everything is there, once."""
    source, target = f"sqlite:{tmp_path / 'a.db'}", f"s3:{s3.rest(place)}"
    async with opened_storage("--to", source, creates=True) as made:
        for ledger in range(1, 7):
            await add_bucket(made.snapshots, ledger, 500, seal=ledger)
        await add_bucket(made.snapshots, 1, 500, key=OTHER)
        await marked(made.snapshots, LogMark(0, Position(3, 8)))
        before = [await content(made.snapshots, key) for key in (KEY, OTHER)]
    stored: set[int] = set()
    for point, time in KILLS:
        assert await run(source, target, point, time) == -9
        async with opened_storage("--to", target) as there:
            named = {entry.bucket_id for key in (KEY, OTHER) for entry in (await there.snapshots.list(*key)).entries}
        assert stored <= named, "what was published stays"
        stored = named
    assert len(stored) == 7
    async with opened_storage("--from", source) as one, opened_storage("--to", target) as other:
        counts = await copy_storage(one, other, progress=ignore)
        assert (counts.snapshot_count, counts.kept_snapshot_count, counts.complete_before_count) == (0, 7, 2)
        assert [await content(other.snapshots, key) for key in (KEY, OTHER)] == before
        assert (await check_storage(other.snapshots, progress=ignore)).is_sound
        assert [size.snapshot_count for size in await measure_storage(other, progress=ignore)] == [1, 6]
    back = f"sqlite:{tmp_path / 'b.db'}"
    async with opened_storage("--from", target) as one, opened_storage("--to", back, creates=True) as other:
        await copy_storage(one, other, progress=ignore)
        assert [await content(other.snapshots, key) for key in (KEY, OTHER)] == before
