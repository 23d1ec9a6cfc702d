"""Time until a restarted service answers correctly about a stored position, from nothing in memory."""

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from tests.benchmarks.inputs.hosted import KEY
from tests.benchmarks.inputs.serving import served
from tests.benchmarks.inputs.shapes import Shape
from tests.benchmarks.inputs.stored import store_buckets
from tests.benchmarks.machine import cached_share, forget_cached_pages
from tests.benchmarks.measure import Run, require
from tests.benchmarks.rows import Row, Unit
from tests.repository.project_tree import ROOT

ABOUT = (
    "20 and 200 buckets in SQLite, written and closed by another process. Each repeat is a process of its own, so nothing "
    "is warm in it; measured is from opening the storage to the answer that one position is tracked and another is not. "
    "For a cold file cache the file is written back and its pages are dropped (posix_fadvise, DONTNEED), checked with "
    "fincore. Again: the same process closes everything and opens it once more. The last rows are the whole service: "
    "from starting the process to the answer over gRPC."
)
CACHED_SHARE_MAX = 0.05


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure cached, cold, again, and the whole service, at each number of pending indexes."""
    for pending in run.scale.pending:
        key = "recovery 1M" if pending <= 1_000_000 else "recovery"
        data = run.new_directory() / "tracker.db"
        await store_buckets(run, f"sqlite:{data}", pending)
        cached, again = _recovered(run, data, pending, is_cold=False)
        yield Row(key, "open to first answer, file cached", Unit.MS, cached, pending, Shape.WEEK)
        yield Row(key, "open to first answer, again in the same process", Unit.MS, again, pending, Shape.WEEK)
        forget_cached_pages(data)
        share = cached_share(data)
        if share is None or share > CACHED_SHARE_MAX:
            run.skip(f"recovery with a cold file cache: {share if share is not None else 'fincore is missing'}")
        else:
            cold, _ = _recovered(run, data, pending, is_cold=True)
            yield Row(key, "open to first answer, cold file cache", Unit.MS, cold, pending, Shape.WEEK)
        started = [
            await _service_started(run, data, pending)
            for _ in run.fresh_repeats(f"service over {pending:,} pending", is_long=False)
        ]
        yield Row(
            "restart", "start of the process to first answer over gRPC", Unit.MS, tuple(started), pending, Shape.WEEK
        )


def _recovered(run: Run, data: Path, pending: int, *, is_cold: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the milliseconds to the first answer, and to that of a second opening, for each repeat."""
    what = f"recovery of {pending:,}, {'cold file cache' if is_cold else 'file cached'}"
    first, second = [], []
    for _ in run.fresh_repeats(what, is_long=False):
        if is_cold:
            forget_cached_pages(data)
        cold_ms, warm_ms = recover_elsewhere(run, what, f"sqlite:{data}", pending)
        first.append(cold_ms)
        second.append(warm_ms)
    return tuple(first), tuple(second)


def recover_elsewhere(run: Run, what: str, url: str, pending: int, *, with_log: bool = False) -> tuple[float, float]:
    """Return the milliseconds to the first answer of a new process over a storage, and to that of a second opening."""
    command = [sys.executable, "-m", "tests.benchmarks.inputs.recovery_probe", url, str(run.scale.bucket)]
    command += ["with-log"] if with_log else []
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    answer = json.loads(said)
    require(what, answer["pending"] == [pending, pending])
    return answer["ms"][0], answer["ms"][1]


async def _service_started(run: Run, data: Path, pending: int) -> float:
    started_ns = time.perf_counter_ns()
    settings = {"delayedDeliveryMinIndexCountPerBucket": str(run.scale.bucket)}
    async with (
        served(run, settings, data=data) as service,
        await service.client.open_tracker(KEY.topic, KEY.subscription) as session,
    ):
        answer = await session.contains([1, 1], [0, run.scale.bucket])
        elapsed_ms = (time.perf_counter_ns() - started_ns) / 1e6
        require("service", answer == [True, False] and session.opened.recovered_count == pending)
    return elapsed_ms
