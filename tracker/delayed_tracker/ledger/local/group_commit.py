"""Group commit: appends that arrive during a sync wait for the next one and share it."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import NamedTuple

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.local.errors import AppendFailed
from delayed_tracker.ledger.local.writer import TopicWriter


class _Pending(NamedTuple):
    payload: bytes
    num_messages: int
    position: "Future[Position]"


class GroupCommit:
    """Shared writer of one topic for any number of threads; each waits until its own entry is durable.

    The class has no thread of its own: one of the waiting threads does the work for all of them. In an event loop, call
    :meth:`submit` where an entry arrives, call :meth:`commit` in a worker thread whenever no commit is running, and
    await the futures.
    """

    def __init__(self, writer: TopicWriter, now_ms: Callable[[], int]) -> None:
        """Append through ``writer``, which must not be used elsewhere meanwhile; ``now_ms`` returns the time."""
        self._writer = writer
        self._now_ms = now_ms
        self._pending: list[_Pending] = []
        self._gather = Lock()
        self._work = Lock()

    def append(self, payload: bytes, *, num_messages: int = 1) -> Position:
        """Append an entry and wait until it is durable.

        Raises: as :meth:`~delayed_tracker.ledger.local.writer.TopicWriter.append_many`.
        """
        position = self.submit(payload, num_messages=num_messages)
        self.commit()
        return position.result()

    def submit(self, payload: bytes, *, num_messages: int = 1) -> "Future[Position]":
        """Append an entry with the next commit, in whichever thread that commit runs.

        Returns: a future with the entry's position once it is durable, or with the error. It cannot be cancelled.
        """
        position: Future[Position] = Future()
        position.set_running_or_notify_cancel()
        with self._gather:
            self._pending.append(_Pending(payload, num_messages, position))
        return position

    def commit(self) -> None:
        """Append all entries submitted before the call and make them durable; wait for a commit that is in flight.

        Errors are set in the futures.
        """
        with self._work:
            with self._gather:
                batch, self._pending = self._pending, []
            if batch:
                self._store(batch)

    def _store(self, batch: list[_Pending]) -> None:
        positions: list[Position] = []
        try:
            positions += self._writer.append_many(
                [pending.payload for pending in batch],
                num_messages=[pending.num_messages for pending in batch],
                now_ms=self._now_ms(),
            )
            self._writer.flush()
        except AppendFailed as error:
            # Appends that filled a ledger are durable even if the flush behind them fails.
            durable = error.durable
            stored = list(error.stored) or [one for one in positions if durable is not None and one <= durable]
            for pending, position in zip(batch, stored, strict=False):
                pending.position.set_result(position)
            for pending in batch[len(stored) :]:
                pending.position.set_exception(error)
        except BaseException as error:
            for pending in batch:
                pending.position.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for pending, position in zip(batch, positions, strict=True):
                pending.position.set_result(position)
