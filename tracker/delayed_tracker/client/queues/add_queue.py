"""Queue of single adds: chooses the adds of a batch, and gives each its own result.

The part of the add buffers that neither waits nor locks. The caller of an add holds its outcome: a future of asyncio,
or of ``concurrent.futures``.
"""

import warnings
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from delayed_tracker.client.errors import SessionClosed
from delayed_tracker.client.model.answers import AddAnswer, AddResult


class AddFuture(Protocol):
    """Receiver of the result of one add: a future."""

    def done(self) -> bool:
        """Return True if the result is set or no longer wanted."""
        ...

    def set_result(self, result: AddResult, /) -> None:
        """Set the result of the add."""
        ...

    def set_exception(self, error: Exception, /) -> None:
        """Set the error that ended the add."""
        ...


WaitingOutcome = TypeVar("WaitingOutcome", bound=AddFuture)


@dataclass(frozen=True, slots=True)
class WaitingAdd(Generic[WaitingOutcome]):
    """One position, and the future of its result."""

    deliver_at_ms: int
    ledger_id: int
    entry_id: int
    outcome: WaitingOutcome


class AddQueue(Generic[WaitingOutcome]):
    """Adds that are not sent yet, in the order of their calls."""

    def __init__(self, *, flush_count: int, wanted: Callable[[WaitingOutcome], bool]) -> None:
        """Create an empty queue.

        Args:
            flush_count: adds in a batch at most.
            wanted: called once for each add when it is sent; returns True if the caller still waits for the result.
        """
        self._flush_count = flush_count
        self._wanted = wanted
        self._waiting: deque[WaitingAdd[WaitingOutcome]] = deque()

    def warn_when_dropped(self, session: object) -> None:
        """Warn if adds still wait when their session is dropped without being left, or when the program ends."""
        weakref.finalize(session, _warn_of_buffered, self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """True if the waiting adds fill a batch."""
        return len(self._waiting) >= self._flush_count

    def put(self, add: WaitingAdd[WaitingOutcome]) -> None:
        """Append an add."""
        self._waiting.append(add)

    def take(self) -> list[WaitingAdd[WaitingOutcome]]:
        """Remove and return the next batch; may be empty although adds waited, if all were given up."""
        batch: list[WaitingAdd[WaitingOutcome]] = []
        while self._waiting and len(batch) < self._flush_count:
            add = self._waiting.popleft()
            # An add that was given up before it was sent is dropped: the caller does not want it tracked.
            if self._wanted(add.outcome):
                batch.append(add)
        return batch

    def take_all(self) -> list[WaitingAdd[WaitingOutcome]]:
        """Remove and return all waiting adds that are still wanted."""
        rest: list[WaitingAdd[WaitingOutcome]] = []
        while self._waiting:
            rest += self.take()
        return rest


def columns(batch: Sequence[WaitingAdd[WaitingOutcome]]) -> tuple[list[int], list[int], list[int]]:
    """Return a batch as deadlines, ledger ids and entry ids."""
    return (
        [add.deliver_at_ms for add in batch],
        [add.ledger_id for add in batch],
        [add.entry_id for add in batch],
    )


def succeed(batch: Sequence[WaitingAdd[WaitingOutcome]], answer: AddAnswer) -> None:
    """Give each add of a batch its own result."""
    for add, result in zip(batch, answer.results(len(batch)), strict=True):
        if not add.outcome.done():
            add.outcome.set_result(result)


def fail(batch: Sequence[WaitingAdd[WaitingOutcome]], error: Exception) -> None:
    """Give each add of a batch the same error."""
    for add in batch:
        if not add.outcome.done():
            add.outcome.set_exception(error)


def _warn_of_buffered(waiting: Collection[WaitingAdd[WaitingOutcome]]) -> None:
    # A copy, because the sender thread of a blocking client may take from it at the same time.
    if count := sum(not add.outcome.done() for add in tuple(waiting)):
        warnings.warn(
            f"a session was dropped before its buffered adds were sent, {count} in all: close the session, or leave its"
            " block, to learn what became of them",
            ResourceWarning,
            stacklevel=2,
        )


def refused() -> SessionClosed:
    """Return the error for a call after the end of the session."""
    return SessionClosed("the session is closed; open the tracker again to go on")


def not_sent() -> SessionClosed:
    """Return the error for an add that was not sent when the session ended."""
    return SessionClosed("the session ended before this add was sent; nothing is known of it")


def perhaps_sent() -> SessionClosed:
    """Return the error for an add that was in flight when the session ended."""
    return SessionClosed("the session ended while this add was on its way; it may be tracked")
