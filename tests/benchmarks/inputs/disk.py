"""Fsyncs of a small file, in a process of its own: how long the disk takes beside what is measured.

python -m tests.benchmarks.inputs.disk DIRECTORY PAUSE_MS

Each writes 4 KiB and waits for fdatasync, as a commit of the add log does. It goes on until stdin closes, and then prints
the durations in milliseconds, as JSON.
"""

import asyncio
import json
import os
import select
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.repository.project_tree import ROOT

_BLOCK = bytes(4096)


@asynccontextmanager
async def fsyncs(directory: Path, *, pause_ms: int) -> AsyncIterator[Callable[[], list[float]]]:
    """Fsync a file in a directory until the end of the block.

    Yields: a function that returns the durations in milliseconds, ascending; to be called after the block.
    """
    command = (sys.executable, "-m", "tests.benchmarks.inputs.disk", str(directory), str(pause_ms))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT)
    assert process.stdout is not None
    durations_ms: list[float] = []
    try:
        await process.stdout.readline()
        yield lambda: durations_ms
        said, _ = await process.communicate(b"")  # an empty input closes stdin
        durations_ms += sorted(json.loads(said))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def main(directory: Path, pause_ms: int) -> None:
    """Print a line before the first fsync, and the durations at the end."""
    durations_ms: list[float] = []
    descriptor = os.open(directory / "fsyncs", os.O_WRONLY | os.O_CREAT)
    try:
        print("begun", flush=True)
        while True:
            os.pwrite(descriptor, _BLOCK, len(_BLOCK) * (len(durations_ms) % 1024))
            begun_s = time.perf_counter()
            os.fdatasync(descriptor)
            durations_ms.append((time.perf_counter() - begun_s) * 1e3)
            if select.select([sys.stdin], [], [], pause_ms / 1e3)[0]:
                break
    finally:
        os.close(descriptor)
    print(json.dumps(durations_ms))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
