"""Cases of a service and its file that are not in the list: hostile requests, full disks, damage, several owners."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import grpc
import pytest

from delayed_tracker.core.values.verb_results import BucketState
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.sqlite.schema import ENTRY_BITS, ENTRY_ID_MAX
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, details, opened, poll, refused, stats_of
from tests.service.harness.shell import (
    KEY,
    POLL_SECONDS,
    Gate,
    as_time_passes,
    bucketful,
    elapse,
    indexes,
    make_registry,
    rows,
    running_service,
    until,
)

FAR_MS = 1_000_000
MORE_THAN_A_PAGE = 4_000
NAMES = ["x", "\u00e9\u2603\U0001f600", "a\x00b", " a/b%2F c\n", "t" * 4096]
SIGNED = [0, 1, -1, 5, 2**32 - 1, 2**32, 2**63 - 1, -(2**63)]
UNSIGNED = [0, 1, 7, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
ALLOWED = {"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"}


@asynccontextmanager
async def serving(path: Path, clock: ManualClock) -> AsyncIterator[TrackerRegistry]:
    """Yield a registry over the file at a path."""
    registry = make_registry(open_storage(f"sqlite:{path}"), clock)
    await registry.start()
    try:
        yield registry
    finally:
        await registry.close()


async def five_buckets(registry: TrackerRegistry, clock: ManualClock) -> int:
    """Store ledgers 1 to 5 sealed and keep ledger 6 in memory; return the epoch."""
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    host = registry.host(KEY)
    for ledger_id in range(1, 7):
        host.add(epoch, bucketful(clock.now_ms(), ledger_id))
    await until(lambda: sum(view.state is BucketState.SEALED for view in host.buckets()) == 5)
    return epoch


SELDOM = {"share_messages"}
"""Fields whose values seldom agree with the others: requests that always fill them would all be refused."""


def hostile(rng: random.Random, message) -> None:
    """Fill a request with values at the ends of the fields' ranges and beyond those of the API."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.25:
            continue
        if field.message_type is not None:
            if field.name == "tracker":
                message.tracker.CopyFrom(REF)
            elif field.is_repeated:
                hostile(rng, getattr(message, field.name).add())
            else:
                getattr(message, field.name).SetInParent()
                hostile(rng, getattr(message, field.name))
            continue
        if field.name == "wait_ms" or (field.name in SELDOM and rng.random() < 0.9):
            continue
        values = {
            field.TYPE_STRING: ["", "x", "===", *NAMES],
            field.TYPE_INT64: SIGNED,
            field.TYPE_SFIXED64: SIGNED,
            field.TYPE_UINT64: UNSIGNED,
            field.TYPE_UINT32: [0, 1, 10, 10_001, 2**32 - 1],
            field.TYPE_BOOL: [True, False],
        }[field.type]
        if field.is_repeated:
            getattr(message, field.name).extend(rng.choices(values, k=rng.choice([1, 2, 2, 2])))
        else:
            setattr(message, field.name, rng.choice(values))


async def test_no_request_is_an_internal_error() -> None:
    """Every well-formed request gets an answer or an error with a remedy, and the counts stay in balance."""
    rng = random.Random(7)
    methods = [
        method for method in pb.DESCRIPTOR.services_by_name["DelayedDeliveryTrackerService"].methods
        if not method.client_streaming
    ]  # fmt: skip
    answered, refusals = set(), set()
    async with running_service() as service:
        epoch = await opened(service)
        for _ in range(700):
            method = rng.choice(methods)
            request = getattr(pb, method.input_type.name)()
            hostile(rng, request)
            if "epoch" in method.input_type.fields_by_name and rng.random() < 0.8:
                request.epoch = epoch
            try:
                call = getattr(service.stub, method.name)(request)
                answer = [part async for part in call] if method.server_streaming else await call
            except grpc.aio.AioRpcError as error:
                refusals.add(error.code().name)
                details(error)
                if error.code().name != "INVALID_ARGUMENT":
                    epoch = await opened(service)
                continue
            answered.add(method.name)
            epoch = getattr(answer, "epoch", epoch) or epoch
        assert answered >= {"AddMessages", "PollScheduledMessages", "ClearMessages", "DeleteTracker"}
        assert refusals == ALLOWED
        for host in service.registry.hosts():
            host.core_for_reading().check()


async def test_names_are_kept_as_they_are(tmp_path) -> None:
    """Any text is a name: a tracker recovers only the content that was stored under its own name."""
    clock, path = ManualClock(), tmp_path / "tracker.db"
    keys = [TrackerKey(topic, subscription) for topic in NAMES for subscription in NAMES]
    async with serving(path, clock) as registry:
        for number, key in enumerate(keys):
            opened_ = await registry.open(key, owner="tests", mark_delete=None)
            host = registry.host(key)
            host.add(opened_.epoch, bucketful(clock.now_ms(), number, count=5 + number))
            assert host.seal(opened_.epoch) == 5 + number
    async with serving(path, clock) as registry:
        assert await registry.known_keys() == set(keys)
        for number, key in enumerate(keys):
            assert (await registry.open(key, owner="tests", mark_delete=None)).recovered_count == 5 + number


