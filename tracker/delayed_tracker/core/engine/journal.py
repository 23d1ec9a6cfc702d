"""Changes of one tracker since its owner last took them, numbered without gaps."""

from delayed_tracker.core.values.changes import Change


class Journal:
    """Numbers the changes that an add log keeps, and holds them until the owner takes them."""

    __slots__ = ("_changes", "last_number")

    def __init__(self, last_number: int) -> None:
        self.last_number = last_number
        """Number of the last change; the next one has the number after it."""
        self._changes: list[Change] = []

    @property
    def taken_number(self) -> int:
        """Number of the last change that is not held any more."""
        return self.last_number - len(self._changes)

    def note(self, change: Change) -> None:
        """Number a change, and hold it."""
        self.last_number += 1
        self._changes.append(change)

    def take(self) -> list[Change]:
        """Return the changes noted since the last call; the last of them has the number ``last_number``."""
        if not self._changes:
            return []
        changes, self._changes = self._changes, []
        return changes
