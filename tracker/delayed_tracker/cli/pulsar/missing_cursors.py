"""Looks for trackers of the service whose cursors are missing from a cluster, and judges which of them are garbage.

A look reads the service's trackers page by page, and asks ZooKeeper for the node of each one's cursor. One look proves
nothing: a topic may be about to be made, or restored. A tracker is garbage if two looks, the grace time apart, found its
cursor missing, and nobody has opened the tracker in between, which the service shows by another epoch.

Memory holds one page of trackers and those without a cursor, :data:`MISSING_MAX` at most.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from delayed_tracker.cli.terminal.failures import BadUsage
from delayed_tracker.client import DelayedTrackerClient, TrackerSummary
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.errors import TooManyTrackers
from delayed_tracker.cluster.listing import ClusterListing
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.storage.concurrent import for_each

MISSING_MAX: Final = 100_000
"""Trackers without a cursor that one look keeps, at about 1 kB each."""
_PAGE: Final = 1_000
"""Trackers that are listed by one call, and looked for before the next one."""
_AT_ONCE: Final = 64
"""Requests to ZooKeeper in flight, as of a listing of the cluster."""
_DOMAIN: Final = "persistent://"

Key = tuple[str, str]
"""Topic and subscription of a tracker, as the service has them."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Topics whose trackers are looked at."""

    topic: str = ""
    """Full name of the only topic, or of the partitioned topic whose partitions are meant; empty for any."""
    prefix: str = ""
    """Topics begin with this."""

    @classmethod
    def parse(cls, topic: str | None, prefix: str) -> Self:
        """Return what ``--topic`` and ``--topic-prefix`` choose.

        Raises:
            BadUsage: both are given.
            InvalidInput: the topic's name is none.
        """
        if topic is None:
            return cls(prefix=prefix)
        if prefix:
            raise BadUsage("--topic-prefix: give it or --topic, not both")
        return cls(str(TopicName.parse(topic)))

    @property
    def listed_prefix(self) -> str:
        """Prefix that the service is asked for."""
        return self.topic or self.prefix

    def includes(self, topic: str) -> bool:
        """Return True if a topic that begins with :attr:`listed_prefix` is meant."""
        return not self.topic or topic == self.topic or topic.startswith(f"{self.topic}-partition-")


@dataclass(frozen=True, slots=True)
class MissingCursor:
    """A tracker without a cursor, as a look found it."""

    topic: TopicName
    tracker: TrackerSummary
    has_namespace: bool
    """False if the cluster's metadata does not have the topic's namespace: it may be another cluster's."""

    @property
    def key(self) -> Key:
        """Topic and subscription."""
        return self.tracker.topic, self.tracker.subscription


@dataclass(frozen=True, slots=True)
class Look:
    """Result of a look at all trackers that are meant."""

    missing: tuple[MissingCursor, ...]
    """Ascending by topic and subscription."""
    tracker_count: int
    """Trackers of persistent topics."""
    other_count: int
    """Trackers of other names, which no cluster has; they are left alone."""