@pytest.mark.long
async def test_a_full_disk_costs_no_message_and_hurries_none(tmp_path) -> None:
    """While nothing can be stored, adds and polls continue from memory; once there is room, everything is stored."""
    clock, path = ManualClock(), tmp_path / "tracker.db"
    async with serving(path, clock) as registry:
        epoch = await five_buckets(registry, clock)
        host, storage = registry.host(KEY), registry.storage

        async def pages_max(count: int) -> None:
            await storage._write(lambda writer: writer.execute(f"PRAGMA max_page_count = {count}").fetchall())

        async def pass_until(condition: Callable[[], bool]) -> None:
            async with asyncio.timeout(30):
                while not condition():
                    await elapse(clock, 20)
                    await asyncio.sleep(POLL_SECONDS)  # the file has its own threads

        await pages_max(1)  # SQLite raises the limit to the current size
        for ledger_id in range(7, 15):
            host.add(epoch, bucketful(clock.now_ms(), ledger_id, count=MORE_THAN_A_PAGE))
        due_ms = clock.now_ms() + 2_000
        host.add(epoch, indexes(due_ms, (40, 0, 0)))
        await pass_until(lambda: host.stats().effects_failed_count > 5 and clock.now_ms() >= due_ms)
        assert rows(await host.poll(epoch, max_count=10, wait_ms=0, lease_ms=0)) == [(40, 0)]
        assert len(host.core_for_reading()) == 30 + 8 * MORE_THAN_A_PAGE
        await pages_max(2**30)
        await pass_until(lambda: all(view.state is BucketState.SEALED for view in host.buckets()))
    async with serving(path, clock) as registry:
        assert (await registry.open(KEY, owner="tests", mark_delete=None)).recovered_count == 30 + 8 * MORE_THAN_A_PAGE


@pytest.mark.parametrize("damage", ["missing", "overwritten", "another owner's", "catalogue", "summary"])
async def test_one_of_five_buckets_is_no_good(tmp_path, damage: str) -> None:
    """With a replay at the start or on request, everything comes exactly once and in time."""
    clock, path = ManualClock(), tmp_path / "tracker.db"
    async with serving(path, clock) as registry:
        await five_buckets(registry, clock)
    with closing(sqlite3.connect(path)) as connection, connection:
        bucket_id = connection.execute("SELECT bucket_id FROM catalogue ORDER BY 1").fetchall()[2][0]
        keys = (bucket_id << ENTRY_BITS, (bucket_id << ENTRY_BITS) + ENTRY_ID_MAX)
        match damage:
            case "missing":
                connection.execute("DELETE FROM snapshots WHERE bucket_id = ?", (bucket_id,))
                connection.execute("DELETE FROM entries WHERE entry_key BETWEEN ? AND ?", keys)
            case "overwritten":
                connection.execute("UPDATE entries SET payload = x'0102' WHERE entry_key BETWEEN ? AND ?", keys)
            case "another owner's":
                connection.execute("UPDATE snapshots SET topic = 'other' WHERE bucket_id = ?", (bucket_id,))
            case "catalogue":
                connection.execute("UPDATE catalogue SET crc32c = crc32c + 1 WHERE bucket_id = ?", (bucket_id,))
            case "summary":
                connection.execute("UPDATE catalogue SET summary = x'00ff' WHERE bucket_id = ?", (bucket_id,))
    due_ms = clock.now_ms() + FAR_MS
    replay = [(due_ms + 10 * entry_id, ledger_id, entry_id) for ledger_id in range(1, 7) for entry_id in range(5)]
    async with serving(path, clock) as registry:
        epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
        host = registry.host(KEY)
        delivered = []
        for _ in range(2):  # at the start, and once more if a loss is found later
            host.add(epoch, indexes(0, *((ledger, entry, at_ms) for at_ms, ledger, entry in replay)))
            await elapse(clock, max(0, due_ms - 1 - clock.now_ms()))
            await until(lambda: not host._gate.runner.in_flight_count)
            assert rows(await host.poll(epoch, max_count=99, wait_ms=0, lease_ms=0)) == []
            if not host.replay_required:
                break
        await elapse(clock, 100)
        while delivered_now := rows(await host.poll(epoch, max_count=99, wait_ms=0, lease_ms=0)):
            delivered += delivered_now
        assert sorted(delivered) == sorted(row[1:] for row in replay)


