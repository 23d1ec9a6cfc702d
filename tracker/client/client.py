"""The entry point for dispatchers: a connection to the service, and trackers opened over it.

::

    async with DelayedTrackerClient.connect("127.0.0.1:7650") as client:
        async with await client.open_tracker("persistent://shop/orders/events", "billing") as session:
            await session.add(deliver_at_ms, ledger_id, entry_id)
            async with await session.poll(100, wait_ms=10_000) as lease:
                ...
"""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from delayed_tracker.v1 import tracker_pb2 as pb
from tracker.client import convert
from tracker.client.answers import OpenAnswer, Position
from tracker.client.calls import Calls, ClientSettings
from tracker.client.session import TrackerSession, TrackerView, position_message


class DelayedTrackerClient:
    """A connection to one service. Made by :meth:`connect`; safe to share among the tasks of one event loop."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @classmethod
    @asynccontextmanager
    async def connect(cls, address: str, *, settings: ClientSettings | None = None) -> AsyncIterator[Self]:
        """Connect for the length of a context.

        Args:
            address: host:port of the service.
            settings: timeouts and batching; None is the defaults.
        Raises:
            Unavailable: nothing answers there within ``connect_timeout_s``.
        """
        calls = Calls(address, settings or ClientSettings())
        try:
            await calls.connected()
            yield cls(calls)
        finally:
            await calls.close()

    async def open_tracker(
        self, topic: str, subscription: str, *, owner: str | None = None, mark_delete: Position | None = None
    ) -> TrackerSession:
        """Open the tracker of one subscription and own it: older sessions are fenced, all leases return.

        Args:
            topic: full topic name, such as ``persistent://tenant/namespace/topic``.
            subscription: its name as users write it.
            owner: who opens it, shown to operators and to whoever is fenced; None is this host and process.
            mark_delete: the cursor's mark-delete position; everything up to and including it is dropped.
        Returns: a session; ``session.opened`` says what was recovered and where to replay from.
        """
        owner = f"{socket.gethostname()}:{os.getpid()}" if owner is None else owner
        convert.require_text("owner", owner)
        request = pb.OpenTrackerRequest(
            tracker=convert.tracker_ref(topic, subscription),
            owner=owner,
            mark_delete=None if mark_delete is None else position_message(mark_delete),
        )
        answer = await self._calls.call(
            "OpenTracker", request, pb.OpenTrackerResponse, timeout_s=self._calls.settings.open_timeout_s
        )
        opened = OpenAnswer(
            epoch=answer.epoch,
            replay_from=convert.position(answer.replay_from) if answer.HasField("replay_from") else None,
            recovered_count=answer.recovered_count,
            bucket_count=answer.bucket_count,
        )
        return TrackerSession(self._calls, topic, subscription, opened)

    def view_tracker(self, topic: str, subscription: str) -> TrackerView:
        """Read a tracker that somebody opened, without taking it over."""
        return TrackerView(self._calls, topic, subscription)
