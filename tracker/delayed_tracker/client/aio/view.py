"""Reads one tracker without owning it."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from delayed_tracker.client.aio.calls import Calls
from delayed_tracker.client.model.answers import EntryRange, NextDelivery, Position
from delayed_tracker.client.model.exchange import Exchange, Result
from delayed_tracker.client.model.reports import (
    Bucket,
    DeliveryHistogram,
    Explanation,
    LedgerMembership,
    PeekedMessages,
    SnapshotReport,
    TrackerStats,
)
from delayed_tracker.client.rules.view import ViewRules
from delayed_tracker.wire.columns import IntColumn


class TrackerView:
    """Reader of one tracker that does not own it; the tracker must be open on the service.

    Every method raises TrackerCallError: TrackerNotOpen if the tracker is not open, Unavailable while it recovers.
    The tasks of one event loop may share it.
    """

    _rules: ViewRules

    def __init__(self, calls: Calls, rules: ViewRules) -> None:
        self._calls = calls
        self._rules = rules

    async def _perform(self, exchange: Exchange[Result]) -> Result:
        """Make the calls of an exchange, as ``Calls.perform`` does."""
        return await self._calls.perform(exchange)

    @property
    def topic(self) -> str:
        """Full topic name."""
        return self._rules.tracker.topic

    @property
    def subscription(self) -> str:
        """Name of the subscription, not URL-encoded."""
        return self._rules.tracker.subscription

    async def contains(self, ledger_ids: IntColumn, entry_ids: IntColumn) -> list[bool]:
        """Return True for each position that is tracked, leased positions included; in order."""
        return await self._perform(self._rules.contains(ledger_ids, entry_ids))

    async def filter_entries(self, ranges: Sequence[EntryRange]) -> tuple[EntryRange, ...]:
        """Return the parts of ranges that a cursor should read now: those that are not tracked.

        Args:
            ranges: any number of them, of any length; may be empty.
        Returns: in the order of ``ranges``; adjoining entries of one range are one range.
        """
        return await self._perform(self._rules.filter_entries(ranges))

    async def membership(self) -> AsyncIterator[LedgerMembership]:
        """Read every tracked position, leased ones included, as bitmaps of entries; ledgers ascend.

        A large ledger comes in several bitmaps: unite those with the same ledger id. Positions that are added or consumed
        meanwhile may be in them or not. They are complete only at the end of the iteration, which raises an error if the
        tracker was cleared, reset, closed or opened anew meanwhile: then drop what came before. There is no time limit.
        To leave early, close the iterator: ``async with contextlib.aclosing(view.membership()) as parts``.

        Raises:
            Cleared, Fenced: what came before is void.
        """
        self._require_usable()
        async with contextlib.aclosing(self._calls.answers(self._rules.membership())) as answers:
            async for answer in answers:
                for part in answer.ledgers:
                    yield LedgerMembership(part.ledger_id, part.entries)

    def _require_usable(self) -> None:
        self._calls.require_open()

    async def next_delivery_time(self) -> NextDelivery:
        """Return the time at which a poll would next succeed."""
        return await self._perform(self._rules.next_delivery_time())

    async def stats(self) -> TrackerStats:
        """Return sizes and counters since the tracker was loaded."""
        return await self._perform(self._rules.stats())

    async def buckets(self) -> tuple[Bucket, ...]:
        """Return the tracker's buckets, ascending by first position."""
        return await self._perform(self._rules.buckets())

    async def peek(self, max_messages: int, *, from_ms: int = 0, until_ms: int | None = None) -> PeekedMessages:
        """Return tracked indexes by deadline, also from segments on disk, without side effects.

        Args:
            max_messages: 1 to 10,000.
            from_ms: first deadline, inclusive.
            until_ms: end of the deadlines, exclusive; None is no end.
        """
        return await self._perform(self._rules.peek(max_messages, from_ms=from_ms, until_ms=until_ms))

    async def explain(self, ledger_id: int, entry_id: int) -> Explanation:
        """Return the place of one position, the reason why it was not delivered, and the next step."""
        return await self._perform(self._rules.explain(Position(ledger_id, entry_id)))

    async def histogram(self, *, from_ms: int, step_ms: int, bar_count: int) -> DeliveryHistogram:
        """Return the number of tracked indexes in each interval of deadlines.

        Args:
            from_ms: start of the first bar.
            step_ms: width of a bar, 1 or more.
            bar_count: 1 to 10,000.
        """
        return await self._perform(self._rules.histogram(from_ms=from_ms, step_ms=step_ms, bar_count=bar_count))

    async def verify(self) -> SnapshotReport:
        """Read every snapshot and compare it with the catalogue and the index; changes nothing, and may take long."""
        return await self._perform(self._rules.verify())
