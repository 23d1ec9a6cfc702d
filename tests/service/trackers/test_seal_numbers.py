"""Seal numbers in the catalogue: of seals, merges and imports, and after a restart."""

from copy import deepcopy
from dataclasses import replace

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.registry import open_storage
from tests.service.harness.imports import FAR_MS, catalogued, imported, requests, snapshot, used
from tests.service.harness.registry_life import open_tracker
from tests.service.harness.rpc import opened
from tests.service.harness.shell import (
    KEY,
    TINY,
    bucketful,
    elapse,
    failing,
    indexes,
    make_registry,
    rows,
    settle,
    until,
)
from tests.snapshot_storage.sqlite.sqlite_files import make_format

SOON, LATER = 10_000, 990_000


async def numbers(storage):
    """Return seal numbers by bucket id."""
    return {entry.bucket_id: entry.seal_number for entry in (await storage.list(*KEY)).entries}


async def test_a_create_that_is_repeated_does_not_bring_an_older_deadline_back(storage, clock):
    """The newer bucket is stored while the create of the older one waits for its next attempt, before a crash."""
    registry = make_registry(storage, clock, limits=replace(TINY, late_indexes_max=2))
    await registry.start()
    host, owned = await open_tracker(registry)
    storage.after["create_bucket_snapshot"] = failing(StorageUnavailable("no answer"))
    now_ms = clock.now_ms()
    host.add(owned.epoch, indexes(now_ms, (5, 0, SOON), *((5, entry, FAR_MS) for entry in range(1, 6))))
    assert host.seal(owned.epoch) == 6
    await settle()
    host.cancel(owned.epoch, PositionColumns.of([(5, 0)]))
    host.add(owned.epoch, indexes(now_ms, (5, 0, LATER), (3, 0, FAR_MS)))
    await settle()
    assert list((await numbers(storage.inner)).values()) == [2]
    await until_stored(storage, clock, 2)
    by_id = await numbers(storage.inner)
    assert [by_id[bucket_id] for bucket_id in sorted(by_id)] == [2, 1]
    crashed = deepcopy(storage.inner)
    await crashed.close()
    await registry.close()

    again = make_registry(crashed, clock)
    await again.start()
    host, owned = await open_tracker(again)
    await elapse(clock, now_ms + LATER - 1 - clock.now_ms())
    assert rows(await host.poll(owned.epoch, max_count=9, wait_ms=0, lease_ms=0)) == []
    await elapse(clock, 1)
    assert rows(await host.poll(owned.epoch, max_count=9, wait_ms=0, lease_ms=0)) == [(5, 0)]
    await again.close()


async def until_stored(storage, clock, count):
    """Advance the clock until the catalogue has so many buckets."""
    for _ in range(100):
        if len(await numbers(storage.inner)) == count:
            return
        await elapse(clock, 100)
    raise AssertionError(f"there are {await numbers(storage.inner)}")


async def test_numbers_go_on_after_a_restart_and_a_merge_is_above_its_sources(storage, clock):
    """After a restart numbers continue above the highest one in the catalogue."""
    registry = make_registry(storage, clock, limits=replace(TINY, max_num_buckets=3))
    await registry.start()
    host, owned = await open_tracker(registry)
    for ledger in (1, 2, 3, 4):
        host.add(owned.epoch, bucketful(clock.now_ms(), ledger))
    await settle()
    assert sorted((await numbers(storage.inner)).values()) == [1, 2, 3]
    host.add(owned.epoch, bucketful(clock.now_ms(), 5))
    await settle()
    assert sorted((await numbers(storage.inner)).values()) == [3, 4, 5]
    await registry.close()
    again = make_registry(storage, clock)
    await again.start()
    host, owned = await open_tracker(again)
    host.add(owned.epoch, bucketful(clock.now_ms(), 7))
    assert host.seal(owned.epoch) == 5
    await settle()
    assert sorted((await numbers(storage.inner)).values()) == [3, 4, 5, 6]
    await again.close()


async def test_imported_buckets_are_above_what_they_replace_in_the_order_they_came(service, two):
    """Imported buckets get numbers in their order, above the replaced ones and below later seals."""
    epoch = await opened(service)
    await used(service, epoch)
    assert [entry.seal_number for entry in (await catalogued(service)).entries] == [1]
    await imported(service, requests(*two))
    assert [entry.seal_number for entry in (await catalogued(service)).entries] == [2, 3]
    await imported(service, requests(snapshot((service.clock.now_ms() + FAR_MS, 1, 0))))
    await until(lambda: len(service.storage.inner._snapshots) == 1)
    assert [entry.seal_number for entry in (await catalogued(service)).entries] == [4]
    epoch = await opened(service)
    host = service.registry.host(KEY)
    host.add(epoch, bucketful(service.clock.now_ms(), 20))
    host.seal(epoch)
    await settle()
    assert [entry.seal_number for entry in (await catalogued(service)).entries] == [4, 5]


async def test_a_file_of_before_seal_numbers_recovers_as_it_did(tmp_path):
    """If two old buckets contain a position, the higher bucket id wins, and new seal numbers are higher than both."""
    path, key = tmp_path / "tracker.db", TrackerKey("persistent://shop/orders/events", "billing")
    make_format(3, path)
    clock = ManualClock(0)
    registry = make_registry(open_storage(f"sqlite:{path}"), clock)
    await registry.start()
    recovered = await registry.open(key, owner="tests", mark_delete=None)
    host = registry.host(key)
    assert recovered.recovered_count == 3
    host.add(recovered.epoch, indexes(0, *((9, entry, FAR_MS) for entry in range(5))))
    host.seal(recovered.epoch)
    await until(lambda: not host._gate.runner.in_flight_count)
    found = await registry.storage.list(*key)
    assert [(entry.bucket_id, entry.seal_number) for entry in found.entries] == [(1, 1), (2, 2), (3, None), (5, 3)]
    await elapse(clock, 989_999)
    await until(lambda: not host._gate.runner.in_flight_count)
    assert rows(await host.poll(recovered.epoch, max_count=9, wait_ms=0, lease_ms=0)) == []
    await elapse(clock, 1)
    assert rows(await host.poll(recovered.epoch, max_count=9, wait_ms=0, lease_ms=0)) == [(1, 0)]
    await registry.close()