@pytest.mark.parametrize("call", ["add", "poll", "contains", "stats", "seal", "close"])
async def test_calls_during_a_recovery_are_sent_away_and_leave_it_alone(call: str) -> None:
    """A call during a recovery gets RECOVERING with a time to retry, never a wrong "no", and does not affect it."""
    async with running_service() as service:
        epoch = await opened(service)
        await service.stub.AddMessages(add(epoch, *((service.clock.now_ms() + FAR_MS, 1, entry) for entry in range(5))))
        await service.stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))
        await service.stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
        gate = service.storage.before["list_bucket_snapshots"] = Gate()
        opening = asyncio.ensure_future(service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="next")))
        await until(lambda: gate.held_count)
        stub, next_epoch = service.stub, epoch + 1
        calls = {
            "add": lambda: stub.AddMessages(add(next_epoch, (0, 1, 1))),
            "poll": lambda: stub.PollScheduledMessages(poll(next_epoch)),
            "contains": lambda: stub.ContainsMessages(
                pb.ContainsMessagesRequest(tracker=REF, ledger_ids=[1], entry_ids=[1])
            ),
            "stats": lambda: stats_of(service),
            "seal": lambda: stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=next_epoch)),
            "close": lambda: stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=next_epoch)),
        }
        _, info, found = await refused(calls[call]())
        assert info.reason == "RECOVERING"
        assert "RetryInfo" in found
        gate.open()
        assert (await opening).recovered_count == 5


async def test_two_owners_in_turn_lose_and_double_nothing() -> None:
    """If each owner opens during the other's lease, an ack counts once, and unacknowledged positions return."""
    async with running_service() as service:
        acked: list[tuple[int, int]] = []
        for turn in range(30):
            epoch = await opened(service)
            due_ms = service.clock.now_ms() + 5
            await service.stub.AddMessages(add(epoch, *((due_ms, turn, entry) for entry in range(3))))
            await elapse(service.clock, 5)
            polled = await service.stub.PollScheduledMessages(poll(epoch, max_messages=4))
            if turn % 3:
                columns = {"ledger_ids": polled.ledger_ids, "entry_ids": polled.entry_ids}
                await service.stub.AckMessages(
                    pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=polled.lease_id, **columns)
                )
                acked += zip(polled.ledger_ids, polled.entry_ids, strict=True)
        epoch = await opened(service)
        polled = await service.stub.PollScheduledMessages(poll(epoch, max_messages=1_000))
        acked += zip(polled.ledger_ids, polled.entry_ids, strict=True)
        assert sorted(acked) == [(turn, entry) for turn in range(30) for entry in range(3)]


async def test_clear_reset_and_open_while_the_storage_is_away() -> None:
    """Clear, reset and open take effect at once, are answered when stored, and leave nothing of the old state."""
    async with running_service() as service:
        epoch = await opened(service)
        await service.stub.AddMessages(add(epoch, *((service.clock.now_ms() + FAR_MS, 1, entry) for entry in range(5))))
        await service.stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))
        await until(lambda: "replace" in service.storage.calls[-1:])
        away = True

        async def down(*_args, **_kwargs) -> None:
            if away:
                raise StorageUnavailable("away")

        service.storage.before["replace"] = down
        stub = service.stub
        clearing = asyncio.ensure_future(stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch)))
        host = service.registry.host(KEY)
        await until(lambda: host.epoch == epoch + 1)
        resetting = asyncio.ensure_future(stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=epoch + 1)))
        await until(lambda: host.epoch == epoch + 2)
        await elapse(service.clock, 3_000)
        assert (clearing.done(), resetting.done(), len(host.core_for_reading())) == (False, False, 0)
        away = False
        cleared, reset = await as_time_passes(service.clock, asyncio.gather(clearing, resetting))
        assert (cleared.cleared_count, reset.cleared_count) == (5, 0)
        await opened(service)
        await elapse(service.clock, 3_000)
        assert await service.storage.inner.list_bucket_snapshots(*KEY) == []
        assert (await service.storage.inner.list(*KEY)).entries == ()


async def test_a_clock_that_jumps_a_day_forward_and_two_hours_back() -> None:
    """A waiting poll detects the jump by itself; a lease is not extended by the step back, and can be acknowledged."""
    async with running_service() as service:
        epoch = await opened(service)
        due_ms = service.clock.now_ms() + 5_000
        await service.stub.AddMessages(add(epoch, *((due_ms, 1, entry) for entry in range(5))))
        waiting = asyncio.ensure_future(
            service.stub.PollScheduledMessages(poll(epoch, wait_ms=60_000, lease_ms=30_000))
        )
        await until(lambda: service.registry.waiting_poll_count)
        service.clock.step_wall(86_400_000)
        await elapse(service.clock, 1_000)
        polled = await waiting
        assert len(polled.ledger_ids) == 5
        service.clock.step_wall(-7_200_000)
        await stats_of(service)
        await elapse(service.clock, 30_000)
        assert (await stats_of(service)).leased_count == 0
        acked = await service.stub.AckMessages(
            pb.AckMessagesRequest(
                tracker=REF,
                epoch=epoch,
                lease_id=polled.lease_id,
                ledger_ids=polled.ledger_ids,
                entry_ids=polled.entry_ids,
            )
        )
        assert acked.acked_count == 5
