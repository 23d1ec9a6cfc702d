"""Filter of entry ranges for a cursor: PIP-195's discontinuous read over many ranges, with a bounded answer."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.columns import ENTRY_ID_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.errors import AnswerTooLarge

RANGES_MAX = 1_000
ENTRIES_MAX = 10_000_000
_STEP = 1_000_000
"""Entries checked in one step, so that an answer that grows too large is noticed early."""


class EntryRange(NamedTuple):
    """Entries of one ledger, both ends included."""

    ledger_id: int
    first: int
    last: int


def require_range_count(count: int) -> None:
    """Raise InvalidInput unless there are 1 to ``RANGES_MAX`` ranges; before any of them is converted."""
    if not 1 <= count <= RANGES_MAX:
        raise InvalidInput("ranges", f"{count} ranges", f"give 1 to {RANGES_MAX}")


def require_ranges(ranges: Sequence[EntryRange]) -> None:
    """Raise InvalidInput unless the ranges are valid, and of at most ``ENTRIES_MAX`` entries together."""
    for offset, (ledger_id, first, last) in enumerate(ranges):
        field = f"ranges[{offset}]"
        if ledger_id < 0:
            raise InvalidInput(f"{field}.ledger_id", ledger_id, "give 0 or more")
        if not 0 <= first <= ENTRY_ID_MAX:
            raise InvalidInput(f"{field}.first_entry_id", first, f"give 0 to {ENTRY_ID_MAX}")
        if not first <= last <= ENTRY_ID_MAX:
            raise InvalidInput(f"{field}.last_entry_id", last, f"give {first} to {ENTRY_ID_MAX}")
    total = sum(asked.last - asked.first + 1 for asked in ranges)
    if total > ENTRIES_MAX:
        raise InvalidInput("ranges", f"{total} entries", f"give at most {ENTRIES_MAX} entries in all")


def untracked(tracker: TrackerCore, ranges: Iterable[EntryRange], *, answer_max: int) -> list[EntryRange]:
    """Return the parts of the ranges that are not tracked, in order, each as long as possible.

    Raises:
        AnswerTooLarge: there are more than ``answer_max`` parts.
    """
    parts: list[EntryRange] = []
    for ledger_id, first, last in ranges:
        joins = False  # Only parts of one range are joined.
        for begin in range(first, last + 1, _STEP):
            for start, end in tracker.filter_range(ledger_id, begin, min(begin + _STEP - 1, last)):
                if joins and parts[-1].last + 1 == start:
                    parts[-1] = parts[-1]._replace(last=end)
                else:
                    parts.append(EntryRange(ledger_id, start, end))
                joins = True
            if len(parts) > answer_max:
                raise AnswerTooLarge("ranges", answer_max)
    return parts
