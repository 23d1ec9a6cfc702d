"""Ledgers that can be opened one by one, divided into parts of about the same number of bytes.

A large ledger becomes several parts, which begin where its blocks do if it has any; small ones share a part. A part
holds opened ledgers, which know their files and keep none open, so that a worker needs neither metadata nor a listing.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.ledger.offload.blob_ledger import BlobLedger
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.topic_log import Ledger

_ENTRY_BYTES: Final = 256
"""Taken for the size of an entry where nothing says how large a ledger is."""


@dataclass(frozen=True, slots=True)
class LedgerRange:
    """Some entries of one ledger."""

    topic: str
    ledger: Ledger
    first: int
    last: int
    size_bytes: int
    """About."""


def ranges_of(topic: str, ledger: Ledger, part_bytes: int) -> Iterator[LedgerRange]:
    """A ledger in ranges of about ``part_bytes``, ascending; nothing for an empty one."""
    count = ledger.last_entry_id + 1
    if not count:
        return
    size_bytes = ledger.payload_bytes or _ENTRY_BYTES * count
    if isinstance(ledger, AbsentLedger):
        size_bytes = 1
    part_count = max(1, min(count, round(size_bytes / part_bytes)))
    starts = np.linspace(0, count, part_count + 1).astype(np.int64)[:-1]
    if isinstance(ledger, BlobLedger):
        # Only from its beginning can a block be read.
        blocks = np.array([block.first_entry_id for block in ledger.blocks], np.int64)
        starts = np.unique(blocks[np.searchsorted(blocks, starts, side="right") - 1])
    bounds = [*starts.tolist(), count]
    for first, end in itertools.pairwise(bounds):
        yield LedgerRange(topic, ledger, first, end - 1, max(1, size_bytes * (end - first) // count))


def packed(ranges: Sequence[LedgerRange], part_bytes: int) -> Iterator[tuple[LedgerRange, ...]]:
    """Ranges in groups of up to about ``part_bytes``, in order; a group has one at least."""
    group: list[LedgerRange] = []
    size_bytes = 0
    for entries in ranges:
        if group and size_bytes + entries.size_bytes > part_bytes:
            yield tuple(group)
            group, size_bytes = [], 0
        group.append(entries)
        size_bytes += entries.size_bytes
    if group:
        yield tuple(group)
