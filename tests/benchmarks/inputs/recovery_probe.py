"""Recover a tracker twice in this process, and print the time until each first correct answer, as JSON.

python -m tests.benchmarks.inputs.recovery_probe PATH BUCKET_INDEXES
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.telemetry.logs import configure_logging
from tests.benchmarks.inputs.hosted import hosted


async def recovered(data: Path, bucket: int, now_ms: int) -> tuple[float, int]:
    """Return milliseconds from opening the storage to the first answer, and the number of positions."""
    asked = PositionColumns.of([(1, 0), (1, bucket)])
    started_ns = time.perf_counter_ns()
    async with hosted(data, TrackerLimits(min_index_count_per_bucket=bucket), now_ms=now_ms) as tracker:
        answer = tracker.host.contains(asked).tolist()
        elapsed_ms = (time.perf_counter_ns() - started_ns) / 1e6
        if answer != [True, False]:
            raise SystemExit(f"the first answer is wrong: {answer}")
        return elapsed_ms, tracker.host.stats().pending_count


def main(data: Path, bucket: int) -> None:
    """Print {"ms": [first, second], "pending": [first, second]}."""
    configure_logging("console", "warning")
    now_ms = time.time_ns() // 1_000_000
    times, counts = zip(*(asyncio.run(recovered(data, bucket, now_ms)) for _ in range(2)), strict=True)
    print(json.dumps({"ms": times, "pending": counts}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
