"""Limit of the snapshot rows in memory of all trackers of one process, and the line of trackers that wait for room.

A row counts from the request to load it until it is handed out, dropped or leased. While there is room, any tracker
reads what is nearly due, and with it more in one load while less than half of the maximum is held. When there is none,
the trackers that want to read wait in the order of their first deadlines; the first of them gets room first. A tracker
whose next row will be due before a load could end does not wait: it reads one segment, or as many as fit into a hundredth
of the maximum, so that the rows of one tracker never stop another from handing out. Rows are therefore bounded by the
maximum, plus that for each tracker with something due so soon in a snapshot, plus the rows that leases gave back after
other trackers had taken the room.

Room changes with the steps of all trackers. The owner of the trackers then wakes those of
:meth:`LoadBudget.pop_waiting`.
"""

from typing import Final

from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.ordered_map import OrderedMap

_URGENT_SHARE: Final = 100
"""A tracker without room has this part of the maximum for what is due before a load could end."""
_SPARE_SHARE: Final = 16
"""One load takes this part of what is spare, so that many trackers find some."""

Place = tuple[int, int]
"""Key in the line: the first deadline that a tracker wants, then the order of arrival."""


class LoadBudget:
    """Rows of all trackers that share this budget."""

    __slots__ = ("_next_number", "held_count", "lead_ms", "line", "rows_max")

    def __init__(self, rows_max: int) -> None:
        self.rows_max = rows_max
        self.lead_ms = 0
        """Time that a load takes, as the owner of the trackers has measured it: loads begin this long before rows are due."""
        self.held_count = 0
        """Rows in memory or requested."""
        self.line: OrderedMap[Place, LoadShare] = OrderedMap()
        """Waiting trackers, by key."""
        self._next_number = 0

    def share(self) -> "LoadShare":
        """Return a share for one more tracker, which holds nothing."""
        return LoadShare(self)

    @property
    def has_room_for_waiting(self) -> bool:
        """True if a tracker waits although there is room."""
        return bool(self.line) and self.held_count < self.rows_max

    @property
    def waiting_count(self) -> int:
        """Trackers that would read ahead if there were room."""
        return len(self.line)

    def new_place(self, first_ms: int) -> Place:
        """Return a key behind all trackers that wait for this deadline or an earlier one."""
        self._next_number += 1
        return first_ms, self._next_number

    def pop_waiting(self) -> "LoadShare":
        """Take the tracker that wants the earliest rows out of the line and return its share.

        The line must not be empty.
        """
        share = self.line.first()[1]
        share.stop_waiting()
        return share


class LoadShare:
    """Share of one tracker in the budget."""

    __slots__ = ("_budget", "held_count", "place")

    def __init__(self, budget: LoadBudget) -> None:
        self._budget = budget
        self.place: Place | None = None
        """Key in the line; None if the tracker does not wait."""
        self.held_count = 0
        """Rows that the tracker holds in memory or has requested."""

    @property
    def has_waiting_trackers(self) -> bool:
        """True if any tracker waits for room. O(1)."""
        return bool(self._budget.line)

    @property
    def lead_ms(self) -> int:
        """Time by which a load has to begin before its first row is due."""
        return self._budget.lead_ms

    @property
    def urgent_room(self) -> int:
        """Rows that the tracker may still read without room, if they are due before a load could end; 0 or more."""
        return max(0, self._budget.rows_max // _URGENT_SHARE - self.held_count)

    @property
    def spare_room(self) -> int:
        """Rows that one load may read before they are near: half of the budget is for those that are."""
        return max(0, self._budget.rows_max // 2 - self._budget.held_count) // _SPARE_SHARE

    def room(self, first_ms: int) -> int:
        """Return the rows that may be read ahead if the first has this deadline.

        Returns: 0 if another tracker waits for rows with an earlier deadline. A tracker that was just woken does not
            give way to one with the same deadline: the two would wake each other for ever.
        """
        budget = self._budget
        if budget.line and budget.line.first()[0][0] < first_ms:
            return 0
        return max(0, budget.rows_max - budget.held_count)

    def hold(self, count: int) -> None:
        """Set the number of rows that the tracker holds now. O(1)."""
        self._budget.held_count += count - self.held_count
        self.held_count = count

    def wait(self, first_ms: int) -> None:
        """Join the line for rows that begin with this deadline.

        The tracker must not wait already. O(log waiting trackers).
        """
        assert self.place is None
        self.place = self._budget.new_place(first_ms)
        self._budget.line[self.place] = self

    def stop_waiting(self) -> None:
        """Leave the line. O(log waiting trackers); O(1) for a tracker that does not wait."""
        if self.place is not None:
            del self._budget.line[self.place]
            self.place = None

    def close(self) -> None:
        """Leave the line and hold nothing: the tracker is gone."""
        self.stop_waiting()
        self.hold(0)

    def check(self, held_count: int) -> None:
        """Raise InvariantViolation unless the tracker holds ``held_count`` rows and the line contains its key."""
        if held_count != self.held_count:
            raise InvariantViolation(
                f"{self.held_count} rows of snapshots are counted in the budget, {held_count} are held"
            )
        if self.place is not None and self.place not in self._budget.line:
            raise InvariantViolation("a tracker waits for room and stands in no line")
