"""Computes the rows of ``top`` from two looks at a service: the trackers, their order, and their rates. Pure.

A listing of all trackers selects the rows, and the statistics of the selected trackers fill them. One look therefore
costs a listing and one call for each row, independent of the number of trackers.
"""

import enum
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from delayed_tracker.client import TrackerStats, TrackerSummary


class Key(NamedTuple):
    """Key of a tracker."""

    topic: str
    subscription: str


class Sort(enum.StrEnum):
    """Order of the trackers; the first is on top."""

    PENDING = "pending"
    """Most pending positions."""
    LEASED = "leased"
    """Most leased positions."""
    OVERDUE = "overdue"
    """Earliest next delivery."""
    BUCKETS = "buckets"
    """Most buckets."""
    RATE = "rate"
    """Most positions added, returned by polls and acknowledged a second; most pending until there are rates."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Events between two looks, for each second of the service's clock."""

    added: float
    handed_out: float
    acked: float
    lease_expired: float
    """Positions whose lease expired."""

    @property
    def total(self) -> float:
        """Sum of the rates that make a tracker busy."""
        return self.added + self.handed_out + self.acked


@dataclass(frozen=True, slots=True)
class Row:
    """One tracker."""

    topic: str
    subscription: str
    pending_count: int
    leased_count: int
    rates: Rates | None
    """Rates; None at the first look at the tracker, and if it was loaded again since the last."""
    overdue_ms: int | None
    """Milliseconds for which a poll would have succeeded; None while nothing is due."""
    bucket_count: int
    loaded_count: int
    snapshot_bytes: int
    next_delivery_at_ms: int | None

    @property
    def key(self) -> Key:
        """Key of the tracker."""
        return Key(self.topic, self.subscription)


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the service. Rates and the service's time come only from the trackers that have rows."""

    tracker_count: int
    open_count: int
    recovering_count: int
    pending_count: int
    leased_count: int
    overdue_count: int
    """Open trackers with due positions that no poll has taken."""
    overdue_ms: int | None
    """Milliseconds that the longest overdue tracker is overdue."""
    rates: Rates | None


@dataclass(frozen=True, slots=True)
class View:
    """Content of one refresh."""

    server_time_ms: int | None
    """Service's time in milliseconds since 1970, UTC; None if no tracker has a row."""
    totals: Totals
    trackers: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class ServiceSample:
    """Answers of the service at one time."""

    listed: Sequence[TrackerSummary]
    stats: Mapping[Key, TrackerStats]
    """Statistics of the selected trackers that are still open."""


EMPTY_SAMPLE: Final = ServiceSample((), {})
"""Sample before the first one."""


def rates_between(now: TrackerStats, before: TrackerStats | None) -> Rates | None:
    """Return the rates of a tracker's counters.

    Args:
        now: its statistics.
        before: its statistics at an earlier look; None if there were none.
    Returns: None if nothing can be compared: counters begin at 0 when a tracker is loaded again.
    """
    if before is None:
        return None
    span_ms = now.server_time_ms - before.server_time_ms
    moved = (
        now.added_count - before.added_count,
        now.handed_out_count - before.handed_out_count,
        now.acked_count - before.acked_count,
        now.lease_expired_count - before.lease_expired_count,
    )
    if span_ms <= 0 or min(moved) < 0 or now.recovered_count != before.recovered_count:
        return None
    return Rates(*(count * 1_000 / span_ms for count in moved))


def chosen(
    listed: Sequence[TrackerSummary],
    count: int,
    sort: Sort,
    *,
    before: ServiceSample = EMPTY_SAMPLE,
    seen: Iterable[Row] = (),
) -> list[Key]:
    """Select the trackers that get rows, from a listing alone: open ones, at most ``count`` of them.

    A listing contains no rates. By rate, trackers count as busy if they had a rate in the last rows, or if their
    numbers have changed since.

    Args:
        listed: all trackers, now.
        count: number of rows, 0 or more.
        sort: the order.
        before: the look before this one.
        seen: the rows of that look.
    """
    found = [tracker for tracker in listed if tracker.open and not tracker.recovering]
    moved: dict[Key, float] = {}
    if sort is Sort.RATE:
        earlier = {_key(tracker): tracker for tracker in before.listed}
        moved = {_key(tracker): _movement(tracker, earlier.get(_key(tracker))) for tracker in found}
        moved |= {row.key: row.rates.total for row in seen if row.rates and row.rates.total and row.key in moved}
    best = heapq.nsmallest(count, found, key=lambda tracker: _rank(tracker, sort, moved.get(_key(tracker), 0.0)))
    return [_key(tracker) for tracker in best]


