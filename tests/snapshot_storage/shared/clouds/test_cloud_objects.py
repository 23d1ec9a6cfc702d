"""Objects in clouds: versions, ranges, parts, bounds, and what is asked of the store."""

import asyncio

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.objects import obstore_objects
from delayed_tracker.storage.objects.cloud import gs_objects
from delayed_tracker.storage.objects.obstore_objects import PART_BYTES, ObstoreObjects
from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.shared.document_store import Stale
from delayed_tracker.storage.testing.contract_tools import create, entry_of
from tests.bookkeeper.servers.proxy import running_proxy
from tests.snapshot_storage.shared.clouds.conftest import BUCKET, Cloud
from tests.snapshot_storage.shared.clouds.servers.gcs_double import GcsDouble
from tests.snapshot_storage.shared.object_bounds import check_bounds


async def chunks_of(*chunks: bytes):
    for chunk in chunks:
        yield chunk


@pytest.fixture
async def objects(cloud: Cloud, place: str):
    opened = cloud.objects(place)
    await opened.start()
    opened.counts.requests.clear()
    yield opened
    await opened.close()


async def test_a_put_names_the_version_that_it_replaces(objects: ObstoreObjects):
    """A put is refused if the object has another version, exists although it should not, or is gone."""
    first = await objects.put_if("c/a", b"1", None)
    with pytest.raises(Stale):
        await objects.put_if("c/a", b"2", None)
    second = await objects.put_if("c/a", b"2", first)
    with pytest.raises(Stale):
        await objects.put_if("c/a", b"3", first)
    found = await objects.get("c/a")
    assert found is not None
    assert (found.content, found.version) == (b"2", second)
    await objects.delete("c/a")
    await objects.delete("c/a")
    with pytest.raises(Stale):
        await objects.put_if("c/a", b"4", second)
    assert await objects.get("c/a") is None


async def test_ranges(objects: ObstoreObjects):
    """A range ends where the object ends, and is empty behind it; an object that is missing has none."""
    assert await objects.put("t/a", chunks_of(b"0123", b"456")) == 7
    ranges = {(0, 3): b"012", (5, 9): b"56", (0, 2**62): b"0123456", (7, 9): b"", (50, 60): b"", (3, 3): b""}
    for (first, end), expected in ranges.items():
        assert await objects.get_range("t/a", first, end) == expected
        assert await objects.get_range("t/b", first, end) is None


async def test_a_large_object_is_written_in_parts(objects: ObstoreObjects):
    """Parts are 8 MiB, each a request beside the two that begin and end; the object comes back as it was written."""
    content = bytes(range(256)) * 4 * 1024
    assert await objects.put("t/large", chunks_of(*[content] * 20)) == 20 * len(content)
    assert objects.counts.requests == {"part": 3 + 2}
    assert await objects.get_range("t/large", PART_BYTES - 256, PART_BYTES + 256) == content[:512]
    assert [(listed.key, listed.size_bytes) for listed in await objects.listing("t/")] == [
        ("t/large", 20 * len(content))
    ]


async def test_a_part_is_sent_again(s3: Cloud, place: str):
    """An error in the middle of a large object costs one part, not all of them."""
    objects = s3.objects(place)
    await objects.start()
    s3.server.answer_once.append(("PUT", 503))
    assert await objects.put("t/large", chunks_of(*[bytes(1024 * 1024)] * 10)) == 10 * 1024 * 1024
    assert s3.server.answer_once == []
    assert len(await objects.get_range("t/large", 0, 2**62) or b"") == 10 * 1024 * 1024
    await objects.close()


async def test_a_large_object_that_breaks_off_is_not_there(objects: ObstoreObjects):
    """The error of the source reaches the caller as it is, and nobody sees what was sent."""

    class Broken(Exception):
        pass

    async def breaking():
        for _ in range(12):
            yield bytes(1024 * 1024)
        raise Broken

    with pytest.raises(Broken):
        await objects.put("t/broken", breaking())
    assert await objects.listing("t/") == []
    assert await objects.get_range("t/broken", 0, 1) is None


async def test_what_is_read_has_bounds(objects: ObstoreObjects, monkeypatch: pytest.MonkeyPatch):
    """Objects and ranges above their bounds are refused before they are received."""
    received = objects.counts.bytes_received
    read_bytes = await check_bounds(objects, obstore_objects, monkeypatch)
    assert objects.counts.bytes_received == received + read_bytes


async def test_a_listing_has_all_pages(gcs: Cloud, gcs_double: GcsDouble, place: str):
    """A listing of more objects than the store shows at once is whole, and each page counts as a request."""
    objects = gcs.objects(place)
    await objects.start()
    keys = [f"t/{number:04}" for number in range(1_100)]
    gcs_double.store(*(f"{BUCKET}/{place}/{key}" for key in keys))
    objects.counts.requests.clear()
    assert sorted(listed.key for listed in await objects.listing("t/")) == keys
    assert objects.counts.requests == {"list": 2}
    await objects.close()


