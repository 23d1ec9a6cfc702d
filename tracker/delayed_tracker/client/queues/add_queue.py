"""Single adds on their way into batches: what waits, what leaves together, and whose outcome is whose.

The part of the add buffers that neither waits nor locks. Whoever waits for an add holds its outcome: a future of
asyncio, or of threads.
"""

import warnings
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from delayed_tracker.client.errors import SessionClosed
from delayed_tracker.client.model.answers import AddAnswer, AddResult
from delayed_tracker.core.values.errors import DelayedTrackerError


class Outcome(Protocol):
    """Where the result of one add goes."""

    def done(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    def set_result(self, result: AddResult, /) -> None:
        """Tell what became of the add."""
        ...

    def set_exception(self, error: DelayedTrackerError, /) -> None:
        """Tell why it failed."""
        ...


WaitingOutcome = TypeVar("WaitingOutcome", bound=Outcome)


@dataclass(frozen=True, slots=True)
class WaitingAdd(Generic[WaitingOutcome]):
    """One position and who waits for what becomes of it."""

    deliver_at_ms: int
    ledger_id: int
    entry_id: int
    outcome: WaitingOutcome


class AddQueue(Generic[WaitingOutcome]):
    """Adds that have not left yet, in the order of their calls."""

    def __init__(self, *, flush_count: int, wanted: Callable[[WaitingOutcome], bool]) -> None:
        """``wanted`` tells, once, as an add leaves, whether somebody still waits for it."""
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
        """Whether what waits is worth a call."""
        return len(self._waiting) >= self._flush_count

    def put(self, add: WaitingAdd[WaitingOutcome]) -> None:
        """Line up."""
        self._waiting.append(add)

    def take(self) -> list[WaitingAdd[WaitingOutcome]]:
        """The next batch; may be empty even if adds waited, for nobody may want them."""
        batch: list[WaitingAdd[WaitingOutcome]] = []
        while self._waiting and len(batch) < self._flush_count:
            add = self._waiting.popleft()
            # Whoever stopped waiting for an add that has not left does not want it tracked.
            if self._wanted(add.outcome):
                batch.append(add)
        return batch

    def take_all(self) -> list[WaitingAdd[WaitingOutcome]]:
        """Everything that waits and is wanted, leaving nothing."""
        rest: list[WaitingAdd[WaitingOutcome]] = []
        while self._waiting:
            rest += self.take()
        return rest


def columns(batch: Sequence[WaitingAdd[WaitingOutcome]]) -> tuple[list[int], list[int], list[int]]:
    """A batch as deadlines, ledger ids and entry ids."""
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


def fail(batch: Sequence[WaitingAdd[WaitingOutcome]], error: DelayedTrackerError) -> None:
    """Give each add of a batch the same error."""
    for add in batch:
        if not add.outcome.done():
            add.outcome.set_exception(error)


def _warn_of_buffered(waiting: Collection[WaitingAdd[WaitingOutcome]]) -> None:
    # A copy, for the thread of a blocking client may be taking from it.
    if count := sum(not add.outcome.done() for add in tuple(waiting)):
        warnings.warn(
            f"a session was dropped before its buffered adds were sent, {count} in all: close the session, or leave its"
            " block, to learn what became of them",
            ResourceWarning,
            stacklevel=2,
        )


def refused() -> SessionClosed:
    """The error for a call that comes after the end."""
    return SessionClosed("the session is closed; open the tracker again to go on")


def not_sent() -> SessionClosed:
    """The error for an add that had not left when the session broke off."""
    return SessionClosed("the session ended before this add was sent; nothing is known of it")


def perhaps_sent() -> SessionClosed:
    """The error for an add that was on its way when the session broke off."""
    return SessionClosed("the session ended while this add was on its way; it may be tracked")
