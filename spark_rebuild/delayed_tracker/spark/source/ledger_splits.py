"""Ledgers that can be opened one by one, divided into parts of about the same number of bytes.

A large ledger becomes several parts, which begin at its blocks if it has any; small ledgers share a part. A part holds
opened ledgers. These have the paths of their files but keep no file open, so a worker needs neither metadata nor a
listing.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace
from typing import Final, Protocol, TypeVar, runtime_checkable

import numpy as np

from delayed_tracker.ledger.offload.blob_ledger import BlobLedger
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.topic_log import Ledger

_ENTRY_BYTES: Final = 256
"""Assumed bytes of an entry if the size of the ledger is unknown."""

_RANGES_MAX: Final = 10_000
"""Most ranges of one ledger: its metadata may be damaged, and claim any number of entries and bytes."""


@dataclass(frozen=True, slots=True)
class LedgerRange:
    """Some entries of one ledger."""

    topic: str
    ledger: Ledger
    first: int
    last: int
    size_bytes: int
    """Approximate bytes."""


def ranges_of(topic: str, ledger: Ledger, part_bytes: int) -> Iterator[LedgerRange]:
    """Yield a ledger in ranges of about ``part_bytes``, ascending, or in 10,000; nothing for an empty ledger."""
    count = ledger.last_entry_id + 1
    if not count:
        return
    size_bytes = ledger.payload_bytes or _ENTRY_BYTES * count
    if isinstance(ledger, AbsentLedger):
        size_bytes = 1
    part_count = max(1, min(count, round(size_bytes / part_bytes), _RANGES_MAX))
    starts = np.linspace(0, count, part_count + 1).astype(np.int64)[:-1]
    if isinstance(ledger, BlobLedger):
        # A block can only be read from its beginning.
        blocks = np.array([block.first_entry_id for block in ledger.blocks], np.int64)
        starts = np.unique(blocks[np.searchsorted(blocks, starts, side="right") - 1])
    bounds = [*starts.tolist(), count]
    for first, end in itertools.pairwise(bounds):
        yield LedgerRange(topic, ledger, first, end - 1, max(1, size_bytes * (end - first) // count))


@runtime_checkable
class MeteredLedger(Protocol):
    """Ledger of a source that may limit the rate at which it is read."""

    @property
    def is_metered(self) -> bool:
        """True if there is a limit."""

    def for_one_of(self, reader_count: int) -> Ledger:
        """Return the ledger for one of several processes that divide the rate equally among them."""


def shared_out(
    ranges: Sequence[LedgerRange], part_bytes: int, tasks_at_once: int | None
) -> list[tuple[LedgerRange, ...]]:
    """Return the ranges in parts, with the rate of a limited source divided among the parts that read it.

    Args:
        ranges: of all ledgers.
        part_bytes: approximate bytes of a part of a source without a limit.
        tasks_at_once: most parts that read a source with a limit; None for parts of ``part_bytes``.
    """
    metered = [entries for entries in ranges if _is_metered(entries.ledger)]
    parts = list(packed([entries for entries in ranges if not _is_metered(entries.ledger)], part_bytes))
    limited = list(packed(metered, part_bytes))
    if tasks_at_once is not None and len(limited) > tasks_at_once:
        limited = _balanced(metered, tasks_at_once)
    return [*parts, *(tuple(_slowed(entries, len(limited)) for entries in part) for part in limited)]


def _is_metered(ledger: Ledger) -> bool:
    return isinstance(ledger, MeteredLedger) and ledger.is_metered


def _slowed(entries: LedgerRange, reader_count: int) -> LedgerRange:
    assert isinstance(entries.ledger, MeteredLedger)
    return replace(entries, ledger=entries.ledger.for_one_of(reader_count))


def _balanced(ranges: Sequence[LedgerRange], part_count: int) -> list[tuple[LedgerRange, ...]]:
    """Return the ranges in so many parts of about the same size: the largest first, each to the smallest part."""
    parts: list[list[LedgerRange]] = [[] for _ in range(part_count)]
    sizes = [(0, number) for number in range(part_count)]
    for entries in sorted(ranges, key=lambda entries: -entries.size_bytes):
        size_bytes, number = sizes[0]
        parts[number].append(entries)
        heapreplace(sizes, (size_bytes + entries.size_bytes, number))
    return [tuple(part) for part in parts if part]


class HasSize(Protocol):
    """Something to read, with its approximate bytes."""

    @property
    def size_bytes(self) -> int:
        """Approximate bytes."""
        ...


_S = TypeVar("_S", bound=HasSize)


def packed(ranges: Sequence[_S], part_bytes: int) -> Iterator[tuple[_S, ...]]:
    """Yield groups of ranges of up to about ``part_bytes``, in order; each group has at least one range."""
    group: list[_S] = []
    size_bytes = 0
    for entries in ranges:
        if group and size_bytes + entries.size_bytes > part_bytes:
            yield tuple(group)
            group, size_bytes = [], 0
        group.append(entries)
        size_bytes += entries.size_bytes
    if group:
        yield tuple(group)
