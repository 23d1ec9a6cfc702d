"""The contract of a storage backend, as checks that anybody can run over a backend of their own.

One call runs them all::

    async def test_contract(tmp_path):
        await check_snapshot_storage(lambda name: MyStorage(tmp_path / name))

or parametrise a test over ``CONTRACT_CHECKS``, to see each by its name. Every check opens storages of its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final

from snapshot_storage.errors import SnapshotConflict, SnapshotNotFound, StorageUnavailable
from snapshot_storage.protocol import CatalogueEntry, CatalogueState, SnapshotStore, StoredSnapshot
from tracker.core.columns import ENTRY_ID_MAX, INT63_MAX, Position
from tracker.core.errors import InvalidInput

StorageFactory = Callable[[str], SnapshotStore]
"""Opens the storage of a name, without starting it: the same name has the same content, a new name is empty."""

Check = Callable[[StorageFactory], Awaitable[None]]

ODD_NAMES: Final = (
    "persistent://public/default/orders",
    "a b",
    "a%20b",
    "a/b",
    "ä/ñ/日本語/🕰",
    "'; DROP TABLE snapshots; --",
    "null\x00inside",
    "x" * 250,
)


class ContractViolation(AssertionError):
    """The backend does not do what the protocol says."""


async def check_snapshot_storage(factory: StorageFactory) -> None:
    """Run every check, one after the other.

    Raises:
        ContractViolation: by the first check that fails; the message begins with its name.
    """
    for check in CONTRACT_CHECKS:
        try:
            await check(factory)
        except ContractViolation as violation:
            raise ContractViolation(f"{check.__name__}: {violation}") from violation


# --- snapshots ---


async def a_snapshot_comes_back_as_it_went_in(factory: StorageFactory) -> None:
    """Metadata, each segment and the length are those that were stored, empty and large entries included."""
    segments = [b"first", b"", bytes(range(256)) * 4_096, b"\x00\xff"]
    async with _started(factory, "round-trip") as store:
        bucket_id = await _create(store, segments, metadata=b"about")
        _equal(await store.get_bucket_snapshot_metadata(bucket_id), b"about", "metadata")
        _equal(await store.get_bucket_snapshot_segments(bucket_id, 1, 4), segments, "segments")
        _equal(await store.get_bucket_snapshot_length(bucket_id), 5 + sum(map(len, segments)), "length")


async def a_range_of_segments_includes_both_ends(factory: StorageFactory) -> None:
    """Segments count from 1, and any range inside the snapshot is answered in order."""
    async with _started(factory, "ranges") as store:
        bucket_id = await _create(store, [b"1", b"2", b"3"])
        for first in (1, 2, 3):
            for last in range(first, 4):
                found = await store.get_bucket_snapshot_segments(bucket_id, first, last)
                _equal(found, [b"%d" % number for number in range(first, last + 1)], f"segments {first} to {last}")


async def a_range_that_is_none_is_refused(factory: StorageFactory) -> None:
    """A range that begins before 1 or ends before it begins is the caller's mistake."""
    async with _started(factory, "bad-ranges") as store:
        bucket_id = await _create(store, [b"1", b"2"])
        for first, last in ((0, 1), (-1, 1), (2, 1)):
            with _expect(InvalidInput, f"segments {first} to {last}"):
                await store.get_bucket_snapshot_segments(bucket_id, first, last)


async def a_range_beyond_the_end_is_not_found(factory: StorageFactory) -> None:
    """A short answer would be taken for the whole: asking for more than there is must fail."""
    async with _started(factory, "short-ranges") as store:
        bucket_id = await _create(store, [b"1", b"2"])
        empty_id = await _create(store, [])
        for asked_id, first, last in ((bucket_id, 2, 3), (bucket_id, 3, 3), (empty_id, 1, 1)):
            with _expect(SnapshotNotFound, f"segments {first} to {last}"):
                await store.get_bucket_snapshot_segments(asked_id, first, last)


