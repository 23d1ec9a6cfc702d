"""Ranges that a dispatcher has read and offered, in its reading order, and the claim that follows from the answers.

The claim ends at the last position of the ranges from the beginning on that are answered without a gap. A range whose
offer failed, or is in flight, holds it back until the same offer was answered. Used by both clients.
"""

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Final

from delayed_tracker.client.model.answers import Position
from delayed_tracker.core.values.errors import InvalidInput

RANGES_MAX: Final = 10_000
"""Ranges from the first unanswered one on, at most; about 200 bytes each."""


@dataclass(slots=True, eq=False)
class OfferedRange:
    """Entries from the end of the range before up to a position."""

    read_through: Position
    digest: int
    """Hash of the packed rows: a repetition must offer the same."""
    is_answered: bool = False
    is_in_flight: bool = True


class OfferedPrefix:
    """Ranges of one session in one epoch. Threads may share it."""

    def __init__(self, *, ranges_max: int = RANGES_MAX) -> None:
        self._ranges_max = ranges_max
        self._offered_through: Position | None = None
        self._read_through: Position | None = None
        # The first is unanswered. An answered one behind it takes up the answered ones that follow it.
        self._ranges: deque[OfferedRange] = deque()
        self._lock = Lock()

    @property
    def offered_through(self) -> Position | None:
        """Last position of the answered prefix; None if the first range is unanswered, or nothing was read."""
        return self._offered_through

    def __len__(self) -> int:
        """Return the number of ranges from the first unanswered one on."""
        return len(self._ranges)

    def begin(self, read_through: Position, rows: tuple[bytes, ...]) -> OfferedRange:
        """Begin the next range, or a failed one again; it is in flight until :meth:`end`.

        Args:
            read_through: last position that was read, higher than those before; that of a failed range repeats it.
            rows: the packed rows of the offer.
        Raises:
            InvalidInput: the position is not the next in reading order, a failed range is repeated with other rows, or
                too many ranges wait for an answer; nothing was changed.
        """
        digest = hash(rows)
        with self._lock:
            if self._read_through is not None and read_through <= self._read_through:
                return self._begin_again(read_through, digest)
            if len(self._ranges) >= self._ranges_max:
                remedy = (
                    f"{len(self._ranges)} ranges wait for an answer: repeat the failed ones, or wait for the others"
                )
                raise InvalidInput("read_through", str(read_through), remedy)
            self._read_through = read_through
            self._ranges.append(begun := OfferedRange(read_through, digest))
            return begun

    def _begin_again(self, read_through: Position, digest: int) -> OfferedRange:
        known = next((one for one in self._ranges if one.read_through == read_through and not one.is_answered), None)
        if known is None:
            remedy = f"read on in order: {self._read_through} was read, and no failed offer ended here"
            raise InvalidInput("read_through", str(read_through), remedy)
        if known.is_in_flight:
            raise InvalidInput("read_through", str(read_through), "wait for the answer to this offer")
        if known.digest != digest:
            raise InvalidInput("read_through", str(read_through), "repeat the failed offer with the same rows")
        known.is_in_flight = True
        return known

    def end(self, ended: OfferedRange, *, is_answered: bool) -> None:
        """End the flight of a range: it was answered, or its offer failed and is to be repeated."""
        with self._lock:
            ended.is_in_flight = False
            ended.is_answered = is_answered
            while self._ranges and self._ranges[0].is_answered:
                self._offered_through = self._ranges.popleft().read_through

    def passed(self, read_through: Position) -> None:
        """Note that there is nothing to offer between the range before and a position.

        Raises:
            InvalidInput: the position is lower than those before; nothing was changed.
        """
        with self._lock:
            if self._read_through is not None and read_through < self._read_through:
                remedy = f"read on in order: {self._read_through} was read"
                raise InvalidInput("read_through", str(read_through), remedy)
            self._read_through = read_through
            if not self._ranges:
                self._offered_through = read_through
            elif self._ranges[-1].is_answered:
                self._ranges[-1].read_through = read_through
            else:
                self._ranges.append(OfferedRange(read_through, 0, is_answered=True, is_in_flight=False))

    def claim_with(self, sent: OfferedRange) -> Position | None:
        """Return the claim that holds once the offer of a range is applied; it may travel in the same call."""
        with self._lock:
            claim = self._offered_through
            for one in self._ranges:
                if not one.is_answered and one is not sent:
                    break
                claim = one.read_through
            return claim
