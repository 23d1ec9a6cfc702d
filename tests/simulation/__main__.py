"""``python -m tests.simulation --seeds 10000``: simulated histories with faults and crashes, on all cores.

A history that fails prints its seed, its last events and the error, and the command ends with 1. ``--first SEED --seeds 1``
runs it again, with the same events.
"""

import argparse
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import structlog

from tests.simulation.mutations import WORLD_NAMES, mutate

STEP_COUNT = 64

CHUNK = 10
FAILURES_SHOWN = 5


def run_chunk(first, count, *, step_count, world_name):
    """Run histories one after the other; return the seeds that failed with what they print, and what came again."""
    # A mutation comes before the code is imported.
    from tests.simulation.history import WORLDS, run_history  # noqa: PLC0415

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    failures, crash_count, came_again_max = [], 0, 0
    for seed in range(first, first + count):
        try:
            world = run_history(seed, step_count, WORLDS[world_name])
        except BaseException as error:  # noqa: BLE001  # each failure is reported with its seed
            failures.append((seed, "".join(traceback.format_exception(error, limit=-4))))
        else:
            crash_count += world.crash_count
            came_again_max = max(came_again_max, world.came_again_max)
    return failures, crash_count, came_again_max


def until_failure(first, count, step_count, world_name):
    """Run histories one after the other until one fails; return the exit code."""
    for seed in range(first, first + count):
        failures, _, _ = run_chunk(seed, 1, step_count=step_count, world_name=world_name)
        if failures:
            print(f"seed {seed} failed:\n{failures[0][1]}")
            return 1
    return 0


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=300, help="number of histories (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=STEP_COUNT, help="steps of each history (default: %(default)s)")
    parser.add_argument("--mutation", type=int, help="put this defect into the code, and end at the first failure")
    parser.add_argument(
        "--world",
        choices=WORLD_NAMES,
        default="log",
        help="an add log in the storage, one on each machine, or none (default: %(default)s)",
    )
    given = parser.parse_args()
    if given.mutation is not None:
        mutate(given.mutation)
        sys.exit(until_failure(given.first, given.seeds, given.steps, given.world))
    begun = time.monotonic()
    failures, crash_count, came_again_max, done = [], 0, 0, 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        firsts = range(given.first, given.first + given.seeds, CHUNK)
        counts = [min(CHUNK, given.first + given.seeds - first) for first in firsts]
        for count, (failed, crashes, again) in zip(
            counts,
            pool.map(partial(run_chunk, step_count=given.steps, world_name=given.world), firsts, counts),
            strict=True,
        ):
            done += count
            crash_count += crashes
            came_again_max = max(came_again_max, again)
            failures += failed
            for seed, shown in failed:
                if len(failures) <= FAILURES_SHOWN:
                    print(f"seed {seed} failed:\n{shown}", flush=True)
            if done % 200 < count:
                print(f"{done} histories, {len(failures)} failed, {time.monotonic() - begun:.0f} s", flush=True)
    print(
        f"{done} histories with {crash_count} crashes in {time.monotonic() - begun:.0f} s; at most {came_again_max} "
        f"acknowledged positions came again after a crash; {len(failures)} failed: {[seed for seed, _ in failures]}"
    )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