async def what_was_never_stored_is_not_found(factory: StorageFactory) -> None:
    """An unknown bucket id is SnapshotNotFound for every read, whatever the number."""
    async with _started(factory, "unknown") as store:
        for bucket_id in (1, 999_999, INT63_MAX, -1, 0):
            await _expect_gone(store, bucket_id)


async def deleting_succeeds_again_and_again(factory: StorageFactory) -> None:
    """A deleted snapshot is gone from reads and listing; deleting it again, or what never was, succeeds."""
    async with _started(factory, "delete") as store:
        gone, kept = await _create(store, [b"1"]), await _create(store, [b"2"])
        for bucket_id in (gone, gone, 999_999, INT63_MAX):
            await store.delete_bucket_snapshot(bucket_id)
        await _expect_gone(store, gone)
        _equal(await store.get_bucket_snapshot_segments(kept, 1, 1), [b"2"], "the other snapshot")
        _equal(await store.list_bucket_snapshots("topic", "cursor"), [StoredSnapshot(kept, 1)], "listing")


async def bucket_ids_are_never_used_again(factory: StorageFactory) -> None:
    """Not after a delete, nor after opening again: a late reader must not find another bucket under an old id."""
    used: list[int] = []
    for _ in range(3):
        async with _started(factory, "ids") as store:
            for _ in range(2):
                used.append(await _create(store, [b"1"]))
                await store.delete_bucket_snapshot(used[-1])
    _equal(len(set(used)), len(used), f"distinct ids among {used}")


async def a_create_that_fails_midway_leaves_nothing(factory: StorageFactory) -> None:
    """An error of the segments' source reaches the caller as it is, and no part of the snapshot stays."""

    async def broken() -> AsyncIterator[bytes]:
        for number in range(100):
            yield bytes([number]) * 1_000
        raise LookupError("the source of segments broke")

    async with _started(factory, "broken-create") as store:
        with _expect(LookupError, "a create whose segments break off"):
            await store.create_bucket_snapshot(
                b"m", broken(), bucket_key="key", topic="topic", cursor="cursor", epoch=1
            )
        _equal(await store.list_bucket_snapshots("topic", "cursor"), [], "listing")
        await _create(store, [b"still usable"])


async def a_snapshot_is_invisible_until_it_is_whole(factory: StorageFactory) -> None:
    """While segments are still coming the listing shows nothing, and other operations go on."""
    async with _started(factory, "invisible") as store:
        reached, go_on = asyncio.Event(), asyncio.Event()
        creating = asyncio.create_task(_create_slowly(store, reached, go_on))
        await reached.wait()
        _equal(await store.list_bucket_snapshots("topic", "cursor"), [], "listing before the last segment")
        other = await _create(store, [b"meanwhile"], topic="other")
        go_on.set()
        bucket_id = await creating
        _equal(await store.list_bucket_snapshots("topic", "cursor"), [StoredSnapshot(bucket_id, 1)], "listing")
        _equal(await store.get_bucket_snapshot_segments(other, 1, 1), [b"meanwhile"], "the other snapshot")


async def a_cancelled_create_leaves_nothing(factory: StorageFactory) -> None:
    """A create that is cancelled while segments are coming leaves nothing behind, and the storage goes on."""
    async with _started(factory, "cancelled") as store:
        reached = asyncio.Event()
        creating = asyncio.create_task(_create_slowly(store, reached, asyncio.Event()))
        await reached.wait()
        creating.cancel()
        with _expect(asyncio.CancelledError, "a cancelled create"):
            await creating
        _equal(await store.list_bucket_snapshots("topic", "cursor"), [], "listing")
        await _create(store, [b"still usable"])


async def a_create_cancelled_at_any_step_is_all_or_nothing(factory: StorageFactory) -> None:
    """However far it came: what is listed afterwards is whole, and nothing is listed after a cancellation took effect."""
    async with _started(factory, "cancelled-anywhere") as store:
        for turns in range(12):
            topic = f"topic {turns}"
            creating = asyncio.create_task(_create(store, [b"1", b"2"], topic=topic))
            for _ in range(turns):
                await asyncio.sleep(0)
            creating.cancel()
            outcomes = await asyncio.gather(creating, return_exceptions=True)
            listed = await store.list_bucket_snapshots(topic, "cursor")
            if isinstance(outcomes[0], int):
                _equal(listed, [StoredSnapshot(outcomes[0], 1)], f"listing after {turns} turns")
                _equal(await store.get_bucket_snapshot_segments(outcomes[0], 1, 2), [b"1", b"2"], "segments")
            else:
                _equal(listed, [], f"listing after a cancellation at turn {turns}")


