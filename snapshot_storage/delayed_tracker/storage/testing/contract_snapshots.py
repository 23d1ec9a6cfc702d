"""Checks of the contract for snapshots."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import SnapshotNotFound
from delayed_tracker.storage.protocol import StoredSnapshot
from delayed_tracker.storage.testing.contract_tools import (
    Check,
    StorageFactory,
    create,
    create_slowly,
    expect,
    expect_gone,
    require_equal,
    started,
)


async def a_snapshot_comes_back_as_it_went_in(factory: StorageFactory) -> None:
    """Metadata, each segment and the length are returned as stored, empty and large entries included."""
    segments = [b"first", b"", bytes(range(256)) * 4_096, b"\x00\xff"]
    async with started(factory, "round-trip") as store:
        bucket_id = await create(store, segments, metadata=b"about")
        require_equal(await store.get_bucket_snapshot_metadata(bucket_id), b"about", "metadata")
        require_equal(await store.get_bucket_snapshot_segments(bucket_id, 1, 4), segments, "segments")
        require_equal(await store.get_bucket_snapshot_length(bucket_id), 5 + sum(map(len, segments)), "length")


async def a_range_of_segments_includes_both_ends(factory: StorageFactory) -> None:
    """Segments count from 1, and any range inside the snapshot is returned in order."""
    async with started(factory, "ranges") as store:
        bucket_id = await create(store, [b"1", b"2", b"3"])
        for first in (1, 2, 3):
            for last in range(first, 4):
                found = await store.get_bucket_snapshot_segments(bucket_id, first, last)
                require_equal(
                    found, [b"%d" % number for number in range(first, last + 1)], f"segments {first} to {last}"
                )


async def a_range_that_is_none_is_refused(factory: StorageFactory) -> None:
    """A range that begins before 1 or ends before it begins raises InvalidInput."""
    async with started(factory, "bad-ranges") as store:
        bucket_id = await create(store, [b"1", b"2"])
        for first, last in ((0, 1), (-1, 1), (2, 1)):
            with expect(InvalidInput, f"segments {first} to {last}"):
                await store.get_bucket_snapshot_segments(bucket_id, first, last)


async def a_range_beyond_the_end_is_not_found(factory: StorageFactory) -> None:
    """A range beyond the end fails: a short list would be taken for the whole."""
    async with started(factory, "short-ranges") as store:
        bucket_id = await create(store, [b"1", b"2"])
        empty_id = await create(store, [])
        for asked_id, first, last in ((bucket_id, 2, 3), (bucket_id, 3, 3), (empty_id, 1, 1)):
            with expect(SnapshotNotFound, f"segments {first} to {last}"):
                await store.get_bucket_snapshot_segments(asked_id, first, last)


async def what_was_never_stored_is_not_found(factory: StorageFactory) -> None:
    """Every read of an unknown bucket id raises SnapshotNotFound, whatever the number."""
    async with started(factory, "unknown") as store:
        for bucket_id in (1, 999_999, INT63_MAX, -1, 0):
            await expect_gone(store, bucket_id)


async def deleting_succeeds_again_and_again(factory: StorageFactory) -> None:
    """A deleted snapshot is gone from reads and listing; deleting it again, or one that never existed, succeeds."""
    async with started(factory, "delete") as store:
        gone, kept = await create(store, [b"1"]), await create(store, [b"2"])
        for bucket_id in (gone, gone, 999_999, INT63_MAX):
            await store.delete_bucket_snapshot(bucket_id)
        await expect_gone(store, gone)
        require_equal(await store.get_bucket_snapshot_segments(kept, 1, 1), [b"2"], "the other snapshot")
        require_equal(await store.list_bucket_snapshots("topic", "cursor"), [StoredSnapshot(kept, 1)], "listing")


async def bucket_ids_are_never_used_again(factory: StorageFactory) -> None:
    """A bucket id is not used again, after a delete or a restart: a late reader must not find another bucket."""
    used: list[int] = []
    for _ in range(3):
        async with started(factory, "ids") as store:
            for _ in range(2):
                used.append(await create(store, [b"1"]))
                await store.delete_bucket_snapshot(used[-1])
    require_equal(len(set(used)), len(used), f"distinct ids among {used}")


async def a_create_that_fails_midway_leaves_nothing(factory: StorageFactory) -> None:
    """An error of the segments' source reaches the caller unchanged, and no part of the snapshot stays."""

    async def broken() -> AsyncIterator[bytes]:
        for number in range(100):
            yield bytes([number]) * 1_000
        raise LookupError("the source of segments broke")

    async with started(factory, "broken-create") as store:
        with expect(LookupError, "a create whose segments break off"):
            await store.create_bucket_snapshot(
                b"m", broken(), bucket_key="key", topic="topic", cursor="cursor", epoch=1
            )
        require_equal(await store.list_bucket_snapshots("topic", "cursor"), [], "listing")
        await create(store, [b"still usable"])


async def a_snapshot_is_invisible_until_it_is_whole(factory: StorageFactory) -> None:
    """While segments are still arriving the listing is empty, and other operations proceed."""
    async with started(factory, "invisible") as store:
        reached, go_on = asyncio.Event(), asyncio.Event()
        creating = asyncio.create_task(create_slowly(store, reached, go_on))
        await reached.wait()
        require_equal(await store.list_bucket_snapshots("topic", "cursor"), [], "listing before the last segment")
        other = await create(store, [b"meanwhile"], topic="other")
        go_on.set()
        bucket_id = await creating
        require_equal(await store.list_bucket_snapshots("topic", "cursor"), [StoredSnapshot(bucket_id, 1)], "listing")
        require_equal(await store.get_bucket_snapshot_segments(other, 1, 1), [b"meanwhile"], "the other snapshot")


