"""Finds the position in a topic for a time.

The time of an entry is the broker's time of writing, or the producer's time if the entry has no broker time (PIP-70).
One topic may have entries of both kinds.

The position for a time T is a boundary: the entry there was written at or after T, and the entry before it was written
earlier. If clocks only go forward, there is exactly one boundary, and all entries written at or after T are behind it.
If a clock stepped back over T, there are several. Then the result depends on the entries that the search reads, so this
search reads the same entries as Pulsar's and returns the same result. If the first entry is not earlier than T, the
result is the first entry.

Source: OpFindNewest.java, ManagedLedgerImpl.java (asyncFindPosition), Commands.java (getEntryTimestamp).
"""

from collections.abc import Callable
from dataclasses import dataclass

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup

_TTL_SECONDS_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TimeSeek:
    """Position at which to continue reading for a time."""

    position: Position
    """Next entry to read. If behind the end, the position of the topic's next entry (another ledger may replace it);
    (-1, -1) in a topic without ledgers."""
    behind_end: bool
    """True if all entries are earlier than the time."""


def seek_by_time(lookup: EntryLookup, timestamp_ms: int) -> TimeSeek:
    """Return the first entry that was written at or after a time, as Pulsar finds it.

    Args:
        lookup: the topic.
        timestamp_ms: milliseconds since 1970-01-01 UTC; a negative time is before all entries.
    Raises:
        EntriesUnreadable: an entry that the search needs is missing or damaged, so the result would be a guess.
    Cost: at most log2(entries) + 2 entries.
    """
    earlier = newest_matching(lookup.searchable_count, lambda number: lookup.time_ms(number) < timestamp_ms)
    number = 0 if earlier is None else earlier + 1
    return TimeSeek(lookup.position(number), behind_end=number == lookup.entry_count)


def oldest_message_expired(
    lookup: EntryLookup, ttl_seconds: int, *, now_ms: int, mark_delete: Position | None = None
) -> bool:
    """Return True if the oldest remaining message is older than its time to live.

    Args:
        lookup: the topic.
        ttl_seconds: time to live in seconds, 0 for no limit. A broker's own check, which only decides if a closer check
            is needed, passes 1.5 times the configured value.
        now_ms: current time, milliseconds since 1970-01-01 UTC.
        mark_delete: mark-delete position of a subscription; its oldest message is the next one. None for the topic's
            first.
    Raises:
        EntriesUnreadable: the oldest entry is missing or damaged.
        InvalidInput: the time to live is negative or above 2^31-1 seconds.
    Cost: one entry.
    Source: PersistentTopic.java (isOldestMessageExpired), MessageImpl.java (isEntryExpired).
    """
    if not 0 <= ttl_seconds <= _TTL_SECONDS_MAX:
        raise InvalidInput("ttl_seconds", ttl_seconds, f"give 0 (for ever) to {_TTL_SECONDS_MAX}")
    oldest = 0 if mark_delete is None else lookup.number(Position(mark_delete.ledger_id, mark_delete.entry_id + 1))
    if ttl_seconds == 0 or oldest >= lookup.entry_count:
        return False
    return now_ms > lookup.time_ms(oldest) + ttl_seconds * 1_000


def newest_matching(count: int, matches: Callable[[int], bool]) -> int | None:
    """Return the highest number below ``count`` that matches, if all matching numbers come before all others.

    If they do not, the result is a matching number that is the last or is followed by one that does not match.

    Args:
        count: 0 or more.
        matches: called at most log2(count) + 2 times, first for the first number, then for the last.
    Returns: None if the first number does not match.
    """
    if count == 0 or not matches(0):
        return None
    lowest, highest = 0, count - 1
    if matches(highest):
        return highest
    while lowest < highest:
        middle = lowest + max((highest - lowest) // 2, 1)
        if matches(middle):
            lowest = middle
        else:
            highest = middle - 1
    return lowest
