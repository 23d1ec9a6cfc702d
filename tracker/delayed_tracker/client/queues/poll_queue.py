"""Polls that share calls: which leave together, and who gets which part of an answer.

The part that neither waits nor locks, as ``add_queue`` is for adds. Polls share only while more is due than the last
answer had room for: then nothing has to be waited for, so a shared call asks without waiting, and no poll can hold up
another. Those who come first get first, each no more than it asked for.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from delayed_tracker.client.errors import InvalidArgument
from delayed_tracker.client.model.answers import DueMessages

CALLS_MAX: Final = 2
"""One that the service works on, and one whose answer is read and whose successor is made."""


class PollTerms(NamedTuple):
    """On what terms positions are taken; polls share a call only under the same."""

    lease_ms: int | None
    """None is the server's default."""
    is_hand_off: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What a poll took."""

    lease_id: int
    """0 is none: a hand-off, or nothing was due."""
    expires_at_ms: int
    messages: DueMessages
    epoch: int
    """The owner's when it was asked for."""

    def part(self, first: int, end: int) -> "Taken":
        """Some of it, by offset; under the same lease."""
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

    def divided(self, shares: Sequence[int], leases: Sequence[tuple[int, int]] | None) -> "list[Taken]":
        """An answer divided among the polls that it was for.

        Args:
            shares: the most that each of them takes.
            leases: id and length of each share's lease, but for those that took nothing; None: divide it here.
        """
        if len(shares) == 1:
            return [self]
        if leases is None:
            leases = [(self.lease_id, share) for share in shares]
        parts = []
        first = 0
        for lease_id, count in [*leases, *[(0, 0)] * (len(shares) - len(leases))]:
            end = min(first + count, len(self.messages))
            part = self.part(first, end)
            parts.append(replace(part, lease_id=lease_id, expires_at_ms=self.expires_at_ms if lease_id else 0))
            first = end
        return parts


class PollOutcome(Protocol):
    """Where the share of one poll goes."""

    def done(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    def set_result(self, taken: Taken | None, /) -> None:
        """Give the share; None: nothing is left that could be taken now, wait for it."""
        ...

    def set_exception(self, error: Exception, /) -> None:
        """Tell why it failed."""
        ...


OutcomeT = TypeVar("OutcomeT", bound=PollOutcome)


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPoll(Generic[OutcomeT]):
    """One poll, and who waits for its share."""

    max_messages: int
    may_wait: bool
    """Whether it would rather wait than get nothing."""
    terms: PollTerms
    outcome: OutcomeT


class PollQueue(Generic[OutcomeT]):
    """Polls of one session that have not left yet, in the order they came, and what the last answers told."""

    def __init__(self, *, share_max: int) -> None:
        """``share_max`` is the most that polls ask for together; one alone may ask for more."""
        self.more_is_due = (
            True  # until somebody was told: many may come at once to a backlog, and asking costs one call
        )
        self._share_max = share_max
        self._waiting: deque[WaitingPoll[OutcomeT]] = deque()
        self._replay_is_known = False
        self._kept: deque[Taken] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, poll: WaitingPoll[OutcomeT]) -> None:
        """Line up."""
        self._waiting.append(poll)

    def take(self) -> list[WaitingPoll[OutcomeT]]:
        """What shares the next call; may be empty even if polls waited, for nobody may want them."""
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
        """Everything that waits, leaving nothing."""
        polls = [poll for poll in self._waiting if not poll.outcome.done()]
        self._waiting.clear()
        return polls

    def refused(self, polls: Sequence[WaitingPoll[OutcomeT]], error: InvalidArgument) -> bool:
        """Whether polls may be allowed apart that were not together; if so, they are the next to leave."""
        largest = max(poll.max_messages for poll in polls)
        is_too_much = any(violation.field == "max_messages" for violation in error.violations)
        if len(polls) == 1 or not is_too_much:
            return False
        self._share_max = min(self._share_max, largest)
        self._waiting.extendleft(reversed(polls))
        return True

    def answered(self, messages: DueMessages) -> bool:
        """Learn from an answer; tells whether it is to be handed on though it may be empty: a replay is required."""
        next_ms = messages.next_delivery_at_ms
        self.more_is_due = next_ms is not None and next_ms <= messages.server_time_ms
        is_news = messages.replay_required and not self._replay_is_known
        self._replay_is_known = messages.replay_required
        return is_news

    def distribute(self, polls: Sequence[WaitingPoll[OutcomeT]], parts: Sequence[Taken]) -> list[Taken]:
        """Give each poll of a call its part.

        Returns: what was taken, if anything, for polls that were given up meanwhile.
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

    def keep(self, taken: Taken) -> None:
        """Keep what was handed off for a poll that was given up: it cannot be given back."""
        self._kept.append(taken)

    def kept(self, max_messages: int, *, epoch: int) -> Taken | None:
        """What was kept for whoever is handed something off next; not beyond the epoch, which a clear ends."""
        while self._kept:
            taken = self._kept.popleft()
            if taken.epoch == epoch:
                if len(taken.messages) > max_messages:
                    self._kept.appendleft(taken.part(max_messages, len(taken.messages)))
                return taken.part(0, min(max_messages, len(taken.messages)))
        return None
