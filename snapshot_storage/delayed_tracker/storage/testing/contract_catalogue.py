"""Checks of the contract for catalogues, and for the storage as a whole."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX, Position
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.protocol import (
    NO_LOG,
    CatalogueEntry,
    CatalogueState,
    LogMark,
    SnapshotStore,
    StoredSnapshot,
    StoredThrough,
)
from delayed_tracker.storage.testing.contract_tools import (
    Check,
    StorageFactory,
    create,
    entry_of,
    expect,
    require_equal,
    started,
)

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


async def an_unknown_tracker_has_an_empty_catalogue(factory: StorageFactory) -> None:
    """An unknown tracker is at epoch 0; listing it does not add it to the trackers."""
    async with started(factory, "catalogue-empty") as store:
        require_equal(await store.list("topic", "cursor"), CatalogueState(), "catalogue")
        require_equal(await store.trackers(), [], "trackers")


async def a_state_that_replace_returns_is_the_catalogue(factory: StorageFactory) -> None:
    """A backend need not return one. If it does, it is what ``list`` returns, also after a fence, small or large."""
    large = replace(entry_of(3), summary=bytes(200_000))
    async with started(factory, "catalogue-returned") as store:
        for epoch, added in enumerate(([], [entry_of(1), entry_of(2)], [], [large], []), start=1):
            returned = await store.replace("topic", "cursor", remove=[], add=added, epoch=epoch, writer="w")
            if returned is not None:
                require_equal(returned, await store.list("topic", "cursor"), f"state returned at epoch {epoch}")


async def a_catalogue_comes_back_in_order(factory: StorageFactory) -> None:
    """Every field is returned as written, extremes included; entries ascend by (first, last, bucket id)."""
    entries = [
        CatalogueEntry(9, Position(1, 0), Position(1, 5), b"summary", b"consumed", Position(1, 3), 4),
        CatalogueEntry(2, Position(1, 0), Position(2, 0), b"", b"", Position(-1, -1)),
        CatalogueEntry(5, Position(3, 0), Position(4, 7), bytes(range(256)) * 1_000, b"\x00", None, INT63_MAX),
        CatalogueEntry(6, Position(3, 0), Position(4, 7)),
        CatalogueEntry(INT63_MAX, Position(INT63_MAX, ENTRY_ID_MAX), Position(INT63_MAX, ENTRY_ID_MAX)),
    ]
    async with started(factory, "catalogue-order") as store:
        await store.replace("topic", "cursor", remove=[], add=entries[::-1], epoch=7)
        require_equal(await store.list("topic", "cursor"), CatalogueState(7, tuple(entries)), "catalogue")
        require_equal(await store.list("topic", "other"), CatalogueState(), "another tracker's catalogue")


async def a_replace_removes_before_it_adds(factory: StorageFactory) -> None:
    """An id in both lists replaces its entry, and so does adding a present id; a repeated replace changes nothing."""
    async with started(factory, "replace") as store:
        await store.replace("topic", "cursor", remove=[], add=[entry_of(1), entry_of(2), entry_of(3)], epoch=1)
        changed = CatalogueEntry(2, Position(2, 0), Position(2, 9), consumed=b"some")
        for _ in range(2):
            await store.replace("topic", "cursor", remove=[1, 2, 99], add=[changed, entry_of(4)], epoch=1)
            expected = CatalogueState(1, (changed, entry_of(3), entry_of(4)))
            require_equal(await store.list("topic", "cursor"), expected, "catalogue")
        await store.replace("topic", "cursor", remove=[], add=[entry_of(2)], epoch=1)
        expected = CatalogueState(1, (entry_of(2), entry_of(3), entry_of(4)))
        require_equal(await store.list("topic", "cursor"), expected, "catalogue")


async def a_seal_number_belongs_to_its_entry(factory: StorageFactory) -> None:
    """An entry keeps its number, or none, even beside others with the same number; it is no order and no key."""
    plain = entry_of(1)
    numbers = {1: 7, 2: INT63_MAX, 3: None, 4: 1, 5: 7}
    entries = {n: replace(entry_of(n), seal_number=number) for n, number in numbers.items()}
    async with started(factory, "seal-numbers") as store:
        await store.replace("topic", "cursor", remove=[], add=[plain, entries[2], entries[3]], epoch=1)
        await store.replace("topic", "cursor", remove=[1], add=[entries[1], entries[4], entries[5]], epoch=1)
        require_equal(await store.list("topic", "cursor"), CatalogueState(1, tuple(entries.values())), "catalogue")
    async with started(factory, "seal-numbers") as store:
        state = await store.list("topic", "cursor")
        require_equal(state, CatalogueState(1, tuple(entries.values())), "catalogue after closing")
        require_equal(state.last_seal_number, INT63_MAX, "the highest seal number")


async def an_older_epoch_is_fenced(factory: StorageFactory) -> None:
    """A writer of an older epoch is refused and changes nothing; the same epoch and newer ones are accepted."""
    async with started(factory, "fence") as store:
        await store.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=5)
        before = await store.list("topic", "cursor")
        with expect(SnapshotConflict, "a replace of an older epoch"):
            await store.replace("topic", "cursor", remove=[1], add=[entry_of(2)], epoch=4)
        with expect(SnapshotConflict, "a forget of an older epoch"):
            await store.forget("topic", "cursor", epoch=4)
        require_equal(await store.list("topic", "cursor"), before, "catalogue after refused writes")
        await store.replace("topic", "cursor", remove=[], add=[], epoch=6)
        require_equal(
            await store.list("topic", "cursor"), CatalogueState(6, (entry_of(1),)), "catalogue after a bare fence"
        )
        with expect(SnapshotConflict, "a replace of the epoch before the fence"):
            await store.replace("topic", "cursor", remove=[], add=[entry_of(2)], epoch=5)
        await store.replace("topic", "other", remove=[], add=[entry_of(2)], epoch=1)


async def an_epoch_belongs_to_one_writer(factory: StorageFactory) -> None:
    """The first writer that records an epoch owns it and may repeat its write; a second writer changes nothing."""
    async with started(factory, "writers") as store:
        for _ in range(2):
            await store.replace("topic", "cursor", remove=[], add=[], epoch=3, writer="first")
        with expect(SnapshotConflict, "a fence at an epoch that another writer has"):
            await store.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=3, writer="second")
        with expect(SnapshotConflict, "a forget at an epoch that another writer has"):
            await store.forget("topic", "cursor", epoch=3, writer="second")
        # An anonymous writer may write under the first writer's epoch, and does not take it over.
        await store.replace("topic", "cursor", remove=[], add=[entry_of(2)], epoch=3)
        with expect(SnapshotConflict, "a fence at an epoch that another writer still has"):
            await store.replace("topic", "cursor", remove=[2], add=[], epoch=3, writer="second")
        await store.replace("topic", "cursor", remove=[], add=[entry_of(3)], epoch=3, writer="first")
        require_equal(await store.list("topic", "cursor"), CatalogueState(3, (entry_of(2), entry_of(3))), "catalogue")
        await store.replace("topic", "cursor", remove=[2, 3], add=[], epoch=4, writer="second")
        with expect(SnapshotConflict, "a replace at an epoch that is over"):
            await store.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=3, writer="first")
        with expect(SnapshotConflict, "a fence at the next writer's epoch"):
            await store.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=4, writer="first")
        require_equal(await store.list("topic", "cursor"), CatalogueState(4), "catalogue")


async def a_claim_is_answered_with_the_catalogue(factory: StorageFactory) -> None:
    """A call that records an epoch alone returns nothing, or the catalogue as it is then: a recovery goes on with it."""
    async with started(factory, "claim") as store:
        entries = [replace(entry_of(bucket_id), summary=bytes(400 * bucket_id)) for bucket_id in (1, 2, 3)]
        await store.replace("topic", "cursor", remove=[], add=entries, epoch=1, writer="one")
        await store.list("topic", "cursor")
        claimed = await store.replace("topic", "cursor", remove=[], add=[], epoch=2, writer="two")
        if claimed is not None:
            require_equal(claimed, await store.list("topic", "cursor"), "answer of a claim")


async def a_mark_delete_position_stays_on_record(factory: StorageFactory) -> None:
    """A mark-delete position is kept without entries, until another one is written or the tracker is forgotten."""
    async with started(factory, "mark-delete") as store:
        for given, on_record in (
            (None, None),
            (Position(7, 3), Position(7, 3)),
            (None, Position(7, 3)),
            (Position(5, -1), Position(5, -1)),
            (Position(-1, -1), Position(-1, -1)),
            (Position(INT63_MAX, ENTRY_ID_MAX), Position(INT63_MAX, ENTRY_ID_MAX)),
        ):
            await store.replace("topic", "cursor", remove=[], add=[], epoch=1, mark_delete=given)
            state = await store.list("topic", "cursor")
            require_equal(state, CatalogueState(1, mark_delete=on_record), "catalogue")
        with expect(SnapshotConflict, "a replace of an older epoch"):
            await store.replace("topic", "cursor", remove=[], add=[], epoch=0, mark_delete=Position(1, 1))
    async with started(factory, "mark-delete") as store:
        kept = CatalogueState(1, mark_delete=Position(INT63_MAX, ENTRY_ID_MAX))
        require_equal(await store.list("topic", "cursor"), kept, "catalogue after closing")
        await store.forget("topic", "cursor", epoch=2)
        require_equal(await store.list("topic", "cursor"), CatalogueState(2), "catalogue of a forgotten tracker")


async def a_log_mark_stays_on_record(factory: StorageFactory) -> None:
    """A log mark is kept until another one is written; a forgotten tracker keeps number and log, and loses its claims."""
    async with started(factory, "log-mark") as store:
        for given, on_record in (
            (None, LogMark()),
            (LogMark(7), LogMark(7)),
            (LogMark(8, Position(3, 4)), LogMark(8, Position(3, 4))),
            (None, LogMark(8, Position(3, 4))),
            (
                LogMark(INT63_MAX, Position(INT63_MAX, ENTRY_ID_MAX)),
                LogMark(INT63_MAX, Position(INT63_MAX, ENTRY_ID_MAX)),
            ),
            (LogMark(9, None, "a" * 64, Position(3, 4)), LogMark(9, None, "a" * 64, Position(3, 4))),
            (LogMark(9, Position(-1, -1), NO_LOG), LogMark(9, Position(-1, -1), NO_LOG)),
        ):
            await store.replace("topic", "cursor", remove=[], add=[], epoch=1, mark=given)
            require_equal(await store.list("topic", "cursor"), CatalogueState(1, log_mark=on_record), "catalogue")
        await store.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=2, mark_delete=Position(1, 1))
        with expect(SnapshotConflict, "a replace of an older epoch"):
            await store.replace("topic", "cursor", remove=[], add=[], epoch=1, mark=LogMark(10))
        require_equal(await store.list("topic", "other"), CatalogueState(), "another tracker's catalogue")
    async with started(factory, "log-mark") as store:
        mark = LogMark(9, Position(-1, -1), NO_LOG)
        kept = CatalogueState(2, (entry_of(1),), mark_delete=Position(1, 1), log_mark=mark)
        require_equal(await store.list("topic", "cursor"), kept, "catalogue after closing")
        await store.forget("topic", "cursor", epoch=3)
        forgotten = CatalogueState(3, log_mark=LogMark(9, log=NO_LOG))
        require_equal(await store.list("topic", "cursor"), forgotten, "catalogue of a forgotten tracker")


async def what_the_snapshots_cover_is_recorded_alone(factory: StorageFactory) -> None:
    """A new claim of the snapshots leaves the rest of the log mark as it is; a forgotten tracker loses it."""
    mark = LogMark(7, Position(5, 0), "log", Position(2, 0))
    async with started(factory, "stored-through") as store:
        await store.replace("topic", "cursor", remove=[], add=[], epoch=1, mark=StoredThrough(Position(1, 0)))
        first = CatalogueState(1, log_mark=LogMark(stored_through=Position(1, 0)))
        require_equal(await store.list("topic", "cursor"), first, "catalogue without a log mark")
        await store.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=1, mark=mark)
        for position in (Position(INT63_MAX, ENTRY_ID_MAX), Position(4, -1), None, Position(3, 9)):
            await store.replace("topic", "cursor", remove=[], add=[], epoch=1, mark=StoredThrough(position))
            expected = CatalogueState(1, (entry_of(1),), log_mark=replace(mark, stored_through=position))
            require_equal(await store.list("topic", "cursor"), expected, "catalogue")
        with expect(SnapshotConflict, "a replace of an older epoch"):
            await store.replace("topic", "cursor", remove=[], add=[], epoch=0, mark=StoredThrough(Position(9, 9)))
    async with started(factory, "stored-through") as store:
        require_equal(await store.list("topic", "cursor"), expected, "catalogue after closing")
        await store.forget("topic", "cursor", epoch=2)
        forgotten = CatalogueState(2, log_mark=LogMark(7, log="log"))
        require_equal(await store.list("topic", "cursor"), forgotten, "catalogue of a forgotten tracker")


async def concurrent_replaces_all_count(factory: StorageFactory) -> None:
    """Replacing is atomic: no replace undoes another that ran at the same time."""
    async with started(factory, "replace-concurrent") as store:
        await asyncio.gather(
            *(store.replace("topic", "cursor", remove=[], add=[entry_of(n)], epoch=1) for n in range(1, 21))
        )
        await asyncio.gather(
            *(store.replace("topic", "cursor", remove=[n], add=[entry_of(n + 20)], epoch=1) for n in range(1, 21))
        )
        state = await store.list("topic", "cursor")
        require_equal([entry.bucket_id for entry in state.entries], list(range(21, 41)), "catalogue")


async def trackers_are_listed_in_order(factory: StorageFactory) -> None:
    """Every tracker that ever wrote its catalogue is listed, even if it is empty now."""
    async with started(factory, "trackers") as store:
        for topic, cursor in (("b", "x"), ("a", "y"), ("a", "x"), ("B", "z")):
            await store.replace(topic, cursor, remove=[], add=[entry_of(1)], epoch=1)
        await store.replace("b", "x", remove=[1], add=[], epoch=1)
        require_equal(await store.trackers(), [("B", "z"), ("a", "x"), ("a", "y"), ("b", "x")], "trackers")


async def a_forgotten_tracker_stays_fenced(factory: StorageFactory) -> None:
    """Forgetting empties the catalogue and the listing; its epoch stays recorded until a new owner comes."""
    async with started(factory, "forget") as store:
        await store.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=3)
        for _ in range(2):
            await store.forget("topic", "cursor", epoch=4)
            require_equal(await store.list("topic", "cursor"), CatalogueState(4), "catalogue")
            require_equal(await store.trackers(), [], "trackers")
        with expect(SnapshotConflict, "a replace of the epoch before"):
            await store.replace("topic", "cursor", remove=[], add=[entry_of(2)], epoch=3)
        await store.replace("topic", "cursor", remove=[], add=[entry_of(2)], epoch=5)
        require_equal(
            await store.list("topic", "cursor"), CatalogueState(5, (entry_of(2),)), "catalogue of the new owner"
        )
        require_equal(await store.trackers(), [("topic", "cursor")], "trackers")


async def snapshots_and_catalogue_are_independent(factory: StorageFactory) -> None:
    """Deleting a snapshot leaves its pointer, removing a pointer leaves the snapshot: the caller chooses the order."""
    async with started(factory, "independent") as store:
        bucket_id = await create(store, [b"1"])
        await store.replace("topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=1)
        await store.delete_bucket_snapshot(bucket_id)
        require_equal(await store.list("topic", "cursor"), CatalogueState(1, (entry_of(bucket_id),)), "catalogue")
        kept = await create(store, [b"2"])
        await store.replace("topic", "cursor", remove=[bucket_id, kept], add=[], epoch=1)
        require_equal(await store.get_bucket_snapshot_segments(kept, 1, 1), [b"2"], "the snapshot")


async def any_name_is_a_name(factory: StorageFactory) -> None:
    """Topics and cursors are any text: spaces, slashes, percent signs, any script, long ones."""
    async with started(factory, "names") as store:
        for number, name in enumerate(ODD_NAMES, 1):
            bucket_id = await create(store, [name.encode()], topic=name, cursor=name[::-1])
            await store.replace(name, name[::-1], remove=[], add=[entry_of(bucket_id)], epoch=number)
        for number, name in enumerate(ODD_NAMES, 1):
            (listed,) = await store.list_bucket_snapshots(name, name[::-1])
            require_equal(await store.get_bucket_snapshot_segments(listed.bucket_id, 1, 1), [name.encode()], repr(name))
            state = await store.list(name, name[::-1])
            require_equal(state, CatalogueState(number, (entry_of(listed.bucket_id),)), f"catalogue of {name!r}")
        require_equal(await store.trackers(), sorted((name, name[::-1]) for name in ODD_NAMES), "trackers")


async def everything_survives_closing(factory: StorageFactory) -> None:
    """The effect of every operation that returned is there when the storage is opened again."""
    async with started(factory, "reopen") as store:
        bucket_id = await create(store, [b"1", b"2"], epoch=2)
        await store.replace("topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=2)
    async with started(factory, "reopen") as store:
        require_equal(await store.get_bucket_snapshot_metadata(bucket_id), b"metadata", "metadata")
        require_equal(await store.get_bucket_snapshot_segments(bucket_id, 1, 2), [b"1", b"2"], "segments")
        require_equal(await store.list_bucket_snapshots("topic", "cursor"), [StoredSnapshot(bucket_id, 2)], "listing")
        require_equal(await store.list("topic", "cursor"), CatalogueState(2, (entry_of(bucket_id),)), "catalogue")
        with expect(SnapshotConflict, "a replace of an older epoch"):
            await store.replace("topic", "cursor", remove=[], add=[], epoch=1)


async def a_storage_that_is_not_open_says_so(factory: StorageFactory) -> None:
    """Before start and after close every operation raises StorageUnavailable; closing twice is harmless."""
    store = factory("closed")
    await _expect_unavailable(store)
    await store.start()
    await store.close()
    await store.close()
    await _expect_unavailable(store)


async def _expect_unavailable(store: SnapshotStore) -> None:
    operations: dict[str, Callable[[], Awaitable[object]]] = {
        "create": lambda: create(store, [b"1"]),
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
        with expect(StorageUnavailable, f"{name} of a storage that is not open"):
            await operation()


CATALOGUE_CHECKS: Final[tuple[Check, ...]] = (
    an_unknown_tracker_has_an_empty_catalogue,
    a_state_that_replace_returns_is_the_catalogue,
    a_catalogue_comes_back_in_order,
    a_replace_removes_before_it_adds,
    a_seal_number_belongs_to_its_entry,
    an_older_epoch_is_fenced,
    an_epoch_belongs_to_one_writer,
    a_claim_is_answered_with_the_catalogue,
    a_mark_delete_position_stays_on_record,
    a_log_mark_stays_on_record,
    what_the_snapshots_cover_is_recorded_alone,
    concurrent_replaces_all_count,
    trackers_are_listed_in_order,
    a_forgotten_tracker_stays_fenced,
    snapshots_and_catalogue_are_independent,
)
"""Checks of catalogues."""

STORAGE_CHECKS: Final[tuple[Check, ...]] = (
    any_name_is_a_name,
    everything_survives_closing,
    a_storage_that_is_not_open_says_so,
)
"""Checks of snapshots and catalogues together."""
