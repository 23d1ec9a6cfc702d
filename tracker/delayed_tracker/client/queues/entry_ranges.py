"""Divides ranges of entries into calls of the discontinuous read, and joins the answers."""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from delayed_tracker.client.model.answers import EntryRange
from delayed_tracker.client.model.bounds import require_type
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.wire.columns import ENTRY_ID_MAX, INT63_MAX

RANGES_MAX: Final = 1_000
ENTRIES_MAX: Final = 10_000_000
"""Entries that all ranges of one call may contain together."""


@dataclass(frozen=True, slots=True)
class RangeBatch:
    """Ranges of one call."""

    ranges: tuple[EntryRange, ...]
    is_continuation: bool
    """True if the first range is the rest of the previous batch's last range."""


def check_ranges(ranges: Sequence[EntryRange]) -> None:
    """Raise InvalidInput with offsets unless entries of every range can exist."""
    require_type("ranges", ranges, Sequence, "give a sequence of EntryRange")
    bad = [offset for offset, entries in enumerate(ranges) if not _can_exist(entries)]
    if bad:
        worst = ranges[bad[0]]
        raise InvalidInput(
            "ranges",
            "{}:{}-{}".format(*worst) if isinstance(worst, EntryRange) else worst,
            f"give a ledger id, and entry ids from 0 to {ENTRY_ID_MAX}, the first not above the last",
            offsets=bad,
        )


def _can_exist(entries: EntryRange) -> bool:
    try:
        ledger_id, first, last = map(operator.index, entries)
    except (TypeError, ValueError):
        return False
    return 0 <= ledger_id <= INT63_MAX and 0 <= first <= last <= ENTRY_ID_MAX


def range_batches(
    ranges: Iterable[EntryRange], *, ranges_max: int = RANGES_MAX, entries_max: int = ENTRIES_MAX
) -> Iterator[RangeBatch]:
    """Yield the ranges of each call, in order, within both limits; a range that is too long is cut."""
    batch: list[EntryRange] = []
    room = entries_max
    is_continuation = False
    for ledger_id, range_first, last in ranges:
        first = range_first
        while first <= last:
            if room == 0 or len(batch) == ranges_max:
                yield RangeBatch(tuple(batch), is_continuation)
                batch, room, is_continuation = [], entries_max, first > range_first
            cut = min(last, first + room - 1)
            batch.append(EntryRange(ledger_id, first, cut))
            room -= cut - first + 1
            first = cut + 1
    if batch:
        yield RangeBatch(tuple(batch), is_continuation)


def put_together(found: list[EntryRange], more: Iterable[EntryRange], *, is_continuation: bool) -> None:
    """Append one call's answer to ``found``; a range that was cut between two calls becomes one range again."""
    rows = iter(more)
    if is_continuation and found:
        first = next(rows, None)
        if first is None:
            return
        if first.ledger_id == found[-1].ledger_id and first.first_entry_id == found[-1].last_entry_id + 1:
            found[-1] = found[-1]._replace(last_entry_id=first.last_entry_id)
        else:
            found.append(first)
    found.extend(rows)
