"""Recover a tracker twice in this process, and print the time until each first correct answer, as JSON.

python -m tests.benchmarks.inputs.recovery_probe STORAGE_URL BUCKET_INDEXES [with-log]
"""

import asyncio
import json
import sys
import time

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.telemetry.logs import configure_logging
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.registry import open_storage
from tests.benchmarks.inputs.hosted import hosted_over


async def recovered(url: str, bucket: int, now_ms: int, *, with_log: bool) -> tuple[float, int]:
    """Return milliseconds from opening storage and add log to the first answer, and the number of positions."""
    asked = PositionColumns.of([(1, 0), (1, bucket)])
    started_ns = time.perf_counter_ns()
    limits = TrackerLimits(min_index_count_per_bucket=bucket)
    add_log = open_add_log(url) if with_log else None
    async with hosted_over(open_storage(url), limits, now_ms=now_ms, add_log=add_log) as tracker:
        answer = tracker.host.contains(asked).tolist()
        elapsed_ms = (time.perf_counter_ns() - started_ns) / 1e6
        if answer != [True, False]:
            raise SystemExit(f"the first answer is wrong: {answer}")
        return elapsed_ms, tracker.host.stats().pending_count


def main(url: str, bucket: int, *, with_log: bool) -> None:
    """Print {"ms": [first, second], "pending": [first, second]}."""
    configure_logging("console", "warning")
    now_ms = time.time_ns() // 1_000_000
    times, counts = zip(
        *(asyncio.run(recovered(url, bucket, now_ms, with_log=with_log)) for _ in range(2)), strict=True
    )
    print(json.dumps({"ms": times, "pending": counts}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), with_log="with-log" in sys.argv[3:])
