"""The end of a session: when its calls are refused, and which of them may be repeated. The same for both shells."""

from collections.abc import Iterator
from contextlib import contextmanager

from delayed_tracker.client.queues.add_queue import refused


class SessionEnd:
    """Whether the program has ended a session: by leaving its block, or by closing or deleting the tracker."""

    def __init__(self) -> None:
        self.has_come = False
        self._has_failed = False

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do for it."""
        return self.has_come and not self._has_failed

    def require_ahead(self) -> None:
        """Refuse a call of a session that has ended; raises SessionClosed."""
        if self.has_come:
            raise refused()

    def require_incomplete(self) -> None:
        """Refuse to end a session twice, unless it failed the first time; raises SessionClosed."""
        if self.is_complete:
            raise refused()

    @contextmanager
    def unloading(self) -> Iterator[None]:
        """The call that takes the tracker out of the service; if it fails, it may be made again."""
        try:
            yield
        except BaseException:
            self._has_failed = True
            raise
        self._has_failed = False
