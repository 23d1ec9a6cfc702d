"""After kill -9 of a real process the add log opens, and every append that returned is there."""

import asyncio
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from delayed_tracker.storage.sqlite.add_log import log_path_of
from tests.repository.project_tree import ROOT
from tests.snapshot_storage.add_log.log_files import started
from tests.snapshot_storage.add_log.log_worker import CURSORS, TOPIC, WRITER, record_of
from tests.snapshot_storage.sqlite.sqlite_files import ask

pytestmark = pytest.mark.slow


@dataclass
class Said:
    """Highest numbers that the worker has named, by step and cursor, over all its restarts."""

    numbers: dict[str, dict[str, int]] = field(default_factory=dict)

    def hear(self, line: bytes) -> None:
        step, *words = line.decode().split()
        of_step = self.numbers.setdefault(step, dict.fromkeys(CURSORS, 0))
        for word in words:
            cursor, _, number = word.partition("=")
            of_step[cursor] = max(of_step[cursor], int(number))

    def of(self, step: str, cursor: str) -> int:
        return self.numbers.get(step, {}).get(cursor, 0)


async def run_worker(
    path: Path, said: Said, seed: int, *, faults: str = "", kill_after_lines: int | None = None
) -> None:
    """Run the worker until it has written a number of lines or its faults kill it; record all its lines."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.snapshot_storage.add_log.log_worker",
        str(path),
        faults,
        str(seed),
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert worker.stdout is not None
    heard = 0
    try:
        async for line in worker.stdout:
            said.hear(line)
            heard += 1
            if heard == kill_after_lines:
                worker.kill()
    except BaseException:
        worker.kill()
        raise
    assert await worker.wait() == -signal.SIGKILL


async def audit(path: Path, said: Said) -> dict[str, int]:
    """Check that the log has what returned and nothing that was not begun; return each tracker's last number."""
    last = {}
    async with started(log_path_of(path)) as log:
        for cursor in CURSORS:
            last[cursor] = (await log.take_over(TOPIC, cursor, epoch=1, writer=WRITER)).last_number
            assert said.of("appended", cursor) <= last[cursor] <= said.of("append", cursor)
            page = await log.read(TOPIC, cursor, after=said.of("cut", cursor), bytes_max=1 << 40)
            assert (page.corrupt, page.is_last) == ((), True)
            assert [logged.number for logged in page.records] == list(
                range(said.of("cut", cursor) + 1, last[cursor] + 1)
            )
            assert all(logged.record == record_of(cursor, logged.number) for logged in page.records)
    return last


@pytest.mark.long
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.deep)])
async def test_every_append_that_returned_survives_kills(tmp_path: Path, kills: int):
    """One file survives all kills, with appends and cuts in flight each time."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path, said = tmp_path / "db", Said()
    for _ in range(kills):
        await run_worker(path, said, rng.randrange(2**32), kill_after_lines=rng.randrange(2, 300))
        last = await audit(path, said)
        # The next worker goes on from what is stored, which may be below what the last one had begun.
        said.numbers["append"] = dict(last)
        said.numbers["cut"] = {cursor: min(said.of("cut", cursor), last[cursor]) for cursor in CURSORS}
    assert sum(last.values()) > 0
    assert ask(log_path_of(path), "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.long
@pytest.mark.parametrize(
    "point", ["append.before", "append.commit", "append.after", "cut.before", "cut.commit", "cut.after"]
)
async def test_a_kill_at_each_named_point(tmp_path: Path, point: str):
    """An append is in the log as a whole or not at all, and so is a cut."""
    path, said = tmp_path / "db", Said()
    await run_worker(path, said, 1, faults=f"exit={point}:4")
    last = await audit(path, said)
    begun = {cursor: said.of("append", cursor) for cursor in CURSORS}
    returned = {cursor: said.of("appended", cursor) for cursor in CURSORS}
    match point:
        case "append.after":
            assert last == begun != returned
        case "append.before" | "append.commit":
            assert last == returned != begun
        case _:
            assert last == returned == begun
            assert said.numbers["cut"] != said.numbers["was_cut"]