async def listings_are_ordered_and_apart(factory: StorageFactory) -> None:
    """Each (topic, cursor) lists its own snapshots, ascending by id, with the epochs they were created under."""
    async with _started(factory, "listing") as store:
        expected: dict[tuple[str, str], list[StoredSnapshot]] = {}
        for epoch in (3, 1, 2):
            for tracker in (("a", "bc"), ("ab", "c"), ("a", "c")):
                bucket_id = await _create(store, [b"1"], topic=tracker[0], cursor=tracker[1], epoch=epoch)
                expected.setdefault(tracker, []).append(StoredSnapshot(bucket_id, epoch))
        for (topic, cursor), snapshots in expected.items():
            found = await store.list_bucket_snapshots(topic, cursor)
            _equal(found, sorted(snapshots, key=lambda snapshot: snapshot.bucket_id), f"listing of {topic}, {cursor}")
        _equal(await store.list_bucket_snapshots("abc", ""), [], "listing of an unknown tracker")


async def many_small_segments_stay_in_order(factory: StorageFactory) -> None:
    """A bucket of a week has thousands of segments; all come back in their places."""
    segments = [number.to_bytes(2, "big") * 20 for number in range(2_500)]
    async with _started(factory, "many") as store:
        bucket_id = await _create(store, segments)
        _equal(await store.get_bucket_snapshot_segments(bucket_id, 1, 2_500), segments, "all segments")
        _equal(await store.get_bucket_snapshot_segments(bucket_id, 1_200, 1_300), segments[1_199:1_300], "a range")


async def concurrent_creates_do_not_mix(factory: StorageFactory) -> None:
    """Snapshots created at the same time have ids and contents of their own."""
    async with _started(factory, "concurrent") as store:
        contents = [[b"%d/%d" % (number, place) * 500 for place in range(20)] for number in range(10)]
        bucket_ids = await asyncio.gather(*(_create(store, content) for content in contents))
        _equal(len(set(bucket_ids)), 10, "distinct ids")
        for bucket_id, content in zip(bucket_ids, contents, strict=True):
            _equal(await store.get_bucket_snapshot_segments(bucket_id, 1, 20), content, f"segments of {bucket_id}")


async def what_is_handed_out_belongs_to_the_caller(factory: StorageFactory) -> None:
    """Changing an answer changes nothing in the storage, and entries are plain bytes."""
    async with _started(factory, "ownership") as store:
        bucket_id = await _create(store, [b"1", b"2"])
        found = await store.get_bucket_snapshot_segments(bucket_id, 1, 2)
        _equal([type(entry) for entry in found], [bytes, bytes], "types")
        found.clear()
        listed = await store.list_bucket_snapshots("topic", "cursor")
        listed.clear()
        _equal(await store.get_bucket_snapshot_segments(bucket_id, 1, 2), [b"1", b"2"], "segments")
        _equal(await store.list_bucket_snapshots("topic", "cursor"), [StoredSnapshot(bucket_id, 1)], "listing")


# --- catalogue ---


async def an_unknown_tracker_has_an_empty_catalogue(factory: StorageFactory) -> None:
    """At epoch 0; asking does not make the tracker known."""
    async with _started(factory, "catalogue-empty") as store:
        _equal(await store.list("topic", "cursor"), CatalogueState(), "catalogue")
        _equal(await store.trackers(), [], "trackers")


