"""How many rows of snapshots the trackers of one process may hold in memory together, and who waits for room.

A row counts from the moment it is asked for until it is handed out, dropped or leased. While there is room, any tracker
reads ahead. When there is none, those that want to read wait in the order of their first deadlines, and the first of
them is the first to find room again. A tracker whose next row is due does not wait: it reads one segment, so that what
one tracker holds keeps no other from handing out. Rows are therefore bounded by the maximum, one segment for each tracker
that has something due in a snapshot, and what leases gave back when others had taken the room.

Room comes and goes with the steps of all trackers; whoever owns them wakes :meth:`LoadBudget.pop_waiting` then.
"""

from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.ordered_map import OrderedMap

Place = tuple[int, int]
"""In line: the first deadline that a tracker wants, and who came earlier."""


class LoadBudget:
    """The rows of all trackers that share it."""

    __slots__ = ("_next_number", "held_count", "line", "rows_max")

    def __init__(self, rows_max: int) -> None:
        self.rows_max = rows_max
        self.held_count = 0
        """Rows in memory or asked for."""
        self.line: OrderedMap[Place, LoadShare] = OrderedMap()
        """Who waits."""
        self._next_number = 0

    def share(self) -> "LoadShare":
        """The part of one more tracker, which holds nothing."""
        return LoadShare(self)

    @property
    def has_room_for_waiting(self) -> bool:
        """Whether somebody waits who need not."""
        return bool(self.line) and self.held_count < self.rows_max

    @property
    def waiting_count(self) -> int:
        """Trackers that would read ahead if there were room."""
        return len(self.line)

    def new_place(self, first_ms: int) -> Place:
        """Behind all who wait for this deadline or an earlier one."""
        self._next_number += 1
        return first_ms, self._next_number

    def pop_waiting(self) -> "LoadShare":
        """The share of the tracker that wants the earliest rows, which waits no more; somebody must wait."""
        share = self.line.first()[1]
        share.stop_waiting()
        return share


class LoadShare:
    """The part of one tracker."""

    __slots__ = ("_budget", "held_count", "place")

    def __init__(self, budget: LoadBudget) -> None:
        self._budget = budget
        self.place: Place | None = None
        """In line; None: it does not wait."""
        self.held_count = 0
        """Rows that the tracker holds in memory or has asked for."""

    @property
    def is_room_missing(self) -> bool:
        """Whether any tracker waits for room. O(1)."""
        return bool(self._budget.line)

    def room(self, first_ms: int) -> int:
        """How many rows may be read ahead, the first of them with this deadline; 0 if others want an earlier one.

        Who was just called must not give way to others that want the same: they would call each other for ever.
        """
        budget = self._budget
        if budget.line and budget.line.first()[0][0] < first_ms:
            return 0
        return max(0, budget.rows_max - budget.held_count)

    def hold(self, count: int) -> None:
        """Say how many rows the tracker holds now. O(1)."""
        self._budget.held_count += count - self.held_count
        self.held_count = count

    def wait(self, first_ms: int) -> None:
        """Get in line for rows that begin with this deadline; not to be in line already. O(log trackers that wait)."""
        assert self.place is None
        self.place = self._budget.new_place(first_ms)
        self._budget.line[self.place] = self

    def stop_waiting(self) -> None:
        """Leave the line. O(log trackers that wait), O(1) for who is not in it."""
        if self.place is not None:
            del self._budget.line[self.place]
            self.place = None

    def close(self) -> None:
        """Hold nothing, and wait for nothing: the tracker is gone."""
        self.stop_waiting()
        self.hold(0)

    def check(self, held_count: int) -> None:
        """Raise InvariantViolation unless the tracker holds so many rows and stands where it says."""
        if held_count != self.held_count:
            raise InvariantViolation(
                f"{self.held_count} rows of snapshots are counted in the budget, {held_count} are held"
            )
        if self.place is not None and self.place not in self._budget.line:
            raise InvariantViolation("a tracker waits for room and stands in no line")
