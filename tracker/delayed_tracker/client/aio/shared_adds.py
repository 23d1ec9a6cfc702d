"""Batches added at the same time share calls: what a call costs is paid once for all that wait meanwhile.

Up to ``CALLS_MAX`` calls are under way; a batch that comes then waits until one of them ends, and leaves together with
all others that wait, in the order they came, as long as they fit into one call. A batch that comes alone is sent at
once. Each is answered as if it had had a call of its own: a call is one step of the service, applied wholly or not at
all, and of a position that two batches carry the first wins.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from delayed_tracker.client.model.answers import AddAnswer
from delayed_tracker.client.queues.add_queue import perhaps_sent
from delayed_tracker.core.values.errors import DelayedTrackerError

CALLS_MAX: Final = 2
"""One that the service works on, and one whose answer is read and whose successor is made."""

PackedIndexes: TypeAlias = tuple[bytes, bytes, bytes]
"""Deadlines, ledger ids and entry ids, packed."""
Send: TypeAlias = Callable[[PackedIndexes, int], Awaitable[AddAnswer]]
"""Makes the call for so many positions."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    columns: PackedIndexes
    count: int
    outcome: "asyncio.Future[AddAnswer]"


class SharedAdds:
    """The batches of one session."""

    def __init__(self, send: Send, *, batch_max: Callable[[], int]) -> None:
        """``batch_max`` tells how many positions a call may carry, as far as is known by then."""
        self._send = send
        self._batch_max = batch_max
        self._waiting: deque[_Waiting] = deque()
        self._under_way_count = 0
        self._senders: set[asyncio.Task[None]] = set()

    async def add(self, columns: PackedIndexes, count: int) -> AddAnswer:
        """What became of one batch.

        Raises:
            TrackerCallError: the call that carried it failed.
            SessionClosed: the client was closed, or the program's event loop ended, before the answer came.
        """
        if self._under_way_count < CALLS_MAX:
            self._under_way_count += 1
            try:
                return await self._send(columns, count)
            finally:
                self._ended()
        outcome: asyncio.Future[AddAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(columns, count, outcome))
        return await outcome

    def _ended(self) -> None:
        """A call has ended: those that wait take its place."""
        self._under_way_count -= 1
        if batches := self._take():
            self._under_way_count += 1
            sender = asyncio.get_running_loop().create_task(self._send_together(batches))
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)

    def _take(self) -> list[_Waiting]:
        """What goes into the next call: at least one batch, if anybody waits, and no more than fit."""
        batches: list[_Waiting] = []
        room = self._batch_max()
        while self._waiting and (not batches or self._waiting[0].count <= room):
            waiting = self._waiting.popleft()
            # Whoever stopped waiting for a batch that has not left does not want it tracked.
            if not waiting.outcome.done():
                batches.append(waiting)
                room -= waiting.count
        return batches

    async def _send_together(self, batches: list[_Waiting]) -> None:
        deadlines, ledgers, entries = (
            b"".join(column) for column in zip(*(each.columns for each in batches), strict=True)
        )
        counts = [each.count for each in batches]
        try:
            answer = await self._send((deadlines, ledgers, entries), sum(counts))
        except DelayedTrackerError as error:
            _fail(batches, error)
        except BaseException:
            _fail(batches, perhaps_sent())
            raise
        else:
            for each, own in zip(batches, parts_of(answer, counts), strict=True):
                if not each.outcome.done():
                    each.outcome.set_result(own)
        finally:
            self._ended()


def _fail(batches: list[_Waiting], error: DelayedTrackerError) -> None:
    for each in batches:
        if not each.outcome.done():
            each.outcome.set_exception(error)


def parts_of(answer: AddAnswer, counts: Sequence[int]) -> Iterator[AddAnswer]:
    """The answer of each of the batches that a call was made of, in their order; offsets are the batch's own."""
    for first, end in pairwise(accumulate(counts, initial=0)):
        due = _between(answer.due_offsets, first, end)
        duplicate = _between(answer.duplicate_offsets, first, end)
        beyond = _between(answer.beyond_max_delay_offsets, first, end)
        below = _between(answer.below_mark_delete_offsets, first, end)
        yield AddAnswer(
            added_count=end - first - len(due) - len(duplicate) - len(beyond) - len(below),
            due_offsets=due,
            duplicate_offsets=duplicate,
            beyond_max_delay_offsets=beyond,
            below_mark_delete_offsets=below,
        )


def _between(offsets: tuple[int, ...], first: int, end: int) -> tuple[int, ...]:
    if not offsets:
        return ()
    return tuple(offset - first for offset in offsets[bisect_left(offsets, first) : bisect_left(offsets, end)])
