"""Converts the numbers of trackers into samples, in the same way for a tracker's own series and for the sums of many."""

from collections.abc import Callable, Sequence
from typing import Final

from delayed_tracker.core.inspect.numbers import NONE_MS
from delayed_tracker.service.instruments import service_families, tracker_families
from delayed_tracker.service.instruments.bucket_operations import COUNTERS, QUANTILES, EffectAccount
from delayed_tracker.service.instruments.family import Family, label, number
from delayed_tracker.service.instruments.tracker_rows import COLUMNS

_PLACE: Final = {name: place for place, name in enumerate(COLUMNS)}

Row = Sequence[int]
Samples = Callable[[str, Row, EffectAccount], str]
"""Writer of the samples of one tracker, from its labels, its row and its account."""


def sample(name: str, labels: str, value: float) -> str:
    """Return one line. ``labels`` are in the text format, without braces."""
    shown = number(value)
    return f"{name}{{{labels}}} {shown}\n" if labels else f"{name} {shown}\n"


def _and(labels: str, more: str) -> str:
    return f"{labels},{more}" if labels else more


def _plain(family: Family, column: str) -> Samples:
    name, place = family.name, _PLACE[column]
    return lambda labels, row, _: sample(name, labels, row[place])


def _moment(family: Family, column: str) -> Samples:
    name, place = family.name, _PLACE[column]
    return lambda labels, row, _: "" if row[place] == NONE_MS else sample(name, labels, row[place] / 1_000)


def _numbers(family: Family, named: str, columns: dict[str, str]) -> Samples:
    """Return the writer of one sample for each value of a label."""
    cells = [(label(named, value), _PLACE[column]) for value, column in columns.items()]
    name = family.name
    return lambda labels, row, _: "".join(sample(name, _and(labels, text), row[place]) for text, place in cells)


def _operations(labels: str, _row: Row, account: EffectAccount) -> str:
    """Return PIP-195's counts, for the types that have occurred."""
    text = []
    for kind in account.types():
        counts = {state: getattr(account.counters, COUNTERS[kind, state]) for state in ("succeed", "failed")}
        for state, count in (counts | {"all": sum(counts.values())}).items():
            shown = _and(labels, f'state="{state}",type="{kind}"')
            text.append(sample(tracker_families.PIP_OPERATIONS.name, shown, count))
    return "".join(text)


def _latencies(labels: str, _row: Row, account: EffectAccount) -> str:
    text = []
    for kind in account.types():
        ranges = account.ranges.by_type.get(kind, [0] * len(QUANTILES))
        for quantile, count in zip(QUANTILES, ranges, strict=True):
            shown = _and(labels, f'quantile="{quantile}",type="{kind}"')
            text.append(sample(tracker_families.PIP_LATENCY.name, shown, count))
    return "".join(text)


OF_TRACKERS: Final[tuple[tuple[Family, Samples], ...]] = (
    (tracker_families.PIP_BUCKETS, _plain(tracker_families.PIP_BUCKETS, "buckets")),
    (tracker_families.PIP_LOADED, _plain(tracker_families.PIP_LOADED, "loaded")),
    (tracker_families.PIP_OPERATIONS, _operations),
    (tracker_families.PIP_SNAPSHOT_BYTES, _plain(tracker_families.PIP_SNAPSHOT_BYTES, "snapshot_bytes")),
    (tracker_families.PIP_LATENCY, _latencies),
    (tracker_families.PIP_MEMORY, _plain(tracker_families.PIP_MEMORY, "memory_bytes")),
    (
        tracker_families.TRACKER_INDEXES,
        _numbers(tracker_families.TRACKER_INDEXES, "event", {event: event for event in tracker_families.INDEX_EVENTS}),
    ),
    (tracker_families.TRACKER_PENDING, _plain(tracker_families.TRACKER_PENDING, "pending")),
    (tracker_families.TRACKER_LEASED, _plain(tracker_families.TRACKER_LEASED, "leased")),
    (tracker_families.TRACKER_DUE, _plain(tracker_families.TRACKER_DUE, "due")),
    (tracker_families.TRACKER_EARLIEST, _moment(tracker_families.TRACKER_EARLIEST, "earliest_ms")),
    (tracker_families.TRACKER_LATEST, _moment(tracker_families.TRACKER_LATEST, "latest_ms")),
    (tracker_families.TRACKER_LEASE_EXPIRATIONS, _plain(tracker_families.TRACKER_LEASE_EXPIRATIONS, "lease_expired")),
)
"""Families with the labels of a tracker."""

OF_ALL: Final[tuple[tuple[Family, Samples], ...]] = (
    (tracker_families.BUCKETS, _plain(tracker_families.BUCKETS, "buckets")),
    (tracker_families.LOADED, _plain(tracker_families.LOADED, "loaded")),
    (tracker_families.SNAPSHOT_BYTES, _plain(tracker_families.SNAPSHOT_BYTES, "snapshot_bytes")),
    (tracker_families.MEMORY, _plain(tracker_families.MEMORY, "memory_bytes")),
    (
        tracker_families.INDEXES,
        _numbers(tracker_families.INDEXES, "event", {event: event for event in tracker_families.INDEX_EVENTS}),
    ),
    (tracker_families.OFFERED, _numbers(tracker_families.OFFERED, "result", tracker_families.OFFERS)),
    (tracker_families.LEASE_EXPIRATIONS, _plain(tracker_families.LEASE_EXPIRATIONS, "lease_expired")),
    (tracker_families.RESCHEDULED, _plain(tracker_families.RESCHEDULED, "rescheduled")),
    (tracker_families.MERGED, _plain(tracker_families.MERGED, "merged_indexes")),
    (tracker_families.PENDING, _plain(tracker_families.PENDING, "pending")),
    (tracker_families.LEASED, _plain(tracker_families.LEASED, "leased")),
    (tracker_families.DUE, _plain(tracker_families.DUE, "due")),
    (tracker_families.MUTABLE, _plain(tracker_families.MUTABLE, "mutable")),
    (tracker_families.LATE, _plain(tracker_families.LATE, "late")),
    (tracker_families.FALLBACK, _plain(tracker_families.FALLBACK, "fallback")),
    (tracker_families.MERGE_BACKLOG, _plain(tracker_families.MERGE_BACKLOG, "merge_backlog")),
    (tracker_families.MEMBERSHIP, _plain(tracker_families.MEMBERSHIP, "membership_bytes")),
    (tracker_families.EARLIEST, _moment(tracker_families.EARLIEST, "earliest_ms")),
    (tracker_families.LATEST, _moment(tracker_families.LATEST, "latest_ms")),
    (service_families.EFFECTS_FAILED, _plain(service_families.EFFECTS_FAILED, "effects_failed")),
)
"""Families that have only the sum over all trackers."""