async def test_a_listing_tells_that_an_object_was_replaced(objects: ObstoreObjects):
    """Another version is listed after each write of a small object; what is never replaced has none."""
    version, listed = None, []
    await objects.put("t/a", chunks_of(b"1"))
    for number in range(3):
        version = await objects.put_if("c/a", b"%d" % number, version)
        (found,) = await objects.listing("c/")
        assert await objects.listing("c/") == [found]
        listed.append(found.version)
    assert "" not in listed
    assert len(set(listed)) == 3
    assert [found.version for found in await objects.listing("t/")] == [""]


@pytest.mark.parametrize("name", ["s3", "gcs"])
async def test_a_failure_is_sent_once_and_explained(name: str, place: str, request: pytest.FixtureRequest):
    """An error of the store is no reason to send the request again here: the message has a remedy for the operator."""
    cloud: Cloud = request.getfixturevalue(name)
    server = cloud.server
    objects = cloud.objects(place)
    await objects.start()
    remedies = {403: "check the credentials", 401: "check the credentials", 503: "check the endpoint", 429: "repeated"}
    for status, remedy in remedies.items():
        server.requests.clear()
        server.answer_once.append(("PUT", status))
        with pytest.raises(
            StorageUnavailable, match=rf"write of {cloud.scheme}://bucket/{place}/c/a failed: .*{remedy}"
        ):
            await objects.put_if("c/a", b"1", None)
        assert len(server.requests) == 1
    assert objects.counts.failures == {"write": 4}
    # An answer to a conditional put is nothing that other requests can have.
    for status, operation in {
        409: objects.put("t/a", chunks_of(b"1")),
        412: objects.put("t/a", chunks_of(b"1")),
    }.items():
        server.answer_once.append(("PUT", status))
        with pytest.raises(StorageUnavailable, match="put of "):
            await operation
    server.answer_once.append(("GET", 404))
    with pytest.raises(StorageUnavailable, match="list of "):
        await objects.listing("t/")
    await objects.close()


@pytest.mark.long
async def test_a_bucket_that_is_missing_is_named(gcs: Cloud, s3: Cloud, azure: Cloud):
    """A start says that the bucket must be created."""
    for cloud in (gcs, s3, azure):
        missing = cloud.open(cloud.rest("place").replace("//bucket/", "//missing/"))
        with pytest.raises(StorageUnavailable, match=r"write of \w+://missing/place/probe/.* there is no such bucket"):
            await missing.start()


