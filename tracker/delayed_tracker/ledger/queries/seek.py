"""From a time to a place in a topic.

The time of an entry is that of the broker's clock when it was written or, entry by entry, that of the producer's clock
where the broker noted none (PIP-70): both kinds may follow each other in one topic.

The place for a time T is a boundary: the entry there was written at or after T, the one before it earlier than T. Where
clocks only go forward there is exactly one, and all that was written at or after T lies behind it. Where a clock stepped
back over T there are several; which one is answered depends on the entries that the search looks at, so it looks at the
same ones as Pulsar's search and answers the same. If the first entry is not earlier than T, the answer is the first.
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
    """Where to go on reading for a time."""

    position: Position
    """The entry to read next. Behind the end, where the topic's next entry will be (another ledger may take its
    place); (-1, -1) in a topic that has no ledger yet."""
    behind_end: bool
    """All entries are earlier than the time."""


def seek_by_time(lookup: EntryLookup, timestamp_ms: int) -> TimeSeek:
    """The first entry that was written at or after a time, as Pulsar finds it.

    Args:
        lookup: the topic.
        timestamp_ms: milliseconds since 1970-01-01 UTC; negative ones are before everything.
    Raises:
        EntriesUnreadable: an entry on the way is missing or damaged, so that no place can be trusted.
    Cost: at most log2(entries) + 2 entries.
    """
    earlier = newest_matching(lookup.searchable_count, lambda number: lookup.time_ms(number) < timestamp_ms)
    number = 0 if earlier is None else earlier + 1
    return TimeSeek(lookup.position(number), behind_end=number == lookup.entry_count)


def oldest_message_expired(
    lookup: EntryLookup, ttl_seconds: int, *, now_ms: int, mark_delete: Position | None = None
) -> bool:
    """Whether the oldest message that is still there has outlived its time.

    Args:
        lookup: the topic.
        ttl_seconds: how long messages live, 0 for ever. A broker's own check, which only decides whether to look
            closer, gives 1.5 times what is configured.
        now_ms: the time to judge by, since 1970-01-01 UTC.
        mark_delete: of a subscription: the oldest message is then the one behind it. None: the topic's first.
    Raises:
        EntriesUnreadable: the oldest entry is missing or damaged.
        InvalidInput: a time to live that is negative or above 2^31-1 seconds.
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
    """The highest of the numbers below ``count`` that matches, if all that match come before all that do not.

    If they do not, it is one that matches and is followed by one that does not, or is the last.

    Args:
        count: 0 or more.
        matches: asked at most log2(count) + 2 times, always for the first number first, then for the last.
    Returns: None when the first does not match.
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
