"""Queue of acks that share calls: chooses the acks of a call, and divides the answer among them.

Neither waits nor locks, like ``poll_queue`` for polls. Acks of one epoch are sent together, in the order of their
arrival, as many as fit into a call.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Generic, Protocol, TypeAlias, TypeVar

from delayed_tracker.client.errors import SessionClosed
from delayed_tracker.client.model.answers import AckAnswer
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.wire.calls import ACKS_MAX


@dataclass(frozen=True, slots=True, eq=False)
class LeaseAck:
    """Positions of one lease to acknowledge."""

    lease_id: int
    epoch: int
    """Epoch of the session at the time of the request."""
    count: int
    packed: Callable[[], tuple[bytes, bytes]]
    """Returns ledger ids and entry ids for the wire; called only if they are sent."""
    is_whole: bool = False
    """True if the positions are all that the lease holds, as the client knows; then the call carries no positions."""


AckOutcome: TypeAlias = AckAnswer | DelayedTrackerError
"""Result of one ack, or the error that ended it."""


class AckFuture(Protocol):
    """Receiver of the result of one ack: a future."""

    def done(self) -> bool:
        """Return True if the result is set or no longer wanted."""
        ...

    def set_result(self, answer: AckAnswer, /) -> None:
        """Set the result of the ack."""
        ...

    def set_exception(self, error: Exception, /) -> None:
        """Set the error that ended the ack."""
        ...


AnswerableT = TypeVar("AnswerableT", bound=AckFuture)


@dataclass(frozen=True, slots=True, eq=False)
class WaitingAck(Generic[AnswerableT]):
    """One ack, and the future of its result."""

    ack: LeaseAck
    outcome: AnswerableT

    def settle(self, outcome: AckAnswer | Exception) -> None:
        """Set the result or the error, unless the caller has stopped waiting."""
        if self.outcome.done():
            return
        if isinstance(outcome, AckAnswer):
            self.outcome.set_result(outcome)
        else:
            self.outcome.set_exception(outcome)


class AckQueue(Generic[AnswerableT]):
    """Acks of one session that are not sent yet, in the order of their arrival."""

    def __init__(self, *, batch_max: Callable[[], int]) -> None:
        """Create an empty queue.

        Args:
            batch_max: returns how many positions a call may settle, as known at that time.
        """
        self._batch_max = batch_max
        self._waiting: deque[WaitingAck[AnswerableT]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, ack: WaitingAck[AnswerableT]) -> None:
        """Append an ack."""
        self._waiting.append(ack)

    def take(self) -> list[WaitingAck[AnswerableT]]:
        """Remove and return the acks of the next call; may be empty although acks waited, if all were given up."""
        acks: list[WaitingAck[AnswerableT]] = []
        room = self._batch_max()
        while self._waiting and len(acks) < ACKS_MAX:
            first = self._waiting[0]
            # An ack that was given up before it was sent is dropped: the caller may want the positions to return.
            if first.outcome.done():
                self._waiting.popleft()
                continue
            if acks and (first.ack.count > room or first.ack.epoch != acks[0].ack.epoch):
                break
            acks.append(self._waiting.popleft())
            room -= first.ack.count
        return acks

    def take_all(self) -> list[WaitingAck[AnswerableT]]:
        """Remove and return all waiting acks."""
        acks = list(self._waiting)
        self._waiting.clear()
        return acks


def settle(acks: Sequence[WaitingAck[AnswerableT]], outcomes: Sequence[AckAnswer | Exception]) -> None:
    """Give each ack of a call its own result."""
    for ack, outcome in zip(acks, outcomes, strict=True):
        ack.settle(outcome)


def divided(
    named_counts: Sequence[int], acked_counts: Sequence[int], stale: Sequence[int], unknown: Sequence[int]
) -> list[AckAnswer]:
    """Divide the answer to a call among its acks, in their order; offsets count from each ack's first position.

    Args:
        named_counts: positions that the call carried for each ack; 0 for a whole lease.
        acked_counts: positions that were acknowledged for each ack.
        stale: offsets into the call's positions, ascending.
        unknown: offsets into the call's positions, ascending.
    """
    bounds = pairwise(accumulate(named_counts, initial=0))
    return [
        AckAnswer(acked_count, _between(stale, first, end), _between(unknown, first, end))
        for acked_count, (first, end) in zip(acked_counts, bounds, strict=True)
    ]


def _between(offsets: Sequence[int], first: int, end: int) -> tuple[int, ...]:
    return tuple(offset - first for offset in offsets[bisect_left(offsets, first) : bisect_left(offsets, end)])


def interrupted() -> SessionClosed:
    """Return the error for an ack that waited, or was in flight, when the session ended."""
    return SessionClosed(
        "the session ended while this ack was in flight; unacknowledged positions return when the lease expires"
    )