async def a_cancelled_create_leaves_nothing(factory: StorageFactory) -> None:
    """A create that is cancelled while segments arrive leaves nothing behind, and the storage still works."""
    async with started(factory, "cancelled") as store:
        reached = asyncio.Event()
        creating = asyncio.create_task(create_slowly(store, reached, asyncio.Event()))
        await reached.wait()
        creating.cancel()
        with expect(asyncio.CancelledError, "a cancelled create"):
            await creating
        require_equal(await store.list_bucket_snapshots("topic", "cursor"), [], "listing")
        await create(store, [b"still usable"])


async def a_create_cancelled_at_any_step_is_all_or_nothing(factory: StorageFactory) -> None:
    """A listed snapshot is whole however far the create came, and a create that was cancelled is not listed."""
    async with started(factory, "cancelled-anywhere") as store:
        for turns in range(12):
            topic = f"topic {turns}"
            creating = asyncio.create_task(create(store, [b"1", b"2"], topic=topic))
            for _ in range(turns):
                await asyncio.sleep(0)
            creating.cancel()
            outcomes = await asyncio.gather(creating, return_exceptions=True)
            listed = await store.list_bucket_snapshots(topic, "cursor")
            if isinstance(outcomes[0], int):
                require_equal(listed, [StoredSnapshot(outcomes[0], 1)], f"listing after {turns} turns")
                require_equal(await store.get_bucket_snapshot_segments(outcomes[0], 1, 2), [b"1", b"2"], "segments")
            else:
                require_equal(listed, [], f"listing after a cancellation at turn {turns}")


async def listings_are_ordered_and_apart(factory: StorageFactory) -> None:
    """Each (topic, cursor) lists its own snapshots, ascending by id, with the epochs they were created under."""
    async with started(factory, "listing") as store:
        expected: dict[tuple[str, str], list[StoredSnapshot]] = {}
        for epoch in (3, 1, 2):
            for tracker in (("a", "bc"), ("ab", "c"), ("a", "c")):
                bucket_id = await create(store, [b"1"], topic=tracker[0], cursor=tracker[1], epoch=epoch)
                expected.setdefault(tracker, []).append(StoredSnapshot(bucket_id, epoch))
        for (topic, cursor), snapshots in expected.items():
            found = await store.list_bucket_snapshots(topic, cursor)
            require_equal(
                found, sorted(snapshots, key=lambda snapshot: snapshot.bucket_id), f"listing of {topic}, {cursor}"
            )
        require_equal(await store.list_bucket_snapshots("abc", ""), [], "listing of an unknown tracker")


async def many_small_segments_stay_in_order(factory: StorageFactory) -> None:
    """Thousands of small segments, as in a bucket of a week, are all returned in order."""
    segments = [number.to_bytes(2, "big") * 20 for number in range(2_500)]
    async with started(factory, "many") as store:
        bucket_id = await create(store, segments)
        require_equal(await store.get_bucket_snapshot_segments(bucket_id, 1, 2_500), segments, "all segments")
        require_equal(
            await store.get_bucket_snapshot_segments(bucket_id, 1_200, 1_300), segments[1_199:1_300], "a range"
        )


async def concurrent_creates_do_not_mix(factory: StorageFactory) -> None:
    """Snapshots created at the same time have their own ids and contents."""
    async with started(factory, "concurrent") as store:
        contents = [[b"%d/%d" % (number, place) * 500 for place in range(20)] for number in range(10)]
        bucket_ids = await asyncio.gather(*(create(store, content) for content in contents))
        require_equal(len(set(bucket_ids)), 10, "distinct ids")
        for bucket_id, content in zip(bucket_ids, contents, strict=True):
            require_equal(
                await store.get_bucket_snapshot_segments(bucket_id, 1, 20), content, f"segments of {bucket_id}"
            )


async def what_is_handed_out_belongs_to_the_caller(factory: StorageFactory) -> None:
    """Changing a returned value changes nothing in the storage, and entries are plain bytes."""
    async with started(factory, "ownership") as store:
        bucket_id = await create(store, [b"1", b"2"])
        found = await store.get_bucket_snapshot_segments(bucket_id, 1, 2)
        require_equal([type(entry) for entry in found], [bytes, bytes], "types")
        found.clear()
        listed = await store.list_bucket_snapshots("topic", "cursor")
        listed.clear()
        require_equal(await store.get_bucket_snapshot_segments(bucket_id, 1, 2), [b"1", b"2"], "segments")
        require_equal(await store.list_bucket_snapshots("topic", "cursor"), [StoredSnapshot(bucket_id, 1)], "listing")


SNAPSHOT_CHECKS: Final[tuple[Check, ...]] = (
    a_snapshot_comes_back_as_it_went_in,
    a_range_of_segments_includes_both_ends,
    a_range_that_is_none_is_refused,
    a_range_beyond_the_end_is_not_found,
    what_was_never_stored_is_not_found,
    deleting_succeeds_again_and_again,
    bucket_ids_are_never_used_again,
    a_create_that_fails_midway_leaves_nothing,
    a_snapshot_is_invisible_until_it_is_whole,
    a_cancelled_create_leaves_nothing,
    a_create_cancelled_at_any_step_is_all_or_nothing,
    listings_are_ordered_and_apart,
    many_small_segments_stay_in_order,
    concurrent_creates_do_not_mix,
    what_is_handed_out_belongs_to_the_caller,
)
"""Checks in the order in which a backend is usually built."""
