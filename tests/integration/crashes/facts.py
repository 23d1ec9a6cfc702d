"""Facts about each position of one client, by its journal, and what the service did against them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from delayed_tracker.client import Position
from tests.integration.crashes.journal import Event

# A poll answers milliseconds, and so do deadlines.
_MS = 1_000
_UNDER_WAY_MS = 10_000
"""Time for which a call may have been under way: it takes what falls due by then."""


class End(Enum):
    """The answer that ended a position."""

    CANCELLED = auto()
    DUE = auto()
    """Its add was answered as due: the dispatcher delivers it."""
    CONSUMED = auto()
    """Acknowledged or handed off."""


@dataclass(slots=True)
class Fact:
    """One position."""

    deadlines: dict[int, int]
    """The deadline in force; several if a call that sets another one is not answered. Each with the event of its call.
    """
    answered: bool = False
    """True if the service has said that it is tracked."""
    end: End | None = None
    end_event: int = 0
    end_generation: int = 0
    perhaps_ended: int = 0
    """Event of an acknowledgement or a cancel that was sent and not answered; 0 if there is none."""

    def offer(self, deadline: int, event: int) -> None:
        """Note that a call may set a deadline."""
        self.deadlines.setdefault(deadline, event)

    def move(self, deadline: int, event: int) -> None:
        """Note that the call of an event has set a deadline; those of later calls stay possible."""
        self.deadlines = {each: begun for each, begun in self.deadlines.items() if begun > event} | {deadline: event}

    def finish(self, end: End, event: int, generation: int) -> None:
        self.end, self.end_event, self.end_generation = end, event, generation


@dataclass(slots=True)
class Facts:
    """All positions of a client, and the mistakes of the service.

    Args:
        tick_ms: a position may come this much before its deadline.
    """

    tick_ms: int
    positions: dict[Position, Fact] = field(default_factory=dict)
    generation: int = 0
    wrong: list[str] = field(default_factory=list)
    """Mistakes that no crash excuses: early, after a cancel, twice without a kill, under a deadline that nobody has set."""
    twice: Counter[int] = field(default_factory=Counter)
    """Positions that came again although their consumption was answered, by the generation that was killed after it."""
    delivered_count: int = 0
    open_hand_offs: list[tuple[float, int]] = field(default_factory=list)
    """Hand-offs without an answer: time and largest number of positions. What they took is lost, as documented.
    Those that came back as new are counted off.
    """
    _taken: Counter[int] = field(default_factory=Counter)
    """Positions that were tracked and are new again, by the hand-off without an answer that may have taken them."""
    _calls: dict[int, tuple[int, Event]] = field(default_factory=dict)

    def read(self, events: Iterable[Event]) -> "Facts":
        """Take in a journal; call it once."""
        for number, event in enumerate(events):
            if "kind" in event:
                self._calls[event["call"]] = (number, event)
                self._begun(event, number)
            else:
                begun, call = self._calls.pop(event["call"])
                self._answered(call, event["answer"], begun, number)
        self.open_hand_offs = [
            (call["at"], call["maximum"] - self._taken[call["call"]]) for call in self._unanswered_hand_offs()
        ]
        return self

    def _begun(self, call: Event, number: int) -> None:
        if call["kind"] == "open":
            self.generation = call["generation"]
        elif call["kind"] == "add":
            facts = [
                self.positions.setdefault(Position(*position), Fact({deadline: number}))
                for deadline, *position in call["rows"]
            ]
            call["known_before"] = [fact.answered for fact in facts]
        elif call["kind"] == "reschedule":
            for deadline, *position in call["rows"]:
                self.positions[Position(*position)].offer(deadline, number)
        elif call["kind"] == "nack" and call["deadline"] is not None:
            for fact in self._of(call["positions"]):
                fact.offer(call["deadline"], number)
        elif call["kind"] in {"ack", "cancel"}:
            call["perhaps_before"] = [fact.perhaps_ended for fact in self._of(call["positions"])]
            for fact in self._of(call["positions"]):
                fact.perhaps_ended = number

    def _answered(self, call: Event, answer: Event, begun: int, number: int) -> None:
        match call["kind"]:
            case "add":
                self._added(call, answer, begun, number)
            case "poll" | "hand_off":
                self._polled(call, answer, begun, number)
            case "reschedule":
                for offset, (deadline, *position) in enumerate(call["rows"]):
                    self._moved(self.positions[Position(*position)], deadline, begun, answer, offset)
            case "nack" if call["deadline"] is not None:
                for offset, fact in enumerate(self._of(call["positions"])):
                    self._moved(fact, call["deadline"], begun, answer, offset)
            case "ack" | "cancel":
                self._ended(call, answer, number)

    def _added(self, call: Event, answer: Event, begun: int, number: int) -> None:
        for offset, (deadline, *position) in enumerate(call["rows"]):
            fact = self.positions[Position(*position)]
            if offset in answer["due"]:
                fact.finish(End.DUE, number, self.generation)
                continue
            if offset not in answer["duplicate"]:
                if call["known_before"][offset] and not fact.perhaps_ended and not self._handed_off_perhaps(fact):
                    self.wrong.append(f"{Position(*position)} was tracked, and is new to the service")
                fact.move(deadline, begun)
            fact.answered = True
            if fact.perhaps_ended < begun:
                fact.perhaps_ended = 0

    def _handed_off_perhaps(self, fact: Fact) -> bool:
        """Return True if an unanswered hand-off may have taken a position, and count it among what that one took."""
        for call in self._unanswered_hand_offs():
            is_full = self._taken[call["call"]] >= call["maximum"]
            if not is_full and self._may_take(call["at"], fact):
                self._taken[call["call"]] += 1
                return True
        return False

    def _unanswered_hand_offs(self) -> list[Event]:
        return [call for _, call in self._calls.values() if call["kind"] == "hand_off"]

    def _may_take(self, at: float, fact: Fact) -> bool:
        """Return True if a hand-off that was sent then may take a position."""
        return min(fact.deadlines) - self.tick_ms <= at * _MS + _UNDER_WAY_MS

    def _polled(self, call: Event, answer: Event, begun: int, number: int) -> None:
        for deadline, *position in answer["rows"]:
            self.delivered_count += 1
            fact = self.positions.get(Position(*position))
            if fact is None:
                self.wrong.append(f"{Position(*position)} came, and was never added")
                continue
            if deadline not in fact.deadlines:
                self.wrong.append(f"{Position(*position)} came under {deadline}, and not one of {[*fact.deadlines]}")
            if answer["server_ms"] < deadline - self.tick_ms:
                self.wrong.append(f"{Position(*position)} came {deadline - answer['server_ms']} ms early")
            if fact.end is not None and begun > fact.end_event:
                self._again(Position(*position), fact)
            fact.end, fact.perhaps_ended, fact.answered = None, 0, True
            if call["kind"] == "hand_off":
                fact.finish(End.CONSUMED, number, self.generation)

    def _again(self, position: Position, fact: Fact) -> None:
        if fact.end is not End.CONSUMED:
            self.wrong.append(f"{position} came after it was {fact.end}")
        elif fact.end_generation == self.generation:
            self.wrong.append(f"{position} came again without a kill")
        else:
            self.twice[fact.end_generation] += 1

    def _moved(self, fact: Fact, deadline: int, begun: int, answer: Event, offset: int) -> None:
        unchanged = (offset in answer.get(why, ()) for why in ("leased", "stale", "unknown"))
        if not any(unchanged):
            fact.move(deadline, begun)
        elif fact.deadlines.get(deadline) == begun:
            del fact.deadlines[deadline]

    def _ended(self, call: Event, answer: Event, number: int) -> None:
        end = End.CONSUMED if call["kind"] == "ack" else End.CANCELLED
        for offset, (fact, before) in enumerate(zip(self._of(call["positions"]), call["perhaps_before"], strict=True)):
            if offset in answer["unknown"]:
                # Either an unanswered call has ended it, or it is lost, which the end shows.
                fact.perhaps_ended = before
            elif offset in answer.get("stale", ()) or offset in answer.get("leased", ()):
                fact.perhaps_ended = 0
            else:
                fact.finish(end, number, self.generation)

    def _of(self, positions: Iterable[list[int]]) -> Iterator[Fact]:
        return (self.positions[Position(*position)] for position in positions)

    def owed(self) -> dict[Position, Fact]:
        """Return the positions that the service has to have."""
        return {
            position: fact
            for position, fact in self.positions.items()
            if fact.answered and fact.end is None and not fact.perhaps_ended
        }

    def lost(self, missing: Iterable[Position]) -> list[Position]:
        """Return the missing positions that no unanswered hand-off can have taken."""
        left = sorted(missing, key=lambda position: min(self.positions[position].deadlines))
        for at, maximum in self.open_hand_offs:
            due = [each for each in left if self._may_take(at, self.positions[each])]
            left = [each for each in left if each not in set(due[:maximum])]
        return left