async def a_catalogue_comes_back_in_order(factory: StorageFactory) -> None:
    """Every field survives, extremes included; entries ascend by (first, last, bucket id)."""
    entries = [
        CatalogueEntry(9, Position(1, 0), Position(1, 5), b"summary", b"consumed", Position(1, 3)),
        CatalogueEntry(2, Position(1, 0), Position(2, 0), b"", b"", Position(-1, -1)),
        CatalogueEntry(5, Position(3, 0), Position(4, 7), bytes(range(256)) * 1_000, b"\x00", None),
        CatalogueEntry(6, Position(3, 0), Position(4, 7)),
        CatalogueEntry(INT63_MAX, Position(INT63_MAX, ENTRY_ID_MAX), Position(INT63_MAX, ENTRY_ID_MAX)),
    ]
    async with _started(factory, "catalogue-order") as store:
        await store.replace("topic", "cursor", remove=[], add=entries[::-1], epoch=7)
        _equal(await store.list("topic", "cursor"), CatalogueState(7, tuple(entries)), "catalogue")
        _equal(await store.list("topic", "other"), CatalogueState(), "another tracker's catalogue")


async def a_replace_removes_before_it_adds(factory: StorageFactory) -> None:
    """Naming an id in both replaces its entry, adding a present one too; a repeated replace changes nothing."""
    async with _started(factory, "replace") as store:
        await store.replace("topic", "cursor", remove=[], add=[_entry(1), _entry(2), _entry(3)], epoch=1)
        changed = CatalogueEntry(2, Position(2, 0), Position(2, 9), consumed=b"some")
        for _ in range(2):
            await store.replace("topic", "cursor", remove=[1, 2, 99], add=[changed, _entry(4)], epoch=1)
            expected = CatalogueState(1, (changed, _entry(3), _entry(4)))
            _equal(await store.list("topic", "cursor"), expected, "catalogue")
        await store.replace("topic", "cursor", remove=[], add=[_entry(2)], epoch=1)
        expected = CatalogueState(1, (_entry(2), _entry(3), _entry(4)))
        _equal(await store.list("topic", "cursor"), expected, "catalogue")


async def an_older_epoch_is_fenced(factory: StorageFactory) -> None:
    """A writer of an older epoch is refused and changes nothing; the same epoch and newer ones are welcome."""
    async with _started(factory, "fence") as store:
        await store.replace("topic", "cursor", remove=[], add=[_entry(1)], epoch=5)
        before = await store.list("topic", "cursor")
        with _expect(SnapshotConflict, "a replace of an older epoch"):
            await store.replace("topic", "cursor", remove=[1], add=[_entry(2)], epoch=4)
        with _expect(SnapshotConflict, "a forget of an older epoch"):
            await store.forget("topic", "cursor", epoch=4)
        _equal(await store.list("topic", "cursor"), before, "catalogue after refused writes")
        await store.replace("topic", "cursor", remove=[], add=[], epoch=6)
        _equal(await store.list("topic", "cursor"), CatalogueState(6, (_entry(1),)), "catalogue after a bare fence")
        with _expect(SnapshotConflict, "a replace of the epoch before the fence"):
            await store.replace("topic", "cursor", remove=[], add=[_entry(2)], epoch=5)
        await store.replace("topic", "other", remove=[], add=[_entry(2)], epoch=1)


async def concurrent_replaces_all_count(factory: StorageFactory) -> None:
    """Replacing is atomic: no replace undoes another that ran at the same time."""
    async with _started(factory, "replace-concurrent") as store:
        await asyncio.gather(
            *(store.replace("topic", "cursor", remove=[], add=[_entry(n)], epoch=1) for n in range(1, 21))
        )
        await asyncio.gather(
            *(store.replace("topic", "cursor", remove=[n], add=[_entry(n + 20)], epoch=1) for n in range(1, 21))
        )
        state = await store.list("topic", "cursor")
        _equal([entry.bucket_id for entry in state.entries], list(range(21, 41)), "catalogue")


async def trackers_are_listed_in_order(factory: StorageFactory) -> None:
    """Every tracker that ever wrote its catalogue is listed, an emptied one too."""
    async with _started(factory, "trackers") as store:
        for topic, cursor in (("b", "x"), ("a", "y"), ("a", "x"), ("B", "z")):
            await store.replace(topic, cursor, remove=[], add=[_entry(1)], epoch=1)
        await store.replace("b", "x", remove=[1], add=[], epoch=1)
        _equal(await store.trackers(), [("B", "z"), ("a", "x"), ("a", "y"), ("b", "x")], "trackers")


