"""Slows down a ledger whose failed bookies can only be replaced by others that have failed as well, and ends it at last."""

import asyncio
from collections.abc import Collection

from delayed_tracker.bookkeeper.errors import NotEnoughBookies
from delayed_tracker.bookkeeper.settings import ClientSettings


class Relapses:
    """Failures of the bookies of one ledger, as far as they are recent.

    Without it two bookies that fail would take each other's place as fast as ZooKeeper writes, each time with all pending
    adds, and these would neither succeed nor fail.

    Args:
        settings: times. The pause before a bookie is replaced that has failed before is ``backoff_min_ms``, and doubles;
            after ``add_timeout_ms`` without an answered add the ledger ends.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._recent_s = max(settings.quarantine_ms, settings.backoff_max_ms) / 1_000
        self._pause_min_s = settings.backoff_min_ms / 1_000
        self._pause_max_s = settings.backoff_max_ms / 1_000
        self._limit_s = settings.add_timeout_ms / 1_000
        self._failed: dict[str, float] = {}
        self._pause_s = self._pause_min_s
        self._first_entry_id = -1
        self._since = 0.0

    @property
    def recent(self) -> frozenset[str]:
        """Ids of the bookies that have failed this ledger within ``quarantine_ms``."""
        now = asyncio.get_running_loop().time()
        self._failed = {bookie: at for bookie, at in self._failed.items() if now - at < self._recent_s}
        return frozenset(self._failed)

    def note(self, failed: Collection[str]) -> None:
        """Note that bookies have failed."""
        self._failed.update(dict.fromkeys(failed, asyncio.get_running_loop().time()))

    async def pause(self, ledger_id: int, first_entry_id: int, failed: Collection[str]) -> None:
        """Wait if one of the bookies has failed before, before it is replaced; return at once if it is new.

        Args:
            ledger_id: for the error.
            first_entry_id: the oldest add that is not answered.
            failed: ids of the bookies that are to be replaced.
        Raises:
            NotEnoughBookies: they keep failing, and no add was answered for the time of an add.
        """
        now = asyncio.get_running_loop().time()
        again = sorted(self.recent.intersection(failed))
        self.note(failed)
        if self._first_entry_id != first_entry_id:
            self._first_entry_id, self._since = first_entry_id, now
        if not again:
            self._pause_s = self._pause_min_s
            return
        if now - self._since >= self._limit_s:
            raise NotEnoughBookies(
                f"bookies: {', '.join(again)} keep failing, and entry {first_entry_id} of ledger {ledger_id} was not stored"
                f" within {self._limit_s:g} s; see their logs, or start other bookies"
            )
        await asyncio.sleep(min(self._pause_s, max(self._limit_s - (now - self._since), 0)))
        self._pause_s = min(self._pause_s * 2, self._pause_max_s)
