"""Faults happen as planned: seeded, limited to a topic, before or after the operation."""

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import SnapshotNotFound, StorageUnavailable
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage, open_faulty, parse_fault_plan
from tests.snapshot_storage.sqlite.sqlite_files import create, each


async def test_an_error_before_does_nothing_and_one_after_does_everything():
    """Both errors are the same for the caller, but only the second one leaves its effect in the storage."""
    inner = MemoryStorage()
    await inner.start()
    storage = FaultyStorage(inner, FaultPlan(error_before=1.0))
    with pytest.raises(StorageUnavailable, match="nothing was done"):
        await create(storage, [b"1"])
    assert await inner.list_bucket_snapshots("t", "c") == []
    storage.plan = FaultPlan(error_after=1.0)
    with pytest.raises(StorageUnavailable, match="done nevertheless"):
        await create(storage, [b"1"])
    assert len(await inner.list_bucket_snapshots("t", "c")) == 1


async def test_a_torn_write_leaves_a_part_behind_and_fails():
    """The part is listed as a snapshot and never catalogued; the sweep has to delete it."""
    inner = MemoryStorage()
    storage = FaultyStorage(inner, FaultPlan(torn=1.0, seed=1))
    await storage.start()
    with pytest.raises(StorageUnavailable, match=r"\d of 3 segments"):
        await create(storage, [b"1", b"2", b"3"])
    (torn,) = await inner.list_bucket_snapshots("t", "c")
    with pytest.raises(SnapshotNotFound):
        await storage.get_bucket_snapshot_segments(torn.bucket_id, 1, 3)
    storage.plan = FaultPlan()
    whole = await create(storage, [b"1", b"2", b"3"])
    assert len(await storage.get_bucket_snapshot_segments(whole, 1, 3)) == 3


async def _fates(plan: FaultPlan) -> list[str]:
    storage = FaultyStorage(MemoryStorage(), plan)
    await storage.start()
    fates = []
    for _ in range(200):
        try:
            await storage.trackers()
        except StorageUnavailable as error:
            fates.append("after" if "nevertheless" in error.message else "before")
        else:
            fates.append("well")
    return fates


async def test_a_seed_replays_its_faults():
    """The same plan gives the same faults, another seed others, and their share is about as planned."""
    plan = FaultPlan(error_before=0.2, error_after=0.1, seed=1)
    fates = await _fates(plan)
    assert fates == await _fates(plan)
    assert fates != await _fates(FaultPlan(error_before=0.2, error_after=0.1, seed=2))
    assert 20 < fates.count("before") < 60
    assert 5 < fates.count("after") < 40
    only_before = await _fates(FaultPlan(error_before=0.2, seed=1))
    assert [fate == "before" for fate in only_before] == [fate == "before" for fate in fates]


async def test_only_the_topic_of_the_plan_is_slow():
    """A read by bucket id counts for the topic under which the snapshot was created or listed."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    inner = MemoryStorage()
    storage = FaultyStorage(inner, FaultPlan(latency_ms=30_000, topic="slow"), sleep=sleep)
    await storage.start()
    quick = await create(storage, [b"1"], topic="quick")
    await storage.get_bucket_snapshot_segments(quick, 1, 1)
    await storage.list("quick", "c")
    assert waits == []
    slow = await create(storage, [b"1"], topic="slow")
    await storage.get_bucket_snapshot_metadata(slow)
    assert waits == [30.0, 30.0]
    # A restarted process gets the topic of a snapshot from the listing.
    again = FaultyStorage(inner, storage.plan, sleep=sleep)
    await again.get_bucket_snapshot_length(slow)
    assert len(waits) == 2
    await again.list_bucket_snapshots("slow", "c")
    await again.get_bucket_snapshot_length(slow)
    assert len(waits) == 4


def test_options_of_a_url():
    """Every option is parsed and values are percent-decoded."""
    plan = parse_fault_plan(
        "exit=create.after:3,error_before=0.25,error_after=1,torn=0.5,latency_ms=5,seed=7,topic=persistent%3A//t/n/a%2Cb%3B"
    )
    assert plan == FaultPlan(0.25, 1.0, 0.5, 5, 7, "persistent://t/n/a,b;", "create.after", 3)
    assert parse_fault_plan("") == FaultPlan()
    assert parse_fault_plan("exit=create.chunk") == FaultPlan(exit_point="create.chunk")


@pytest.mark.parametrize(
    ("rest", "remedy"),
    [
        ("seed=1", "write faulty:OPTIONS;URL"),
        ("seed=x;memory:", "'seed=x'"),
        ("speed=1;memory:", "'speed=1'"),
        ("exit=lunch;memory:", "'lunch'"),
        ("exit=create.after:0;memory:", "count from 1"),
        ("error_before=2;memory:", "error_before: 2.0"),
        ("error_after=nan;memory:", "error_after: nan"),
        ("torn=1.5;memory:", "torn: 1.5"),
        ("latency_ms=-1;memory:", "latency_ms: -1"),
    ],
)
def test_malformed_urls_are_named(rest, remedy):
    """The message shows the option, or the form of a URL."""
    with pytest.raises(InvalidInput, match=remedy):
        open_faulty(rest)


async def test_the_wrapped_storage_is_what_the_url_names(tmp_path):
    """The swept count of the wrapped storage is returned, and its own points are passed on."""
    path = tmp_path / "db"
    storage = open_faulty(f"seed=1;sqlite:{path}")
    inner = storage.inner
    assert isinstance(inner, SqliteStorage)
    await storage.start()
    assert storage.swept_count == 0
    assert await storage.create_bucket_snapshot(b"m", each([b"1"]), bucket_key="k", topic="t", cursor="c", epoch=1)
    await storage.close()
    assert path.exists()
