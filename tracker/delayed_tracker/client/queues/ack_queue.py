"""Acks that share calls: which leave together, and whose answer is whose.

The part that neither waits nor locks, as ``poll_queue`` is for polls. Acks of one epoch leave together, in the order
they came, as many as fit into a call.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Generic, Protocol, TypeAlias, TypeVar

from delayed_tracker.client.errors import SessionClosed
from delayed_tracker.client.model.answers import AckAnswer
from delayed_tracker.client.model.bounds import ACKS_MAX
from delayed_tracker.core.values.errors import DelayedTrackerError


@dataclass(frozen=True, slots=True, eq=False)
class LeaseAck:
    """Positions of one lease that are to be acknowledged."""

    lease_id: int
    epoch: int
    """The session's when it was asked for."""
    count: int
    packed: Callable[[], tuple[bytes, bytes]]
    """Makes ledger ids and entry ids for the wire, if they are sent."""
    is_whole: bool = False
    """Whether they are all that the lease holds, as far as is known; then it goes without them."""


AckOutcome: TypeAlias = AckAnswer | DelayedTrackerError
"""What became of one ack, or why it failed."""


class Answerable(Protocol):
    """Where the outcome of one ack goes."""

    def done(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    def set_result(self, answer: AckAnswer, /) -> None:
        """Tell what became of it."""
        ...

    def set_exception(self, error: Exception, /) -> None:
        """Tell why it failed."""
        ...


AnswerableT = TypeVar("AnswerableT", bound=Answerable)


@dataclass(frozen=True, slots=True, eq=False)
class WaitingAck(Generic[AnswerableT]):
    """One ack, and who waits for what becomes of it."""

    ack: LeaseAck
    outcome: AnswerableT

    def settle(self, outcome: AckAnswer | Exception) -> None:
        """Tell what became of it, if somebody still waits."""
        if self.outcome.done():
            return
        if isinstance(outcome, AckAnswer):
            self.outcome.set_result(outcome)
        else:
            self.outcome.set_exception(outcome)


class AckQueue(Generic[AnswerableT]):
    """Acks of one session that have not left yet, in the order they came."""

    def __init__(self, *, batch_max: Callable[[], int]) -> None:
        """``batch_max`` tells how many positions a call may settle, as far as is known by then."""
        self._batch_max = batch_max
        self._waiting: deque[WaitingAck[AnswerableT]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, ack: WaitingAck[AnswerableT]) -> None:
        """Line up."""
        self._waiting.append(ack)

    def take(self) -> list[WaitingAck[AnswerableT]]:
        """What shares the next call; may be empty even if acks waited, for nobody may want them."""
        acks: list[WaitingAck[AnswerableT]] = []
        room = self._batch_max()
        while self._waiting and len(acks) < ACKS_MAX:
            first = self._waiting[0]
            # Who stopped waiting for an ack that has not left may want its positions to come back.
            if first.outcome.done():
                self._waiting.popleft()
                continue
            if acks and (first.ack.count > room or first.ack.epoch != acks[0].ack.epoch):
                break
            acks.append(self._waiting.popleft())
            room -= first.ack.count
        return acks

    def take_all(self) -> list[WaitingAck[AnswerableT]]:
        """Everything that waits, leaving nothing."""
        acks = list(self._waiting)
        self._waiting.clear()
        return acks


def settle(acks: Sequence[WaitingAck[AnswerableT]], outcomes: Sequence[AckAnswer | Exception]) -> None:
    """Give each ack of a call its own outcome."""
    for ack, outcome in zip(acks, outcomes, strict=True):
        ack.settle(outcome)


def divided(
    named_counts: Sequence[int], acked_counts: Sequence[int], stale: Sequence[int], unknown: Sequence[int]
) -> list[AckAnswer]:
    """The answer of each of the acks that a call was made of, in their order; offsets are the ack's own.

    Args:
        named_counts: so many positions the call carried for each; 0 for a whole lease.
        acked_counts: so many were acknowledged of each.
        stale: offsets into the call's positions, ascending.
        unknown: the same.
    """
    bounds = pairwise(accumulate(named_counts, initial=0))
    return [
        AckAnswer(acked_count, _between(stale, first, end), _between(unknown, first, end))
        for acked_count, (first, end) in zip(acked_counts, bounds, strict=True)
    ]


def _between(offsets: Sequence[int], first: int, end: int) -> tuple[int, ...]:
    return tuple(offset - first for offset in offsets[bisect_left(offsets, first) : bisect_left(offsets, end)])


def interrupted() -> SessionClosed:
    """The error for an ack that waited, or was on its way, when the session broke off."""
    return SessionClosed(
        "the session ended while this ack was on its way; what was not acknowledged comes back in time"
    )
