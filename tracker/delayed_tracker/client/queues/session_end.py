"""End of a session: refuses its further calls, and allows a failed end to be repeated. Used by both clients."""

from collections.abc import Iterator
from contextlib import contextmanager

from delayed_tracker.client.queues.add_queue import refused


class SessionEnd:
    """State of the end of a session: the program left its block, or closed or deleted the tracker."""

    def __init__(self) -> None:
        self.has_begun = False
        self._has_failed = False

    @property
    def is_complete(self) -> bool:
        """True if the session has ended and nothing failed."""
        return self.has_begun and not self._has_failed

    def require_active(self) -> None:
        """Refuse a call of a session that has ended; raises SessionClosed."""
        if self.has_begun:
            raise refused()

    def require_incomplete(self) -> None:
        """Refuse to end a session twice, unless the first attempt failed; raises SessionClosed."""
        if self.is_complete:
            raise refused()

    @contextmanager
    def unloading(self) -> Iterator[None]:
        """Send what is buffered and unload the tracker in the block; if that fails, it may be repeated."""
        try:
            yield
        except BaseException:
            self._has_failed = True
            raise
        self._has_failed = False
