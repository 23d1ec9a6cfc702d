"""Adds delayed messages to a running service: shifts deadlines, sends batches, and counts the results."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from delayed_tracker.client import Offers, Position, TrackerSession
from delayed_tracker.core.values.columns import INT63_MAX, IndexColumns, Int64Array
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.progress import Progress

OFFER_BATCH = 1_000
"""Positions in one call of a replay."""


@dataclass(frozen=True, slots=True)
class OfferOutcome:
    """Results of added indexes; each index is in exactly one count."""

    offered_count: int
    added_count: int
    due: Int64Array
    """Offsets of the indexes that were due when they were added: the dispatcher delivers these."""
    duplicate: Int64Array
    beyond_max_delay: Int64Array
    below_mark_delete: Int64Array

    @property
    def balanced(self) -> bool:
        """True if the counts add up to the number of indexes."""
        refused = len(self.due) + len(self.duplicate) + len(self.beyond_max_delay) + len(self.below_mark_delete)
        return self.offered_count == self.added_count + refused


def parse_instant(option: str, text: str) -> int:
    """Return a time in milliseconds since 1970-01-01 UTC, from ISO-8601 (UTC unless it has an offset) or milliseconds.

    Raises:
        InvalidInput: the text is neither, or the time is before 1970.
    """
    try:
        if text.isascii() and text.isdigit():
            moment_ms = int(text)
        else:
            moment = datetime.fromisoformat(text)
            # Whole milliseconds by integer arithmetic, because float seconds would lose the last one.
            since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
            moment_ms = (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000
    except ValueError as error:
        raise InvalidInput(
            option, text, "give ISO-8601, such as 2026-11-21T07:24:12Z, or epoch milliseconds"
        ) from error
    if not 0 <= moment_ms <= INT63_MAX:
        raise InvalidInput(option, text, "give a moment from 1970 on, below 2^63 ms")
    return moment_ms


def shifted(indexes: IndexColumns, shift_ms: int) -> IndexColumns:
    """Return the same positions with every deadline moved by a constant; deadlines are limited to 0 and 2^63-1."""
    if shift_ms >= 0:
        reachable = np.minimum(indexes.deliver_at_ms, INT63_MAX - shift_ms)
        moved = reachable + shift_ms
    else:
        moved = np.maximum(indexes.deliver_at_ms + shift_ms, 0)
    return IndexColumns(moved, indexes.ledger_id, indexes.entry_id)


async def server_now_ms(session: TrackerSession) -> int:
    """Return the service's clock, which alone decides which messages are due."""
    return (await session.next_delivery_time()).server_time_ms


async def offer(
    session: TrackerSession, indexes: IndexColumns, *, progress: Progress | None = None, offers: Offers | None = None
) -> OfferOutcome:
    """Add indexes in order, batch by batch.

    Args:
        session: an open session.
        indexes: deadlines by the service's clock.
        progress: called with (added, total) after each batch.
        offers: claims what was answered; the indexes are all that is delayed since its last position. None claims nothing.
    Raises:
        TrackerCallError: a batch failed; the batches before it stay applied, and adding everything again is harmless.
    """
    total = len(indexes)
    added_count = 0
    columns: dict[str, list[int]] = {"due": [], "duplicate": [], "beyond_max_delay": [], "below_mark_delete": []}
    for first in range(0, total, OFFER_BATCH):
        batch = indexes.take(slice(first, first + OFFER_BATCH))
        columns_of_batch = (batch.deliver_at_ms, batch.ledger_id, batch.entry_id)
        if offers is None:
            answer = await session.add_columns(*columns_of_batch)
        else:
            last = Position(int(batch.ledger_id[-1]), int(batch.entry_id[-1]))
            answer = await offers.offer(last, *columns_of_batch)
        added_count += answer.added_count
        _extend(columns["due"], answer.due_offsets, first)
        _extend(columns["duplicate"], answer.duplicate_offsets, first)
        _extend(columns["beyond_max_delay"], answer.beyond_max_delay_offsets, first)
        _extend(columns["below_mark_delete"], answer.below_mark_delete_offsets, first)
        if progress:
            progress(first + len(batch), total)
    return OfferOutcome(
        offered_count=total,
        added_count=added_count,
        **{name: np.array(offsets, np.int64) for name, offsets in columns.items()},
    )


def _extend(all_offsets: list[int], offsets: Sequence[int], first: int) -> None:
    all_offsets.extend(offset + first for offset in offsets)
