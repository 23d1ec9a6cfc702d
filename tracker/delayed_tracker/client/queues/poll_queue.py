"""Queue of polls that share calls: chooses the polls of a call, and divides the answer among them.

Neither waits nor locks, like ``add_queue`` for adds. Polls share a call only while more is due than the last answer had
room for. A shared call then does not wait at the service, so no poll delays another. Positions go to the polls in the
order of their arrival, to each at most as many as it requested.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from delayed_tracker.client.errors import InvalidArgument, ServiceFault, SessionClosed
from delayed_tracker.client.model.answers import DueMessages

CALLS_MAX: Final = 2
"""Calls in flight at most: the service works on one while the client reads the other's answer and makes the next."""


class PollTerms(NamedTuple):
    """Terms of a poll; only polls with the same terms share a call."""

    lease_ms: int | None
    """Duration of the lease in milliseconds; None is the server's default."""
    is_hand_off: bool = False


@dataclass(frozen=True, slots=True)
class PollResult:
    """Positions that a poll took."""

    lease_id: int
    """Id of the lease; 0 means no lease: a hand-off, or nothing was due."""
    expires_at_ms: int
    messages: DueMessages
    epoch: int
    """Epoch of the session at the time of the request."""

    def part(self, first: int, end: int) -> "PollResult":
        """Return some of the positions, by offset, under the same lease."""
        messages = self.messages
        if end - first == len(messages):
            return self
        messages = replace(
            messages,
            deliver_at_ms=messages.deliver_at_ms[first:end],
            ledger_ids=messages.ledger_ids[first:end],
            entry_ids=messages.entry_ids[first:end],
        )
        return replace(self, messages=messages)

    def divided(self, shares: Sequence[int], leases: Sequence[tuple[int, int]] | None) -> "list[PollResult]":
        """Divide an answer among the polls of its call.

        Args:
            shares: positions that each poll takes at most.
            leases: lease id and number of positions of each share, without the shares that took nothing; None: divide
                the answer here, under one lease.
        Raises:
            ServiceFault: there are more leases than polls.
        """
        if len(shares) == 1:
            return [self]
        if leases is None:
            leases = [(self.lease_id, share) for share in shares]
        if len(leases) > len(shares):
            raise ServiceFault(f"the service answered {len(leases)} leases to {len(shares)} polls")
        parts = []
        first = 0
        for lease_id, count in [*leases, *[(0, 0)] * (len(shares) - len(leases))]:
            end = min(first + count, len(self.messages))
            part = self.part(first, end)
            parts.append(replace(part, lease_id=lease_id, expires_at_ms=self.expires_at_ms if lease_id else 0))
            first = end
        return parts


class PollFuture(Protocol):
    """Receiver of one poll's share: a future."""

    def done(self) -> bool:
        """Return True if the share is set or no longer wanted."""
        ...

    def set_result(self, taken: PollResult | None, /) -> None:
        """Set the share; None: nothing is left to take now, so wait at the service."""
        ...

    def set_exception(self, error: Exception, /) -> None:
        """Set the error that ended the poll."""
        ...


OutcomeT = TypeVar("OutcomeT", bound=PollFuture)


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPoll(Generic[OutcomeT]):
    """One poll, and the future of its share."""

    max_messages: int
    may_wait: bool
    """True if the poll waits when nothing is due."""
    terms: PollTerms
    outcome: OutcomeT


class PollQueue(Generic[OutcomeT]):
    """Polls of one session that are not sent yet, in their order of arrival, and state from the last answers."""

    def __init__(self, *, share_max: int) -> None:
        """Create an empty queue.

        Args:
            share_max: positions that the polls of a shared call request together at most; a single poll may request
                more.
        """
        # True before the first answer: many polls may come at once to a backlog, and a wrong guess costs one call.
        self.more_is_due = True
        self._share_max = share_max
        self._waiting: deque[WaitingPoll[OutcomeT]] = deque()
        self._replay_is_known = False
        self._kept: deque[PollResult] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, poll: WaitingPoll[OutcomeT]) -> None:
        """Append a poll."""
        self._waiting.append(poll)

    def take(self) -> list[WaitingPoll[OutcomeT]]:
        """Remove and return the polls of the next call; may be empty although polls waited, if all were given up."""
        polls: list[WaitingPoll[OutcomeT]] = []
        room = self._share_max
        while self._waiting:
            first = self._waiting[0]
            if first.outcome.done():
                self._waiting.popleft()
                continue
            if polls and (first.max_messages > room or first.terms != polls[0].terms):
                break
            polls.append(self._waiting.popleft())
            room -= first.max_messages
        return polls

    def take_all(self) -> list[WaitingPoll[OutcomeT]]:
        """Remove and return all waiting polls that are still wanted."""
        polls = [poll for poll in self._waiting if not poll.outcome.done()]
        self._waiting.clear()
        return polls

    def refused(self, polls: Sequence[WaitingPoll[OutcomeT]], error: InvalidArgument) -> bool:
        """Return True if the service may accept the refused polls in separate calls; they are then sent next."""
        largest = max(poll.max_messages for poll in polls)
        is_too_much = any(violation.field == "max_messages" for violation in error.violations)
        if len(polls) == 1 or not is_too_much:
            return False
        self._share_max = min(self._share_max, largest)
        self._waiting.extendleft(reversed(polls))
        return True

    def answered(self, messages: DueMessages) -> bool:
        """Update the state from an answer; return True if it is the first answer that requires a replay."""
        next_ms = messages.next_delivery_at_ms
        self.more_is_due = next_ms is not None and next_ms <= messages.server_time_ms
        is_news = messages.replay_required and not self._replay_is_known
        self._replay_is_known = messages.replay_required
        return is_news

    def distribute(self, polls: Sequence[WaitingPoll[OutcomeT]], parts: Sequence[PollResult]) -> list[PollResult]:
        """Give each poll of a call its part.

        Returns: the parts of polls that were given up in the meantime.
        """
        is_news = self.answered(parts[0].messages)
        rest = []
        for poll, part in zip(polls, parts, strict=True):
            if poll.outcome.done():
                rest.append(part)
            elif len(part.messages) or is_news or not poll.may_wait:
                poll.outcome.set_result(part)
            else:
                poll.outcome.set_result(None)
        return rest

    def keep(self, taken: PollResult) -> None:
        """Keep positions that were handed off to a poll that was given up: they cannot be given back."""
        self._kept.append(taken)

    def kept(self, max_messages: int, *, epoch: int) -> PollResult | None:
        """Return kept positions for the next hand-off, or None. A clear ends an epoch, and drops its kept positions."""
        while self._kept:
            taken = self._kept.popleft()
            if taken.epoch == epoch:
                if len(taken.messages) > max_messages:
                    self._kept.appendleft(taken.part(max_messages, len(taken.messages)))
                return taken.part(0, min(max_messages, len(taken.messages)))
        return None


def interrupted() -> SessionClosed:
    """Return the error for a poll that waited, or was in flight, when the session ended."""
    return SessionClosed("the session ended while this poll was in flight; its positions return when the lease expires")
