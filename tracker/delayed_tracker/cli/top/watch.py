"""Reads the state of a service again and again, with calls that change nothing."""

import asyncio

from delayed_tracker.cli.top.rows import EMPTY_SAMPLE, Key, ServiceSample, Sort, View, chosen, view_of
from delayed_tracker.client import Cleared, DelayedTrackerClient, TrackerNotOpen, TrackerStats, Unavailable

LISTING_PAGE = 5_000
"""Trackers in one answer: for each page the service passes over all of them."""
_NOT_NOW = frozenset({"RECOVERING", "TRACKER_BROKEN"})
"""Reasons for missing statistics of one tracker while the service answers."""


class Watch:
    """Reader of one service that keeps the previous look."""

    def __init__(self, client: DelayedTrackerClient, topic_prefix: str) -> None:
        self._client = client
        self._topic_prefix = topic_prefix
        self._seen = EMPTY_SAMPLE
        self._view: View | None = None

    async def look(self, count: int, sort: Sort) -> View:
        """Read the service and return the view.

        Args:
            count: number of rows.
            sort: the order of the rows.
        Raises:
            Unavailable: the service cannot answer; the next look can continue from the last.
        """
        listing = self._client.list_trackers(self._topic_prefix, page_size=LISTING_PAGE)
        listed = [tracker async for tracker in listing]
        rows = self._view.trackers if self._view else ()
        keys = chosen(listed, count, sort, before=self._seen, seen=rows)
        answers = await asyncio.gather(*map(self._stats, keys))
        stats = {key: answer for key, answer in zip(keys, answers, strict=True) if answer is not None}
        now = ServiceSample(listed, stats)
        view = view_of(now, self._seen, sort)
        self._seen, self._view = now, view
        return view

    async def _stats(self, key: Key) -> TrackerStats | None:
        """Return the statistics; None if the tracker was closed since it was listed, or is being recovered."""
        try:
            return await self._client.view_tracker(*key).stats()
        except (TrackerNotOpen, Cleared):
            return None
        except Unavailable as error:
            if error.reason in _NOT_NOW:
                return None
            raise
