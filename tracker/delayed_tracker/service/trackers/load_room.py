"""Wakes trackers that wait for room in the load budget, after steps of other trackers have made room."""

import asyncio
from contextvars import Context

from delayed_tracker.core.engine.load_budget import LoadBudget, LoadShare
from delayed_tracker.service.trackers.timer_queue import WAKES_PER_TURN_MAX, Sleeper


class LoadRoom:
    """Load budget of one process, and the trackers that wait for it."""

    def __init__(self, budget: LoadBudget) -> None:
        self.budget = budget
        self._waiting: dict[LoadShare, Sleeper] = {}
        self._is_waking_soon = False

    def notice(self, share: LoadShare, sleeper: Sleeper) -> None:
        """Wake waiting trackers soon if there is room. Called after each step of any tracker, also its last. O(1)."""
        if share.place is not None:
            self._waiting[share] = sleeper
        elif self._waiting:
            self._waiting.pop(share, None)
        else:
            return
        self._wake_soon()

    def _wake_soon(self) -> None:
        if self.budget.has_room_for_waiting and not self._is_waking_soon:
            self._is_waking_soon = True
            # An empty context: the wake-ups do not belong to the call that made room.
            asyncio.get_running_loop().call_soon(self._wake, context=Context())

    def _wake(self) -> None:
        self._is_waking_soon = False
        for _ in range(WAKES_PER_TURN_MAX):
            if not self.budget.has_room_for_waiting:
                return
            self._waiting.pop(self.budget.pop_waiting()).wake()
        self._wake_soon()
