"""Process that works on a storage until it is killed, and writes to standard output the begin and the end of each step.

``python -m tests.snapshot_storage.crash_worker PATH CHUNK_BYTES FAULTS FIRST_NUMBER``, with faults as in a ``faulty:``
URL. The contents of snapshot N and of catalogue version N depend on N alone, so that a later reader can verify them.
"""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.protocol import CatalogueEntry, SnapshotStore
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from delayed_tracker.storage.testing.faulty import FaultyStorage, parse_fault_plan

TOPIC = "persistent://t/ns/crash"
WRITERS = 3


def entries_of(number: int) -> list[bytes]:
    """Return metadata and segments of snapshot ``number``; the metadata is the number."""
    rng = random.Random(number)
    return [b"%d" % number, *(rng.randbytes(rng.randrange(3_000)) for _ in range(rng.randrange(1, 60)))]


def catalogue_of(version: int) -> tuple[CatalogueEntry, ...]:
    """Return the catalogue's entries at ``version``: ids come and go, contents change with every version."""
    return tuple(
        CatalogueEntry(bucket_id, Position(bucket_id, 0), Position(bucket_id, 9), consumed=b"%d" % version)
        for bucket_id in range(version % 3, 12, 1 + version % 4)
    )


def say(*words: object) -> None:
    """Write one line, whole and without delay."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def _segments(number: int) -> AsyncIterator[bytes]:
    for segment in entries_of(number)[1:]:
        yield segment


async def _create_and_delete(store: SnapshotStore, numbers: range) -> None:
    kept: list[int] = []
    for number in numbers:
        say("create", number)
        bucket_id = await store.create_bucket_snapshot(
            entries_of(number)[0], _segments(number), bucket_key="k", topic=TOPIC, cursor="c", epoch=number
        )
        say("created", number, bucket_id)
        kept.append(bucket_id)
        if len(kept) > 3:
            gone = kept.pop(number % 3)
            say("delete", gone)
            await store.delete_bucket_snapshot(gone)
            say("deleted", gone)


async def _replace(store: SnapshotStore, versions: range) -> None:
    for version in versions:
        say("replace", version)
        before = [entry.bucket_id for entry in (await store.list(TOPIC, "c")).entries]
        await store.replace(TOPIC, "c", remove=before, add=catalogue_of(version), epoch=version)
        say("replaced", version)


async def work(path: str, chunk_bytes: str, faults: str, first_number: str) -> None:
    """Create, replace and delete until the process is killed."""
    first = int(first_number)
    store = FaultyStorage(SqliteStorage(Path(path), chunk_bytes=int(chunk_bytes)), parse_fault_plan(faults))
    await store.start()
    say("started")
    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(_create_and_delete(store, range(first + writer, sys.maxsize, WRITERS)))
        group.create_task(_replace(store, range(first, sys.maxsize)))


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
