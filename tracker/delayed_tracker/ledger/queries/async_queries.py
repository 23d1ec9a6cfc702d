"""Queries about topics for programs with an event loop.

A source of ledgers reads files and belongs to one thread. Each source gets a thread of its own, which is given one query
after the other. So the event loop never blocks, and what waits is a task, which can be cancelled.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.messages.message import MessageId
from delayed_tracker.ledger.queries.message_index import IndexLookupMode
from delayed_tracker.ledger.queries.seek import TimeSeek
from delayed_tracker.ledger.queries.topic_queries import TopicQueries
from delayed_tracker.ledger.topic.entry_pages import EntryPage
from delayed_tracker.ledger.topic.topic_log import LedgerSource

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


class AsyncTopicQueries:
    """Asynchronous form of :class:`~delayed_tracker.ledger.queries.topic_queries.TopicQueries`.

    The queries run in a thread of their own. The object is an asynchronous context manager. If a caller stops waiting,
    the thread still finishes the running query. A query that has not begun is dropped.
    """

    def __init__(self, queries: TopicQueries, thread: ThreadPoolExecutor) -> None:
        self._queries = queries
        self._thread = thread
        self._turn = asyncio.Lock()
        """Held while the thread has a query: in its queue, one whose caller has gone would stay in memory."""

    @classmethod
    async def open(cls, opener: Callable[[], LedgerSource]) -> Self:
        """Open a source in the thread that will read it.

        Args:
            opener: function such as ``lambda: open_source(url)``; its exceptions are raised here.
        """
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledgers")
        try:
            source = await asyncio.get_running_loop().run_in_executor(thread, opener)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(TopicQueries(source), thread)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the source after all queries that were asked so far. If cancelled, close it after the running one."""
        try:
            await self._turn.acquire()
        finally:
            closing = self._thread.submit(self._queries.source.close)
            self._thread.shutdown(wait=False)
        self._turn.release()  # queries that come later are refused by the thread
        await asyncio.wrap_future(closing)

    async def get_message_id_by_index(
        self, topic: str, index: int, *, mode: IndexLookupMode = IndexLookupMode.PROPOSAL
    ) -> MessageId:
        """Call :meth:`TopicQueries.get_message_id_by_index` in the thread."""
        return await self._ask(TopicQueries.get_message_id_by_index, topic, index, mode=mode)

    async def seek_by_time(self, topic: str, timestamp_ms: int, *, read_compacted: bool = False) -> TimeSeek:
        """Call :meth:`TopicQueries.seek_by_time` in the thread."""
        return await self._ask(TopicQueries.seek_by_time, topic, timestamp_ms, read_compacted=read_compacted)

    async def oldest_message_expired(
        self, topic: str, ttl_seconds: int, *, now_ms: int, mark_delete: Position | None = None
    ) -> bool:
        """Call :meth:`TopicQueries.oldest_message_expired` in the thread."""
        return await self._ask(
            TopicQueries.oldest_message_expired, topic, ttl_seconds, now_ms=now_ms, mark_delete=mark_delete
        )

    async def get_last_message_id(self, topic: str, *, read_compacted: bool = False) -> MessageId:
        """Call :meth:`TopicQueries.get_last_message_id` in the thread."""
        return await self._ask(TopicQueries.get_last_message_id, topic, read_compacted=read_compacted)

    async def read_entries(self, topic: str, start: Position | None, *, entries_max: int, bytes_max: int) -> EntryPage:
        """Call :meth:`TopicQueries.read_entries` in the thread."""
        return await self._ask(TopicQueries.read_entries, topic, start, entries_max=entries_max, bytes_max=bytes_max)

    async def _ask(
        self, query: Callable[Concatenate[TopicQueries, _Given], _Answer], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> _Answer:
        await self._turn.acquire()
        try:
            running = asyncio.wrap_future(self._thread.submit(query, self._queries, *args, **kwargs))
        except BaseException:
            self._turn.release()
            raise
        running.add_done_callback(self._over)
        await asyncio.wait([running])
        return running.result()

    def _over(self, query: asyncio.Future[_Answer]) -> None:
        self._turn.release()
        if not query.cancelled():
            query.exception()  # nobody retrieves it if the caller has gone
