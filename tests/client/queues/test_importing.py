"""Tests of importing snapshots over both shells: the requests, and the end."""

import pytest

from delayed_tracker.client import (
    Fenced,
    ImportRefused,
    InvalidArgument,
    InvalidInput,
    Position,
    SnapshotToImport,
    Unavailable,
)
from delayed_tracker.client.queues.importing import PORTION_BYTES, import_header, import_requests
from delayed_tracker.storage.errors import SnapshotTooLarge
from tests.client.conftest import TOPIC
from tests.service.harness.imports import snapshot
from tests.service.harness.shell import failing, running_service, until

FAR_MS = 4_000_000_000_000


@pytest.fixture
async def real():
    async with running_service() as running:
        yield running


@pytest.fixture
async def client(real, shell):
    async with shell.connect(real.address) as connected:
        yield connected


def buckets(*ledgers):
    return [snapshot(*((FAR_MS + 400 * entry, ledger, entry) for entry in range(7))) for ledger in ledgers]


async def test_an_import_is_answered_with_what_became_of_it(client):
    """The answer contains the position from which the next open replays."""
    answer = await client.import_snapshots(
        TOPIC, "billing", iter(buckets(3, 4)), bucket_count=2, mark_delete=Position(3, 0), expected_epoch=0
    )
    assert (answer.bucket_count, answer.tracked_count, answer.replaced_count) == (2, 13, 0)
    assert answer.replay_from == Position(3, 1)
    async with await client.open_tracker(TOPIC, "billing") as session:
        assert session.opened.replay_from == Position(3, 1)
        assert await session.contains([3, 3, 4], [0, 1, 6]) == [False, True, True]


async def test_without_a_mark_delete_the_replay_begins_at_the_beginning(client):
    """Without a mark-delete position the replay begins at the beginning; without a name the owner is this process."""
    assert (await client.import_snapshots(TOPIC, "billing", [], bucket_count=0)).replay_from is None


async def test_an_error_in_making_the_snapshots_imports_nothing(real, client):
    """An error in making the snapshots is raised, and nothing is imported."""

    def failing():
        yield from buckets(3)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await client.import_snapshots(TOPIC, "billing", failing(), bucket_count=2)
    await until(lambda: not real.registry.imports and not real.registry.tracker_count)
    assert await real.storage.inner.list_bucket_snapshots(TOPIC, "billing") == []


async def test_what_was_announced_must_come(client):
    """The client refuses a wrong number of snapshots before the service does."""
    with pytest.raises(InvalidInput, match="bucket_count: 2 is not valid; give 1"):
        await client.import_snapshots(TOPIC, "billing", buckets(3), bucket_count=2)
    (bucket,) = buckets(3)
    short = SnapshotToImport(bucket.first, bucket.last, 9, bucket.entries)
    with pytest.raises(InvalidInput, match="entry_count: 9 is not valid; give 4"):
        await client.import_snapshots(TOPIC, "billing", [short], bucket_count=1)


async def test_refusals_have_kinds_of_their_own(real, client):
    """Damage, another epoch and another import have exceptions of their own."""
    (bucket,) = buckets(3)
    damaged = SnapshotToImport(bucket.first, bucket.last, bucket.entry_count, [(e, c ^ 1) for e, c in bucket.entries])
    with pytest.raises(InvalidArgument, match="checksum") as raised:
        await client.import_snapshots(TOPIC, "billing", [damaged], bucket_count=1)
    assert raised.value.reason == "IMPORT_REJECTED"
    with pytest.raises(Fenced):
        await client.import_snapshots(TOPIC, "billing", buckets(3), bucket_count=1, expected_epoch=77)
    real.registry.imports[TOPIC, "billing"] = None
    with pytest.raises(ImportRefused) as raised:
        await client.import_snapshots(TOPIC, "billing", buckets(3), bucket_count=1)
    assert raised.value.reason == "IMPORT_UNDER_WAY"
    del real.registry.imports[TOPIC, "billing"]
    real.storage.before["create_bucket_snapshot"] = failing(SnapshotTooLarge("an entry has 6 MiB"))
    with pytest.raises(ImportRefused, match="6 MiB") as raised:
        await client.import_snapshots(TOPIC, "billing", buckets(3), bucket_count=1)
    assert raised.value.reason == "SNAPSHOT_TOO_LARGE"
    for wrong in ({"owner": "\ud800"}, {"expected_epoch": -1}, {"mark_delete": Position(-2, 0)}):
        with pytest.raises(InvalidInput):
            await client.import_snapshots(TOPIC, "billing", [], bucket_count=0, **wrong)


async def test_a_large_import_that_is_refused_early_ends_with_the_refusal(real, client):
    """The service stops reading, and the client raises the reason."""
    made = 0

    def many():
        nonlocal made
        for ledger in range(5_000):
            made += 1
            yield from buckets(ledger)

    for _ in range(20):
        made = 0
        with pytest.raises(Fenced):
            await client.import_snapshots(TOPIC, "billing", many(), bucket_count=5_000, expected_epoch=77)
        assert made < 5_000


async def test_a_service_that_is_gone_is_not_waited_for(real, client):
    """An import to an unreachable service fails at once, although its time limit is an hour."""
    await client.import_snapshots(TOPIC, "billing", [], bucket_count=0)
    await real.registry.drain(0)
    with pytest.raises(Unavailable):
        await client.import_snapshots(TOPIC, "billing", [], bucket_count=0)


def test_entries_travel_in_portions_of_bounded_size():
    """An entry that is larger than a portion is sent alone."""
    sizes = [10, PORTION_BYTES + 1, PORTION_BYTES // 2, PORTION_BYTES // 2, 1, 1]
    bucket = SnapshotToImport(Position(1, 0), Position(1, 1), len(sizes), [(bytes(size), 0) for size in sizes])
    header = import_header(TOPIC, "billing", owner="tests", bucket_count=1, expected_epoch=None, mark_delete=None)
    sent = list(import_requests(header, [bucket]))
    assert [request.WhichOneof("part") for request in sent] == ["header", "bucket", *["entries"] * 4, "end"]
    assert [[len(entry) for entry in request.entries.entries] for request in sent[2:-1]] == [
        sizes[:1],
        sizes[1:2],
        sizes[2:4],
        sizes[4:],
    ]
