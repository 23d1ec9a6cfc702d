"""One tracker as whoever reads it sees it, without owning it."""

from collections.abc import Sequence

from delayed_tracker.client.aio.calls import Calls
from delayed_tracker.client.model.answers import EntryRange, NextDelivery, Position
from delayed_tracker.client.model.exchange import Exchange, Result
from delayed_tracker.client.model.reports import (
    Bucket,
    DeliveryHistogram,
    Explanation,
    PeekedMessages,
    SnapshotReport,
    TrackerStats,
)
from delayed_tracker.client.rules.view import ViewRules
from delayed_tracker.wire.columns import IntColumn


class TrackerView:
    """Reads one tracker without owning it; the tracker must be open on the service.

    Every method raises TrackerCallError: TrackerNotOpen if nobody opened the tracker, Unavailable while it recovers.
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
        """The full topic name."""
        return self._rules.tracker.topic

    @property
    def subscription(self) -> str:
        """The subscription's name as users write it."""
        return self._rules.tracker.subscription

    async def contains(self, ledger_ids: IntColumn, entry_ids: IntColumn) -> list[bool]:
        """Which positions are tracked, leased ones included; one answer a position, in order."""
        return await self._perform(self._rules.contains(ledger_ids, entry_ids))

    async def filter_entries(self, ranges: Sequence[EntryRange]) -> tuple[EntryRange, ...]:
        """The parts of ranges that a cursor should read now: those that are not tracked.

        Args:
            ranges: any number of them, of any length; may be empty.
        Returns: in the order of ``ranges``; adjoining entries of one range are one range.
        """
        return await self._perform(self._rules.filter_entries(ranges))

    async def next_delivery_time(self) -> NextDelivery:
        """When a poll would next succeed."""
        return await self._perform(self._rules.next_delivery_time())

    async def stats(self) -> TrackerStats:
        """Sizes and counters since the tracker was loaded."""
        return await self._perform(self._rules.stats())

    async def buckets(self) -> tuple[Bucket, ...]:
        """The tracker's buckets, ascending by first position."""
        return await self._perform(self._rules.buckets())

    async def peek(self, max_messages: int, *, from_ms: int = 0, until_ms: int | None = None) -> PeekedMessages:
        """Tracked indexes by deadline, without any side effect, from segments on disk too.

        Args:
            max_messages: 1 to 10,000.
            from_ms: deadlines from here on, inclusive.
            until_ms: up to here, exclusive; None is no end.
        """
        return await self._perform(self._rules.peek(max_messages, from_ms=from_ms, until_ms=until_ms))

    async def explain(self, ledger_id: int, entry_id: int) -> Explanation:
        """Where one position is, why it was not delivered, and what happens next."""
        return await self._perform(self._rules.explain(Position(ledger_id, entry_id)))

    async def histogram(self, *, from_ms: int, step_ms: int, bar_count: int) -> DeliveryHistogram:
        """How many tracked indexes are due when.

        Args:
            from_ms: where the first bar begins.
            step_ms: width of a bar, 1 or more.
            bar_count: 1 to 10,000.
        """
        return await self._perform(self._rules.histogram(from_ms=from_ms, step_ms=step_ms, bar_count=bar_count))

    async def verify(self) -> SnapshotReport:
        """Read every snapshot and compare it with the catalogue and the index; changes nothing, and may take long."""
        return await self._perform(self._rules.verify())
