"""Decides which bookie is asked for an entry next, and what the answers say. No input and output.

A bookie that says that it does not have an entry answers; one that fails, or has a damaged entry, says nothing about whether
there is one. Rules as in BookKeeper's ``ReadOpBase``:

- A reader finds an entry missing when none of its bookies has it. A reader asks for confirmed entries only, and so the
  error is the same as for entries that no bookie can give: there may be a copy elsewhere.
- A reader finds an entry damaged when all of its bookies answer, some have a damaged copy, and none has a right one.
- A recovery finds an entry missing as soon as so many bookies do not have it that it was never acknowledged, whatever the
  others say. It must not find it missing because the others fail, and it finds none damaged: a right copy may come back.
"""

from collections import deque

from delayed_tracker.bookkeeper.placement.quorums import Quorums


class ReplicaSearch:
    """The search for one entry among its bookies, which are named by their indexes in the ensemble.

    Args:
        quorums: of the ledger.
        entry_id: from 0.
        avoided: bookies to ask last, as a bit mask.
        is_recovery: True if it is enough that the entry was never acknowledged.
    """

    def __init__(self, quorums: Quorums, entry_id: int, *, avoided: int = 0, is_recovery: bool = False) -> None:
        self._quorums = quorums
        self._is_recovery = is_recovery
        self._unasked = deque(quorums.in_order(entry_id, avoided))
        self._missing = 0
        self._failed = 0
        self._damaged = 0

    @property
    def has_next(self) -> bool:
        """True while there is a bookie that was not asked."""
        return bool(self._unasked)

    def next(self) -> int:
        """Return the bookie to ask next; there must be one."""
        return self._unasked.popleft()

    def missing(self, index: int) -> None:
        """Note that a bookie does not have the entry."""
        self._missing |= 1 << index

    def failed(self, index: int) -> None:
        """Note that a bookie does not answer as it should."""
        self._failed |= 1 << index

    def damaged(self, index: int) -> None:
        """Note that a bookie has a damaged copy of the entry, or another one in its place."""
        self._damaged |= 1 << index

    @property
    def is_missing(self) -> bool:
        """True if the entry is known to be missing."""
        count = self._missing.bit_count()
        return self._quorums.is_missing(count) if self._is_recovery else count == self._quorums.write

    @property
    def is_damaged(self) -> bool:
        """True if the entry is known to have no right copy, and has damaged ones."""
        answered = self._missing | self._damaged
        return not self._is_recovery and self._damaged != 0 and answered.bit_count() == self._quorums.write

    @property
    def is_over(self) -> bool:
        """True if the entry is missing, or no bookie is left that could have it."""
        return self.is_missing or (self._missing | self._failed | self._damaged).bit_count() == self._quorums.write