def view_of(now: ServiceSample, before: ServiceSample, sort: Sort) -> View:
    """Return rows and totals, in order.

    Args:
        now: the last answers of the service.
        before: its answers at the sample before; ``EMPTY_SAMPLE`` at the first.
        sort: the order.
    """
    rows = [_row(key, stats, before.stats.get(key)) for key, stats in now.stats.items()]
    rows.sort(key=lambda row: _rank(row, sort, row.rates.total if row.rates else 0.0))
    server_time_ms = max((stats.server_time_ms for stats in now.stats.values()), default=None)
    return View(server_time_ms, _totals(now.listed, rows, server_time_ms), tuple(rows))


def _key(tracker: TrackerSummary) -> Key:
    return Key(tracker.topic, tracker.subscription)


def _movement(now: TrackerSummary, before: TrackerSummary | None) -> int:
    if before is None or not before.open:
        return 0
    counted = abs(now.pending_count - before.pending_count) + abs(now.leased_count - before.leased_count)
    # If as many positions come as go, only the next delivery changes.
    return counted + (now.next_delivery_at_ms != before.next_delivery_at_ms)


def _rank(tracker: TrackerSummary | Row, sort: Sort, rate: float) -> tuple[float, int, str, str]:
    """Return the sort key, lowest on top; ties are sorted by pending, then by name, so that rows keep their places."""
    next_ms = tracker.next_delivery_at_ms
    first = {
        Sort.PENDING: 0,
        Sort.LEASED: -tracker.leased_count,
        Sort.OVERDUE: float("inf") if next_ms is None else next_ms,
        Sort.BUCKETS: -tracker.bucket_count,
        Sort.RATE: -rate,
    }[sort]
    return first, -tracker.pending_count, tracker.topic, tracker.subscription


def _row(key: Key, stats: TrackerStats, before: TrackerStats | None) -> Row:
    return Row(
        topic=key.topic,
        subscription=key.subscription,
        pending_count=stats.pending_count,
        leased_count=stats.leased_count,
        rates=rates_between(stats, before),
        overdue_ms=_overdue_ms(stats.next_delivery_at_ms, stats.server_time_ms),
        bucket_count=stats.bucket_count,
        loaded_count=stats.loaded_count,
        snapshot_bytes=stats.snapshot_bytes,
        next_delivery_at_ms=stats.next_delivery_at_ms,
    )


def _overdue_ms(next_delivery_at_ms: int | None, server_time_ms: int | None) -> int | None:
    if next_delivery_at_ms is None or server_time_ms is None or next_delivery_at_ms >= server_time_ms:
        return None
    return server_time_ms - next_delivery_at_ms


def _totals(listed: Sequence[TrackerSummary], rows: Sequence[Row], server_time_ms: int | None) -> Totals:
    found = [tracker for tracker in listed if tracker.open and not tracker.recovering]
    overdue = [
        late_ms
        for tracker in found
        if (late_ms := _overdue_ms(tracker.next_delivery_at_ms, server_time_ms)) is not None
    ]
    known = [row.rates for row in rows if row.rates]
    return Totals(
        tracker_count=len(listed),
        open_count=len(found),
        recovering_count=sum(tracker.recovering for tracker in listed),
        pending_count=sum(tracker.pending_count for tracker in found),
        leased_count=sum(tracker.leased_count for tracker in found),
        overdue_count=len(overdue),
        overdue_ms=max(overdue, default=None),
        rates=_sum(known) if known else None,
    )


def _sum(known: Sequence[Rates]) -> Rates:
    return Rates(
        added=sum(rates.added for rates in known),
        handed_out=sum(rates.handed_out for rates in known),
        acked=sum(rates.acked for rates in known),
        lease_expired=sum(rates.lease_expired for rates in known),
    )
