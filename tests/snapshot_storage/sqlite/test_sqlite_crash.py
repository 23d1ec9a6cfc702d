"""After kill -9 of a real process the file opens, and its committed content is there and verifies."""

import asyncio
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from delayed_tracker.storage.protocol import CatalogueState
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from tests.repository.project_tree import ROOT
from tests.snapshot_storage.crash_worker import TOPIC, catalogue_of, entries_of
from tests.snapshot_storage.sqlite.sqlite_files import ask, started

NUMBERS_PER_RUN = 1_000_000
CHUNK_BYTES = 20_000
"""Size at which most snapshots take several transactions."""
ONE_TRANSACTION = 10_000_000

pytestmark = pytest.mark.slow


@dataclass
class Ledger:
    """Output of the worker, over all its restarts."""

    created: dict[int, int] = field(default_factory=dict)
    """Bucket id -> number of the snapshot."""
    creates_begun: set[int] = field(default_factory=set)
    deletes_begun: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    replaces_begun: int = 0
    replaced: int = 0

    def hear(self, line: bytes) -> None:
        match line.decode().split():
            case ["create", number]:
                self.creates_begun.add(int(number))
            case ["created", number, bucket_id]:
                assert int(bucket_id) not in self.created, "an id was given out twice"
                self.created[int(bucket_id)] = int(number)
            case ["delete", bucket_id]:
                self.deletes_begun.add(int(bucket_id))
            case ["deleted", bucket_id]:
                self.deleted.add(int(bucket_id))
            case ["replace", version]:
                self.replaces_begun = int(version)
            case ["replaced", version]:
                self.replaced = int(version)
            case ["started"]:
                pass
            case words:
                raise AssertionError(f"the worker said {words}")


async def run_worker(
    path: Path,
    ledger: Ledger,
    *,
    first: int = 1,
    faults: str = "",
    chunk_bytes: int = CHUNK_BYTES,
    kill_after_lines: int | None = None,
) -> None:
    """Run the worker until it has written a number of lines or its faults kill it; record all its lines."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.snapshot_storage.crash_worker",
        str(path),
        str(chunk_bytes),
        faults,
        str(first),
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert worker.stdout is not None
    heard = 0
    try:
        async for line in worker.stdout:
            ledger.hear(line)
            heard += 1
            if heard == kill_after_lines:
                worker.kill()
    except BaseException:
        worker.kill()
        raise
    assert await worker.wait() == -signal.SIGKILL


async def audit(storage: SqliteStorage, ledger: Ledger) -> None:
    """Check that every finished step is in the storage, and that all content belongs to a step and verifies."""
    listed = {snapshot.bucket_id: snapshot.epoch for snapshot in await storage.list_bucket_snapshots(TOPIC, "c")}
    assert ledger.created.keys() - ledger.deletes_begun <= listed.keys()
    assert not ledger.deleted & listed.keys()
    for bucket_id, epoch in listed.items():
        number = int(await storage.get_bucket_snapshot_metadata(bucket_id))
        assert number in ledger.creates_begun
        assert ledger.created.get(bucket_id, number) == number
        assert epoch == number
        expected = entries_of(number)
        assert await storage.get_bucket_snapshot_segments(bucket_id, 1, len(expected) - 1) == expected[1:]
        assert await storage.get_bucket_snapshot_length(bucket_id) == sum(map(len, expected))
    versions = {ledger.replaced, ledger.replaces_begun} - {0}
    state = await storage.list(TOPIC, "c")
    assert state in [CatalogueState(version, catalogue_of(version)) for version in versions] or not ledger.replaced


@pytest.mark.long
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.deep)])
async def test_kills_at_random_moments(tmp_path: Path, kills: int):
    """One file survives all kills, with creates, replaces and deletes in flight each time."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = tmp_path / "db"
    ledger = Ledger()
    swept = 0
    for kill in range(kills):
        first = 1 + kill * NUMBERS_PER_RUN
        await run_worker(path, ledger, first=first, kill_after_lines=rng.randrange(2, 300))
        async with started(path) as storage:
            swept += storage.swept_count
            await audit(storage, ledger)
            # A replace may be stored whose answer was not read, and the next worker may end before it makes another.
            ledger.replaced = ledger.replaces_begun = (await storage.list(TOPIC, "c")).epoch
    print(f"{len(ledger.created)} created, {len(ledger.deleted)} deleted, {ledger.replaced} replaced, {swept} swept")
    assert len(ledger.created) > kills
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    nobodys = "SELECT count(*) FROM entries WHERE entry_key >> 24 NOT IN (SELECT bucket_id FROM snapshots)"
    assert ask(path, nobodys) == [(0,)]


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    [
        "create.before:4",
        "create.commit:4",
        "create.after:4",
        "replace.before:4",
        "replace.commit:4",
        "replace.after:4",
        "delete.before:2",
        "delete.commit:2",
        "delete.after:2",
    ],
)
async def test_a_kill_at_each_named_point(tmp_path: Path, point: str):
    """The storage is sound after a kill before and after each decisive commit."""
    path = tmp_path / "db"
    ledger = Ledger()
    await run_worker(path, ledger, faults=f"exit={point}", chunk_bytes=ONE_TRANSACTION)
    async with started(path) as storage:
        await audit(storage, ledger)
        listed = {found.bucket_id for found in await storage.list_bucket_snapshots(TOPIC, "c")}
        version = (await storage.list(TOPIC, "c")).epoch
    unspoken = listed - ledger.created.keys()
    undeleted = (ledger.deletes_begun - ledger.deleted) & listed
    match point.partition(":")[0]:
        case "create.after":
            assert unspoken
        case "replace.before" | "replace.commit":
            assert (version, ledger.replaces_begun) == (3, 4)
        case "replace.after":
            assert (version, ledger.replaced) == (4, 3)
        case "delete.before" | "delete.commit":
            assert undeleted
        case "delete.after":
            assert ledger.deletes_begun - ledger.deleted - listed


async def test_a_kill_between_chunks_is_swept_and_counted(tmp_path: Path):
    """A partly written snapshot is invisible, and deleted by the next start."""
    path = tmp_path / "db"
    ledger = Ledger()
    await run_worker(path, ledger, faults="exit=create.chunk")
    async with started(path) as storage:
        assert storage.swept_count == 1
        await audit(storage, ledger)
    async with started(path) as storage:
        assert storage.swept_count == 0
