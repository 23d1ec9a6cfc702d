"""Deletes garbage from the service: a look, the grace time, a look again, and a last one before each deletion.

With a file of ``--state`` one run makes one look, and the file has the looks of the runs before. Without it the run waits
for the grace time itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from delayed_tracker.cli.pulsar.gc_state import GcState
from delayed_tracker.cli.pulsar.missing_cursors import Judged, Look, MissingCursor, Rules, Scope, Verdict, look
from delayed_tracker.client import DelayedTrackerClient
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.listing import ClusterListing
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.storage.maintenance.working import Sleep

_WAIT_STEPS_MAX: Final = 100
"""Steps in which the progress of waiting is shown; each takes a second at least."""


@dataclass(frozen=True, slots=True)
class Request:
    """Options of a run."""

    service: str
    """Address of the service, for messages and the file of the state."""
    scope: Scope
    rules: Rules
    state: Path | None = None
    """File with the looks of earlier runs; None waits for the grace time within the run."""
    dry_run: bool = False

    @property
    def waits(self) -> bool:
        """True if the run itself makes two looks."""
        return self.state is None and self.rules.grace_ms > 0


@dataclass(frozen=True, slots=True)
class Shown:
    """Ways in which a run shows its work, and asks before it deletes."""

    phase: Callable[[str, str], Progress]
    """Returns the progress of a phase with a title, in a unit."""
    planned: Callable[[Look, list[Judged]], None]
    """Called with what the first look has found."""
    consent: Callable[[int], Awaitable[None]]
    """Returns if this number of trackers may be deleted; raises BadUsage otherwise."""
    report: Callable[[str], None]
    """Called with a sentence about each deletion."""


@dataclass(frozen=True, slots=True)
class DeletedTracker:
    """A tracker that was deleted."""

    topic: str
    subscription: str
    deleted_count: int
    """Positions that it tracked."""


@dataclass(slots=True)
class Collected:
    """Result of a run."""

    found: Look
    """The last look."""
    judged: list[Judged]
    """All trackers that it found without a cursor."""
    now_ms: int
    """Time of the last look, in milliseconds since 1970."""
    deleted: list[DeletedTracker] | None = None
    """None if nothing was to be deleted, or only to be shown."""
    reappeared: list[MissingCursor] = field(default_factory=list)
    """Trackers whose cursor was there again right before the deletion; they are left."""


async def collect(
    cluster: Cluster,
    client: DelayedTrackerClient,
    request: Request,
    shown: Shown,
    *,
    now_ms: int,
    sleep: Sleep = asyncio.sleep,
) -> Collected:
    """Delete the trackers of the service whose cursors are missing from the cluster for the grace time.

    Args:
        cluster: is connected.
        client: of the service.
        request: which trackers, and when.
        shown: progress, tables and questions.
        now_ms: time of the begin, in milliseconds since 1970.
        sleep: waits, in seconds.
    Raises:
        BadUsage: the answer to the question was no; nothing was deleted.
        GcStateInvalid, GcStateUnusable, InvalidInput: of the state; nothing was deleted.
        TooManyTrackers: choose fewer topics; nothing was deleted.
        ZooKeeperUnavailable, AccessDenied, TrackerCallError: of a look: nothing was deleted. Between deletions: those that
            were reported before were made.
    """
    state = None
    if request.state is not None:
        state = await GcState.of(request.state, cluster, request.service, request.scope)
    before = {} if state is None else state.read()
    found = await look(cluster, client, request.scope, progress=shown.phase("looking for cursors", "trackers"))
    made = Collected(found, request.rules.judge(found, before, now_ms), now_ms)
    shown.planned(made.found, made.judged)
    if request.dry_run:
        return made
    if state is not None:
        state.write({one.missing.key: one.sighting for one in made.judged})
    wanted = [one for one in made.judged if is_wanted(one, request)]
    if not wanted:
        return made
    await shown.consent(len(wanted))
    if request.waits:
        await _wait(request.rules.grace_ms / 1_000, shown.phase("waiting", "seconds"), sleep)
        await cluster.client.zookeeper.until_connected()
        # What was not asked about begins anew.
        before = {one.missing.key: one.sighting for one in wanted}
        made.found = await look(cluster, client, request.scope, progress=shown.phase("looking again", "trackers"))
        # The time that was waited for: the wall clock may have been set meanwhile.
        made.now_ms = now_ms + request.rules.grace_ms
        made.judged = request.rules.judge(made.found, before, made.now_ms)
    await _delete(cluster, client, made, shown)
    if state is not None:
        assert made.deleted is not None
        gone = {(one.topic, one.subscription) for one in made.deleted} | {one.key for one in made.reappeared}
        state.write({one.missing.key: one.sighting for one in made.judged if one.missing.key not in gone})
    return made


def is_wanted(one: Judged, request: Request) -> bool:
    """Return True if the run will delete a tracker, as far as the first look can tell."""
    return one.verdict is Verdict.GARBAGE or (request.waits and one.verdict is Verdict.WAITING)


async def _wait(seconds: float, progress: Progress, sleep: Sleep) -> None:
    """Wait in steps, each of which is shown."""
    steps = max(1, min(_WAIT_STEPS_MAX, int(seconds)))
    for step in range(1, steps + 1):
        await sleep(seconds / steps)
        progress(round(step * seconds / steps), round(seconds))


async def _delete(cluster: Cluster, client: DelayedTrackerClient, made: Collected, shown: Shown) -> None:
    """Delete the garbage one after the other, each after another look for its cursor."""
    garbage = [one.missing for one in made.judged if one.verdict is Verdict.GARBAGE]
    listing = ClusterListing(cluster)
    progress = shown.phase("deleting", "trackers")
    made.deleted = []
    for number, missing in enumerate(garbage, start=1):
        topic, subscription = missing.key
        if await listing.has_cursor(missing.topic, subscription, newest=True):
            made.reappeared.append(missing)
        else:
            # Without an epoch: the subscription is gone, and with it the owner.
            count = await client.delete_tracker(topic, subscription)
            made.deleted.append(DeletedTracker(topic, subscription, count))
            shown.report(f"{topic}, {subscription!r}: deleted, with {count} tracked messages")
        progress(number, len(garbage))
