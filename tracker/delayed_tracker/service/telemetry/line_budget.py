"""How many log lines of one event may be written: so many a minute, and the next line counts those left out."""

from typing import Final

from delayed_tracker.service.clock import Clock

MINUTE_MS: Final = 60_000


class LineBudget:
    """Counted by event; from one event loop.

    Args:
        clock: measures.
        lines_max: of one event within a minute, 1 or more.
    """

    def __init__(self, clock: Clock, *, lines_max: int) -> None:
        self._clock = clock
        self._lines_max = lines_max
        self._spent: dict[str, tuple[float, int, int]] = {}
        """Of each event: when its minute began, lines written in it, and lines left out since the last one."""

    def fields(self, event: str) -> dict[str, int] | None:
        """What a line has to say about those left out before it, which is mostly nothing; None if it is left out, too."""
        now_ms = self._clock.elapsed_ms()
        begun_ms, written, left_out = self._spent.get(event, (now_ms, 0, 0))
        if now_ms - begun_ms >= MINUTE_MS:
            begun_ms, written = now_ms, 0
        if written >= self._lines_max:
            self._spent[event] = (begun_ms, written, left_out + 1)
            return None
        self._spent[event] = (begun_ms, written + 1, 0)
        return {"suppressed": left_out} if left_out else {}