async def look(
    cluster: Cluster, client: DelayedTrackerClient, scope: Scope, *, progress: Progress, field: str = "CLUSTER"
) -> Look:
    """Look for the cursor of each tracker. Nothing is changed.

    Args:
        cluster: is connected.
        client: of the service.
        scope: which trackers.
        progress: called with trackers; the total is what is known so far.
        field: option of the cluster's address, for messages.
    Raises:
        InvalidInput: ZooKeeper has no node for topics.
        TooManyTrackers: more than :data:`MISSING_MAX` have no cursor.
        ZooKeeperUnavailable, AccessDenied: of any read; what is missing is then unknown.
        TrackerCallError: the service does not answer.
    Cost: a request to ZooKeeper for each tracker, and up to three for each that has no cursor; 64 at a time.
    """
    listing = ClusterListing(cluster)
    await cluster.client.zookeeper.sync(cluster.address.managed_ledgers)
    await cluster.require_topics(field)
    missing: list[MissingCursor] = []
    tracker_count = other_count = 0

    async def look_for(one: tuple[TopicName, TrackerSummary]) -> None:
        topic, tracker = one
        if not await listing.has_cursor(topic, tracker.subscription):
            missing.append(MissingCursor(topic, tracker, await listing.has_namespace(topic)))

    async def look_for_all(page: list[tuple[TopicName, TrackerSummary]]) -> None:
        nonlocal tracker_count
        await for_each(page, look_for, at_once=_AT_ONCE)
        if len(missing) > MISSING_MAX:
            raise TooManyTrackers(
                f"more than {MISSING_MAX} trackers have no cursor at {cluster.address.text}; if it is their cluster, give "
                "--topic-prefix to look at fewer topics at a time"
            )
        tracker_count += len(page)
        progress(tracker_count, tracker_count)

    page: list[tuple[TopicName, TrackerSummary]] = []
    async for tracker in client.list_trackers(scope.listed_prefix, page_size=_PAGE):
        if not scope.includes(tracker.topic):
            continue
        topic = _parsed(tracker.topic)
        if topic is None:
            other_count += 1
            continue
        page.append((topic, tracker))
        if len(page) == _PAGE:
            await look_for_all(page)
            page = []
    await look_for_all(page)
    missing.sort(key=lambda each: each.key)
    return Look(tuple(missing), tracker_count, other_count)


@dataclass(frozen=True, slots=True)
class Sighting:
    """Since when a tracker's cursor is known to be missing."""

    since_ms: int
    """Time of the first look that found it missing, in milliseconds since 1970."""
    epoch: int
    """Epoch of the tracker at that look; 0 if it was not open."""


class Verdict(enum.Enum):
    """Fate of a tracker without a cursor."""

    GARBAGE = "its cursor was missing for the grace time"
    WAITING = "its cursor was not missing for the grace time yet"
    OPENED = "it was opened since its cursor was missing; the grace time begins anew"
    LEASED = "its owner has leases; the grace time begins anew"
    NO_NAMESPACE = "the cluster has no such namespace; --missing-namespaces includes it"


@dataclass(frozen=True, slots=True)
class Judged:
    """A tracker without a cursor, and what becomes of it."""

    missing: MissingCursor
    sighting: Sighting
    """To be remembered until the next look."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Rules:
    """Conditions under which a tracker is garbage."""

    grace_ms: int
    """Time for which the cursor must be missing; 0 makes each tracker without a cursor garbage, in use or not."""
    missing_namespaces: bool = False
    """True if the trackers of namespaces that the cluster does not have may be garbage, too."""

    def judge(self, found: Look, before: Mapping[Key, Sighting], now_ms: int) -> list[Judged]:
        """Judge what a look has found.

        Args:
            found: by the look.
            before: what an earlier look has found missing.
            now_ms: time of the look, by the clock of the sightings.
        """
        return [self._judge(each, before.get(each.key), now_ms) for each in found.missing]

    def _judge(self, missing: MissingCursor, before: Sighting | None, now_ms: int) -> Judged:
        tracker = missing.tracker
        # A tracker on disk has epoch 0 in listings: that it was closed meanwhile is no use of it.
        was_opened = before is not None and (tracker.recovering or tracker.epoch not in (0, before.epoch))
        is_leased = tracker.leased_count > 0
        sighting = before
        # A sighting of the future comes from a clock that was set back since.
        if sighting is None or was_opened or is_leased or sighting.since_ms > now_ms:
            sighting = Sighting(now_ms, tracker.epoch)
        if not missing.has_namespace and not self.missing_namespaces:
            verdict = Verdict.NO_NAMESPACE
        elif self.grace_ms == 0:
            verdict = Verdict.GARBAGE
        elif is_leased:
            verdict = Verdict.LEASED
        elif was_opened:
            verdict = Verdict.OPENED
        elif now_ms - sighting.since_ms >= self.grace_ms:
            verdict = Verdict.GARBAGE
        else:
            verdict = Verdict.WAITING
        return Judged(missing, sighting, verdict)


def _parsed(topic: str) -> TopicName | None:
    """Return the topic of a full name; None if no persistent topic has it."""
    if not topic.startswith(_DOMAIN):
        return None
    try:
        return TopicName.parse(topic)
    except InvalidInput:
        return None