async def a_forgotten_tracker_stays_fenced(factory: StorageFactory) -> None:
    """Forgetting empties the catalogue and the listing; its epoch stays on record until a new owner comes."""
    async with _started(factory, "forget") as store:
        await store.replace("topic", "cursor", remove=[], add=[_entry(1)], epoch=3)
        for _ in range(2):
            await store.forget("topic", "cursor", epoch=4)
            _equal(await store.list("topic", "cursor"), CatalogueState(4), "catalogue")
            _equal(await store.trackers(), [], "trackers")
        with _expect(SnapshotConflict, "a replace of the epoch before"):
            await store.replace("topic", "cursor", remove=[], add=[_entry(2)], epoch=3)
        await store.replace("topic", "cursor", remove=[], add=[_entry(2)], epoch=5)
        _equal(await store.list("topic", "cursor"), CatalogueState(5, (_entry(2),)), "catalogue of the new owner")
        _equal(await store.trackers(), [("topic", "cursor")], "trackers")


async def snapshots_and_catalogue_are_independent(factory: StorageFactory) -> None:
    """Deleting a snapshot leaves its pointer, removing a pointer leaves the snapshot: the caller decides on the order."""
    async with _started(factory, "independent") as store:
        bucket_id = await _create(store, [b"1"])
        await store.replace("topic", "cursor", remove=[], add=[_entry(bucket_id)], epoch=1)
        await store.delete_bucket_snapshot(bucket_id)
        _equal(await store.list("topic", "cursor"), CatalogueState(1, (_entry(bucket_id),)), "catalogue")
        kept = await _create(store, [b"2"])
        await store.replace("topic", "cursor", remove=[bucket_id, kept], add=[], epoch=1)
        _equal(await store.get_bucket_snapshot_segments(kept, 1, 1), [b"2"], "the snapshot")


# --- both ---


async def any_name_is_a_name(factory: StorageFactory) -> None:
    """Topics and cursors are text: spaces, slashes, percent signs, any script, long ones."""
    async with _started(factory, "names") as store:
        for number, name in enumerate(ODD_NAMES, 1):
            bucket_id = await _create(store, [name.encode()], topic=name, cursor=name[::-1])
            await store.replace(name, name[::-1], remove=[], add=[_entry(bucket_id)], epoch=number)
        for number, name in enumerate(ODD_NAMES, 1):
            (listed,) = await store.list_bucket_snapshots(name, name[::-1])
            _equal(await store.get_bucket_snapshot_segments(listed.bucket_id, 1, 1), [name.encode()], repr(name))
            state = await store.list(name, name[::-1])
            _equal(state, CatalogueState(number, (_entry(listed.bucket_id),)), f"catalogue of {name!r}")
        _equal(await store.trackers(), sorted((name, name[::-1]) for name in ODD_NAMES), "trackers")


async def everything_survives_closing(factory: StorageFactory) -> None:
    """What an operation returned for is there when the storage is opened again."""
    async with _started(factory, "reopen") as store:
        bucket_id = await _create(store, [b"1", b"2"], epoch=2)
        await store.replace("topic", "cursor", remove=[], add=[_entry(bucket_id)], epoch=2)
    async with _started(factory, "reopen") as store:
        _equal(await store.get_bucket_snapshot_metadata(bucket_id), b"metadata", "metadata")
        _equal(await store.get_bucket_snapshot_segments(bucket_id, 1, 2), [b"1", b"2"], "segments")
        _equal(await store.list_bucket_snapshots("topic", "cursor"), [StoredSnapshot(bucket_id, 2)], "listing")
        _equal(await store.list("topic", "cursor"), CatalogueState(2, (_entry(bucket_id),)), "catalogue")
        with _expect(SnapshotConflict, "a replace of an older epoch"):
            await store.replace("topic", "cursor", remove=[], add=[], epoch=1)


