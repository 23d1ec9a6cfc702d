"""Converts the numbers of trackers into samples, in the same way for a tracker's own series and for the sums of many."""

from collections.abc import Callable, Sequence
from typing import Final

from delayed_tracker.core.inspect.numbers import NONE_MS
from delayed_tracker.service.instruments import catalogue
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
            text.append(sample(catalogue.PIP_OPERATIONS.name, shown, count))
    return "".join(text)


def _latencies(labels: str, _row: Row, account: EffectAccount) -> str:
    text = []
    for kind in account.types():
        ranges = account.ranges.by_type.get(kind, [0] * len(QUANTILES))
        for quantile, count in zip(QUANTILES, ranges, strict=True):
            shown = _and(labels, f'quantile="{quantile}",type="{kind}"')
            text.append(sample(catalogue.PIP_LATENCY.name, shown, count))
    return "".join(text)


OF_TRACKERS: Final[tuple[tuple[Family, Samples], ...]] = (
    (catalogue.PIP_BUCKETS, _plain(catalogue.PIP_BUCKETS, "buckets")),
    (catalogue.PIP_LOADED, _plain(catalogue.PIP_LOADED, "loaded")),
    (catalogue.PIP_OPERATIONS, _operations),
    (catalogue.PIP_SNAPSHOT_BYTES, _plain(catalogue.PIP_SNAPSHOT_BYTES, "snapshot_bytes")),
    (catalogue.PIP_LATENCY, _latencies),
    (catalogue.PIP_MEMORY, _plain(catalogue.PIP_MEMORY, "memory_bytes")),
    (
        catalogue.TRACKER_INDEXES,
        _numbers(catalogue.TRACKER_INDEXES, "event", {event: event for event in catalogue.INDEX_EVENTS}),
    ),
    (catalogue.TRACKER_PENDING, _plain(catalogue.TRACKER_PENDING, "pending")),
    (catalogue.TRACKER_LEASED, _plain(catalogue.TRACKER_LEASED, "leased")),
    (catalogue.TRACKER_DUE, _plain(catalogue.TRACKER_DUE, "due")),
    (catalogue.TRACKER_EARLIEST, _moment(catalogue.TRACKER_EARLIEST, "earliest_ms")),
    (catalogue.TRACKER_LATEST, _moment(catalogue.TRACKER_LATEST, "latest_ms")),
    (catalogue.TRACKER_LEASE_EXPIRATIONS, _plain(catalogue.TRACKER_LEASE_EXPIRATIONS, "lease_expired")),
)
"""Families with the labels of a tracker."""

OF_ALL: Final[tuple[tuple[Family, Samples], ...]] = (
    (catalogue.BUCKETS, _plain(catalogue.BUCKETS, "buckets")),
    (catalogue.LOADED, _plain(catalogue.LOADED, "loaded")),
    (catalogue.SNAPSHOT_BYTES, _plain(catalogue.SNAPSHOT_BYTES, "snapshot_bytes")),
    (catalogue.MEMORY, _plain(catalogue.MEMORY, "memory_bytes")),
    (catalogue.INDEXES, _numbers(catalogue.INDEXES, "event", {event: event for event in catalogue.INDEX_EVENTS})),
    (catalogue.OFFERED, _numbers(catalogue.OFFERED, "result", catalogue.OFFERS)),
    (catalogue.LEASE_EXPIRATIONS, _plain(catalogue.LEASE_EXPIRATIONS, "lease_expired")),
    (catalogue.RESCHEDULED, _plain(catalogue.RESCHEDULED, "rescheduled")),
    (catalogue.MERGED, _plain(catalogue.MERGED, "merged_indexes")),
    (catalogue.PENDING, _plain(catalogue.PENDING, "pending")),
    (catalogue.LEASED, _plain(catalogue.LEASED, "leased")),
    (catalogue.DUE, _plain(catalogue.DUE, "due")),
    (catalogue.MUTABLE, _plain(catalogue.MUTABLE, "mutable")),
    (catalogue.LATE, _plain(catalogue.LATE, "late")),
    (catalogue.FALLBACK, _plain(catalogue.FALLBACK, "fallback")),
    (catalogue.MERGE_BACKLOG, _plain(catalogue.MERGE_BACKLOG, "merge_backlog")),
    (catalogue.MEMBERSHIP, _plain(catalogue.MEMBERSHIP, "membership_bytes")),
    (catalogue.EARLIEST, _moment(catalogue.EARLIEST, "earliest_ms")),
    (catalogue.LATEST, _moment(catalogue.LATEST, "latest_ms")),
    (catalogue.EFFECTS_FAILED, _plain(catalogue.EFFECTS_FAILED, "effects_failed")),
)
"""Families that have only the sum over all trackers."""