@pytest.mark.parametrize("name", ["s3", "gcs"])
async def test_a_bucket_that_is_away_for_a_while_has_lost_nothing(
    name: str, place: str, request: pytest.FixtureRequest
):
    """While the store answers 404 to everything, reads fail as in an outage; when it is back they find what was there."""
    cloud: Cloud = request.getfixturevalue(name)
    storage = ObjectStorage(cloud.objects(place))
    await storage.start()
    bucket_id = await create(storage, [b"1"])
    await storage.replace("topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=1)
    await storage._catalogue.finish()  # a first commit looks for blobs of older epochs
    for read in (
        lambda: storage.get_bucket_snapshot_segments(bucket_id, 1, 1),
        lambda: storage.list("topic", "cursor"),
    ):
        cloud.server.answer_once += [("GET", 404), ("GET", 404)]
        with pytest.raises(
            StorageUnavailable, match=rf"{cloud.scheme}://bucket/{place} has neither .* bring the bucket"
        ):
            await read()
        assert cloud.server.answer_once == []
        assert await read()
    await storage.close()


async def test_a_place_that_is_not_open_says_so(s3: Cloud, place: str):
    """Before the start and after the close nothing is sent."""
    objects = s3.objects(place)
    with pytest.raises(StorageUnavailable, match="not open"):
        await objects.get("c/a")
    await objects.start()
    await objects.close()
    await objects.close()
    with pytest.raises(StorageUnavailable, match="not open"):
        await objects.put("t/a", chunks_of(bytes(PART_BYTES + 1)))


async def test_a_setting_of_the_environment_that_is_not_valid_is_named(s3: Cloud, monkeypatch: pytest.MonkeyPatch):
    """An environment that obstore refuses is an error of the start that has its words."""
    monkeypatch.setenv("AWS_UNSIGNED_PAYLOAD", "perhaps")
    with pytest.raises(InvalidInput, match=r"settings of the cloud's client in the environment: .*perhaps"):
        await s3.objects("place").start()


async def test_requests_at_the_same_time_have_a_bound(s3: Cloud, place: str):
    """With ``requests=2`` the third request waits for the first answer."""
    async with running_proxy(s3.server.port) as proxy:
        objects = s3.objects(place, "&requests=2", f"http://{proxy.address}")
        await objects.start()
        objects.counts.requests.clear()
        proxy.hold_replies()
        sent = proxy.chunks_sent
        reading = [asyncio.create_task(objects.get("c/a")) for _ in range(5)]
        await proxy.until_sent(sent + 2)
        assert objects.counts.requests == {"read": 2}
        proxy.release()
        assert await asyncio.gather(*reading) == [None] * 5
        await objects.close()


async def test_a_cancelled_create_leaves_nothing(s3: Cloud, place: str):
    """A create that is cancelled while its object is on its way ends when the object is gone again."""
    async with running_proxy(s3.server.port) as proxy:
        storage = ObjectStorage(s3.objects(place, endpoint=f"http://{proxy.address}"))
        await storage.start()
        proxy.hold_replies()
        sent = proxy.chunks_sent
        creating = asyncio.create_task(create(storage, [b"1"]))
        await proxy.until_sent(sent + 1)
        creating.cancel()
        await asyncio.wait({creating}, timeout=0.05)
        assert not creating.done()
        proxy.release()
        with pytest.raises(asyncio.CancelledError):
            await creating
        assert await storage.list_bucket_snapshots("topic", "cursor") == []
        await storage.close()


async def test_a_close_waits_for_what_is_on_its_way(s3: Cloud, place: str):
    """Requests that were sent before the close are answered, and the close ends after them."""
    async with running_proxy(s3.server.port) as proxy:
        objects = s3.objects(place, endpoint=f"http://{proxy.address}")
        await objects.start()
        proxy.hold_replies()
        sent = proxy.chunks_sent
        reading = asyncio.create_task(objects.get("c/a"))
        await proxy.until_sent(sent + 1)
        closing = asyncio.create_task(objects.close())
        await asyncio.wait({closing}, timeout=0.05)
        assert not closing.done()
        proxy.release()
        await closing
        assert await reading is None


async def test_the_environment_cannot_switch_conditions_off(s3: Cloud, place: str, monkeypatch: pytest.MonkeyPatch):
    """A setting for other programs that share the environment does not let two services write one catalogue."""
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    objects = s3.objects(place)
    await objects.start()
    await objects.close()


async def test_a_store_that_does_not_answer_is_given_up(s3: Cloud, place: str):
    """A request ends after the time-out of the URL, and a close waits for no longer than that."""
    async with running_proxy(s3.server.port) as proxy:
        objects = s3.objects(place, "&timeout=1", f"http://{proxy.address}")
        await objects.start()
        proxy.hold_replies()
        async with asyncio.timeout(10):
            with pytest.raises(StorageUnavailable, match="check the endpoint, the network"):
                await objects.get("c/a")
        proxy.release()
        await objects.close()


async def test_a_refused_conflict_is_read_back(s3: Cloud, place: str):
    """S3's answer 409, which says nothing about the write, makes the catalogue look and write again; so does 412."""
    storage = ObjectStorage(s3.objects(place))
    await storage.start()
    await storage.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=1)
    for number, status in enumerate((409, 412), 2):
        s3.server.answer_once.append(("PUT", status))
        await storage.replace("topic", "cursor", remove=[], add=[entry_of(number)], epoch=1)
        assert s3.server.answer_once == []
    assert [entry.bucket_id for entry in (await storage.list("topic", "cursor")).entries] == [1, 2, 3]
    await storage.close()


@pytest.mark.parametrize("name", ["s3", "gcs"])
async def test_a_lost_reply_is_read_back(name: str, place: str, request: pytest.FixtureRequest):
    """A commit that the store has done although its reply was lost counts once, and its caller is told that it counts."""
    cloud: Cloud = request.getfixturevalue(name)
    async with running_proxy(cloud.server.port) as proxy:
        storage = ObjectStorage(cloud.objects(place, endpoint=f"http://{proxy.address}"))
        await storage.start()
        await storage.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=1)
        await storage._catalogue.finish()  # a first commit looks for blobs of older epochs
        cloud.server.requests.clear()
        proxy.lose_next_reply()
        await storage.replace("topic", "cursor", remove=[], add=[entry_of(2)], epoch=1)
        assert [line.split()[0] for line in cloud.server.requests] == ["PUT", "GET"]
        assert [entry.bucket_id for entry in (await storage.list("topic", "cursor")).entries] == [1, 2]
        await storage.close()


async def test_commits_of_a_tracker_share_writes_where_those_are_rare(gcs: Cloud, gcs_double: GcsDouble, place: str):
    """If a store refuses a second write of a name within some time, calls meanwhile are written together."""
    objects = gs_objects(gcs.rest(place), min_interval_s=0.105)
    storage = ObjectStorage(objects)
    gcs_double.interval_s = 0.1
    try:
        await storage.start()
        objects.counts.requests.clear()
        for batch in range(3):
            ids = range(10 * batch + 1, 10 * batch + 11)
            await asyncio.gather(
                *(storage.replace("topic", "cursor", remove=[], add=[entry_of(number)], epoch=1) for number in ids)
            )
        assert [entry.bucket_id for entry in (await storage.list("topic", "cursor")).entries] == [*range(1, 31)]
        assert objects.counts.requests["write"] == 3
        assert gcs_double.refused_writes == 0
        await storage.close()
    finally:
        gcs_double.interval_s = 0.0