async def a_storage_that_is_not_open_says_so(factory: StorageFactory) -> None:
    """Before start and after close every operation is StorageUnavailable; closing twice is harmless."""
    store = factory("closed")
    await _expect_unavailable(store)
    await store.start()
    await store.close()
    await store.close()
    await _expect_unavailable(store)


async def _expect_unavailable(store: SnapshotStore) -> None:
    operations: dict[str, Callable[[], Awaitable[object]]] = {
        "create": lambda: _create(store, [b"1"]),
        "metadata": lambda: store.get_bucket_snapshot_metadata(1),
        "segments": lambda: store.get_bucket_snapshot_segments(1, 1, 1),
        "length": lambda: store.get_bucket_snapshot_length(1),
        "delete": lambda: store.delete_bucket_snapshot(1),
        "listing": lambda: store.list_bucket_snapshots("topic", "cursor"),
        "catalogue": lambda: store.list("topic", "cursor"),
        "replace": lambda: store.replace("topic", "cursor", remove=[], add=[], epoch=1),
        "forget": lambda: store.forget("topic", "cursor", epoch=1),
        "trackers": store.trackers,
    }
    for name, operation in operations.items():
        with _expect(StorageUnavailable, f"{name} of a storage that is not open"):
            await operation()


# --- what the checks are made of ---


@contextlib.asynccontextmanager
async def _started(factory: StorageFactory, name: str) -> AsyncIterator[SnapshotStore]:
    store = factory(name)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


async def _segments(entries: Sequence[bytes]) -> AsyncIterator[bytes]:
    for entry in entries:
        yield entry


async def _create(
    store: SnapshotStore,
    segments: Sequence[bytes],
    *,
    metadata: bytes = b"metadata",
    topic: str = "topic",
    cursor: str = "cursor",
    epoch: int = 1,
) -> int:
    return await store.create_bucket_snapshot(
        metadata, _segments(segments), bucket_key="key", topic=topic, cursor=cursor, epoch=epoch
    )


async def _create_slowly(store: SnapshotStore, reached: asyncio.Event, go_on: asyncio.Event) -> int:
    async def segments() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"early" * 1_000
        reached.set()
        await go_on.wait()
        yield b"late"

    return await store.create_bucket_snapshot(
        b"metadata", segments(), bucket_key="key", topic="topic", cursor="cursor", epoch=1
    )


def _entry(bucket_id: int) -> CatalogueEntry:
    return CatalogueEntry(bucket_id, Position(bucket_id, 0), Position(bucket_id, 9), b"summary")


async def _expect_gone(store: SnapshotStore, bucket_id: int) -> None:
    with _expect(SnapshotNotFound, f"metadata of {bucket_id}"):
        await store.get_bucket_snapshot_metadata(bucket_id)
    with _expect(SnapshotNotFound, f"segments of {bucket_id}"):
        await store.get_bucket_snapshot_segments(bucket_id, 1, 1)
    with _expect(SnapshotNotFound, f"length of {bucket_id}"):
        await store.get_bucket_snapshot_length(bucket_id)


def _equal(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise ContractViolation(f"{what}: expected {expected!r:.500}, found {found!r:.500}")


@contextlib.contextmanager
def _expect(error: type[BaseException], what: str) -> Iterator[None]:
    try:
        yield
    except error:
        return
    raise ContractViolation(f"{what}: expected {error.__name__}, but it succeeded")


CONTRACT_CHECKS: Final[tuple[Check, ...]] = (
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
    an_unknown_tracker_has_an_empty_catalogue,
    a_catalogue_comes_back_in_order,
    a_replace_removes_before_it_adds,
    an_older_epoch_is_fenced,
    concurrent_replaces_all_count,
    trackers_are_listed_in_order,
    a_forgotten_tracker_stays_fenced,
    snapshots_and_catalogue_are_independent,
    any_name_is_a_name,
    everything_survives_closing,
    a_storage_that_is_not_open_says_so,
)
"""Every check, in the order in which a backend is usually built."""
