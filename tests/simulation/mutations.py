"""Defects put into the code, one at a time, as it is imported or around its functions: the simulation must find each.

``python -m tests.simulation.mutations`` tries all of them and prints how many seeds each took.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import wraps
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEEDS_MAX = 1_000
WORLD_NAMES = ("log", "log-apart", "no-log")
CORE = "tracker/delayed_tracker/core"
SERVICE = "tracker/delayed_tracker/service"
STORAGE = "snapshot_storage/delayed_tracker/storage"


@dataclass(frozen=True)
class Mutation:
    """A passage of a file, which occurs once in it, and what stands there instead."""

    name: str
    path: str
    passage: str
    instead: str
    world: str = "log"
    """Name of the histories that find it; see ``history.WORLDS``."""

    def put_in(self):
        sys.meta_path.insert(0, MutatingFinder(self))

    @property
    def count(self):
        """Number of places that it changes: 1, or it no longer fits the code."""
        return (ROOT / self.path).read_text().count(self.passage)


@dataclass(frozen=True)
class Unlogged:
    """Verbs of the core whose changes of one kind are not noted for the log."""

    name: str
    verbs: tuple[str, ...]
    change: str
    world = "log"

    def put_in(self):
        core, state, kind = self._found()
        note, within = state.note, []

        def noted(self, change):
            if not (within and isinstance(change, kind)):
                note(self, change)

        def unlogged(verb):
            @wraps(verb)
            def run(*args, **kwargs):
                within.append(verb)
                try:
                    return verb(*args, **kwargs)
                finally:
                    within.pop()

            return run

        state.note = noted
        for name in self.verbs:
            setattr(core, name, unlogged(getattr(core, name)))

    @property
    def count(self):
        core, _, kind = self._found()
        return int(isinstance(kind, type) and all(callable(getattr(core, name, None)) for name in self.verbs))

    def _found(self):
        # Imported here: passages are changed before the code is imported.
        from delayed_tracker.core.core import TrackerCore  # noqa: PLC0415
        from delayed_tracker.core.engine.state import TrackerState  # noqa: PLC0415
        from delayed_tracker.core.values import changes  # noqa: PLC0415

        return TrackerCore, TrackerState, getattr(changes, self.change, None)


@dataclass(frozen=True)
class Answered:
    """Calls that do not wait for the log."""

    name: str
    world = "log"

    def put_in(self):
        async def at_once(_self, _number=None):
            pass

        self._host().until_durable = at_once

    @property
    def count(self):
        return int(hasattr(self._host(), "until_durable"))

    def _host(self):
        from delayed_tracker.service.trackers.host import TrackerHost  # noqa: PLC0415

        return TrackerHost


MUTATIONS = (
    Mutation(
        "skip the check of an older epoch",
        f"{STORAGE}/protocol.py",
        "    if epoch < epoch_now:\n",
        "    if epoch < 0:\n",
    ),
    Answered("answer before the commit"),
    Mutation(
        "cut the log before the catalogue contains its records",
        f"{SERVICE}/trackers/checkpoints.py",
        "            recorded = await self._gate.runner.writer.record_consumed(look)\n",
        "            await self._gate.cut_log(look().mark.number)\n"
        "            recorded = await self._gate.runner.writer.record_consumed(look)\n",
    ),
    Mutation(
        "cut all of the log at a checkpoint",
        f"{SERVICE}/trackers/checkpoints.py",
        "        through = None if self._gate.log is None else core.contained_through()\n",
        "        through = None if self._gate.log is None else core.last_change\n",
    ),
    Mutation(
        "leave drained buckets in the catalogue when the records that tell of it are cut",
        f"{SERVICE}/trackers/checkpoints.py",
        "            core.undeleted() | self._gate.runner.stale_catalogue_ids,\n",
        "            (),\n",
    ),
    Mutation(
        "delete a snapshot before the catalogue has dropped it",
        f"{SERVICE}/storage/runner.py",
        "                await self.writer.drop(effect.bucket_ids, epoch=effect.epoch, void_through=effect.void_through)\n",
        "                for bucket_id in effect.bucket_ids:\n"
        "                    await self._try_to_delete(bucket_id)\n"
        "                await self.writer.drop(effect.bucket_ids, epoch=effect.epoch, void_through=effect.void_through)\n",
    ),
    Mutation(
        "let the catalogue forget what the log does not have yet",
        f"{SERVICE}/storage/snapshot_writer.py",
        "        await self._results.until_logged()\n\n    def default_mark(",
        "        return\n\n    def default_mark(",
    ),
    Mutation(
        "record consumed positions that the log does not have yet",
        f"{SERVICE}/storage/snapshot_writer.py",
        "                await self._results.until_logged()\n                # A catalogue",
        "                # A catalogue",
    ),
    Mutation(
        "delete the snapshots of a fenced writer although the catalogue names them",
        f"{STORAGE}/publication.py",
        "for bucket_id in bucket_ids if bucket_id not in named])",
        "for bucket_id in bucket_ids])",
    ),
    Mutation(
        "keep the claim at a clear",
        f"{CORE}/engine/barriers.py",
        "    state.offered_through = BEFORE_ALL\n    state.counters.cleared",
        "    state.counters.cleared",
    ),
    Mutation(
        "keep the log at a clear",
        f"{CORE}/engine/lifecycle.py",
        "void_through=None if journal is None else journal.last_number)",
        "void_through=None)",
    ),
    Mutation(
        "keep the log at a clear of a tracker that is not loaded",
        f"{SERVICE}/storage/stored_tracker.py",
        "        void = self.void_mark(state, extent)\n",
        "        void = state.log_mark\n",
    ),
    Mutation(
        "do not log a move of the cursor",
        f"{CORE}/engine/removing.py",
        "    state.note(CursorMoved(mark_delete, through))\n",
        "",
    ),
    Mutation(
        "lower the mark-delete position without the consumed positions",
        f"{SERVICE}/storage/cursor_fall.py",
        "mark_delete=known, consumed=consumed)",
        "mark_delete=known)",
        world="no-log",  # an add log has the consumed positions, too
    ),
    Mutation(
        "leave the old mark-delete position in the catalogue's entries",
        f"{SERVICE}/storage/cursor_fall.py",
        "mark_delete=known, consumed=consumed)",
        "consumed=consumed)",
    ),
    Mutation(
        "keep the claim at a move of the cursor",
        f"{CORE}/engine/state.py",
        "        self.offered_through = min(self.offered_through, mark_delete)\n",
        "",
    ),
    Unlogged("do not log a cancel", ("cancel",), "Removed"),
    Unlogged("do not log an acknowledgement", ("ack", "ack_leases"), "Removed"),
    Unlogged("do not log a hand-off", ("pop_due",), "Removed"),
    Unlogged("do not log a new deadline", ("reschedule", "nack"), "Rescheduled"),
    Unlogged("do not log a position that is answered as due", ("add",), "Removed"),
    Mutation(
        "forget that late positions are in memory only",
        f"{CORE}/engine/lifecycle.py",
        "for bucket in (state.mutable, state.late, *self._storing())",
        "for bucket in (state.mutable, *self._storing())",
    ),
    Mutation(
        "forget that a bucket is still being stored",
        f"{CORE}/engine/lifecycle.py",
        "for bucket in (state.mutable, state.late, *self._storing())",
        "for bucket in (state.mutable, state.late, *(what for what in self._retries.values() if isinstance(what, Bucket)))",
    ),
    Mutation(
        "forget that a bucket waits to be stored again",
        f"{CORE}/engine/lifecycle.py",
        "for bucket in (state.mutable, state.late, *self._storing())",
        "for bucket in (state.mutable, state.late, *self._stores.values())",
    ),
    Mutation(
        "apply a new deadline beside the old one",
        f"{CORE}/rules/net_changes.py",
        "steps.append((number, True, True))",
        "steps.append((number, False, True))",
    ),
    Mutation(
        "skip what is due at a recovery",
        f"{SERVICE}/storage/recovery.py",
        "        cutoff_ms = None if self._access.logs_changes else limits",
        "        cutoff_ms = limits",
    ),
    Mutation(
        "read the catalogue before the older owner is fenced",
        f"{STORAGE}/maintenance/claiming.py",
        "        state_after = await attempt(partial(storage.list, *tracker))\n",
        "        state_after = state\n",
    ),
    Mutation(
        "forget the records of a commit that failed",
        f"{SERVICE}/storage/log_writer.py",
        "        self._waiting = dict.fromkeys(tracker for tracker in trackers if not tracker.is_lost) | self._waiting\n",
        "",
    ),
    Mutation(
        "leave the consumption window open",
        f"{SERVICE}/storage/log_writer.py",
        "        if self.unwritten_removed_count >= self.limits.consumption_window_positions:\n            return True\n",
        "        return False\n",
    ),
    Mutation(
        "answer every call at the next commit",
        f"{SERVICE}/storage/tracker_log.py",
        "        self._wake(lambda number: number <= through, None)\n",
        "        self._wake(lambda number: True, None)\n",
    ),
    Mutation(
        "drop the wake-ups of leases and retries",
        f"{SERVICE}/trackers/gate.py",
        "        self._shared.timers.arm(self, Wakeup(when_ms, elapsed_ms))\n",
        "        self._shared.timers.arm(self, Wakeup(when_ms, None))\n",
    ),
    Mutation(
        "claim that snapshots cover what is in memory",
        f"{CORE}/engine/lifecycle.py",
        "        return min([claim, *(before(first) for first in outside)]) if claim != BEFORE_ALL else BEFORE_ALL\n",
        "        return claim\n",
        world="log-apart",
    ),
    Mutation(
        "count a bucket as stored in the commits of others",
        f"{CORE}/engine/lifecycle.py",
        "            if (bucket.snapshot is None or bucket.snapshot_lost) and bucket is not storing\n",
        "            if (bucket.snapshot is None or bucket.snapshot_lost) and bucket.is_open\n",
        world="log-apart",
    ),
    Mutation(
        "record what snapshots cover at checkpoints alone",
        f"{SERVICE}/storage/snapshot_writer.py",
        "        return self.stored_through()\n",
        "        return None\n",
        world="log-apart",
    ),
    Mutation(
        "take another machine's log for the own one",
        f"{SERVICE}/storage/recovery.py",
        "        if mark.log == self._access.log_id:\n",
        "        if mark.log:\n",
        world="log-apart",
    ),
    Mutation(
        "keep the claim of a log that is elsewhere",
        f"{SERVICE}/storage/recovery.py",
        "        claim = mark.stored_through\n",
        "        claim = mark.offered_through\n",
        world="log-apart",
    ),
    Mutation(
        "apply what the own log has of an earlier time",
        f"{SERVICE}/storage/recovery.py",
        "        own = LogMark(extent.last_number, claim, self._access.log_id, claim)\n",
        "        own = LogMark(0, claim, self._access.log_id, claim)\n",
        world="log-apart",
    ),
)


class Mutated(SourceFileLoader):
    """Loads the module of a mutation from its file, with the passage changed; the file stays as it is."""

    def __init__(self, fullname, path, mutation):
        super().__init__(fullname, path)
        self._mutation = mutation

    def get_code(self, fullname):
        return self.source_to_code(self.get_data(self.get_filename(fullname)), self.get_filename(fullname))

    def get_data(self, path):
        text = super().get_data(path).decode()
        mutation = self._mutation
        count = text.count(mutation.passage)
        assert count == 1, f"{mutation.name}: the passage occurs {count} times"
        return text.replace(mutation.passage, mutation.instead).encode()


class MutatingFinder(PathFinder):
    """Finds modules as Python does, and lets :class:`Mutated` load the one that a mutation changes."""

    def __init__(self, mutation):
        self._mutation = mutation

    def find_spec(self, fullname, path=None, target=None):
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin != str(ROOT / self._mutation.path):
            return None
        spec.loader = Mutated(fullname, spec.origin, self._mutation)
        return spec


def mutate(number):
    """Let this process run the code with one defect; before anything of the code is imported."""
    MUTATIONS[number].put_in()


def seeds_taken(mutation, seeds_max=SEEDS_MAX):
    """Return the number of seeds after which the simulation finds a defect, and what it says; None if it does not."""
    number = MUTATIONS.index(mutation)
    run = subprocess.run(
        [
            *(sys.executable, "-m", "tests.simulation", f"--mutation={number}", f"--seeds={seeds_max}"),
            f"--world={mutation.world}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"^seed (\d+) failed", run.stdout, re.MULTILINE)
    if found is None:
        assert run.returncode == 0, run.stderr[-2_000:]
        return None
    said = re.findall(r"^\w*(?:Error|Violation|Failed)\w*:? ?.*$", run.stdout, re.MULTILINE)
    return int(found[1]) + 1, said[0][:100] if said else ""


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="seeds for each (default: %(default)s)")
    parser.add_argument("--only", default="", help="only mutations whose name contains this")
    given = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if given.only in mutation.name]
    missed = 0
    print("| defect | seeds | found as |\n| --- | ---: | --- |")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        taken = pool.map(lambda mutation: seeds_taken(mutation, given.seeds), chosen)
        for mutation, found in zip(chosen, taken, strict=True):
            missed += found is None
            seeds, said = found or ("not found", "")
            print(f"| {mutation.name} | {seeds} | {said} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
