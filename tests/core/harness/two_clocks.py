"""Two clocks that a test moves by hand: they advance together, except when the wall clock is stepped."""

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.instant import Instant, Wakeup


class TwoClocks:
    """For harnesses around a core; ``now_ms`` is the wall clock."""

    core: TrackerCore
    now_ms: int
    ahead_ms: int = 400
    """Milliseconds that the wall clock is ahead of elapsed time: never equal, so that a test detects a mix-up."""

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, self.now_ms - self.ahead_ms)

    def step_wall(self, by_ms: int) -> None:
        """Set the wall clock forward or back without time passing."""
        self.now_ms += by_ms
        self.ahead_ms += by_ms

    def next_wakeup_ms(self) -> int | None:
        """Next wake-up of the tracker, on the wall clock if it is not stepped until then."""
        return self._on_the_wall(self.core.next_wakeup())

    def next_timer_ms(self) -> int | None:
        """Next wake-up of the tracker while it is not polled."""
        return self._on_the_wall(self.core.next_timer())

    def _on_the_wall(self, wakeup: Wakeup) -> int | None:
        elapsed_ms = None if wakeup.elapsed_ms is None else wakeup.elapsed_ms + self.ahead_ms
        return min((moment for moment in (wakeup.wall_ms, elapsed_ms) if moment is not None), default=None)
