"""The adds of one ledger that are not answered yet: which bookies have stored them, and which are answered next.

A decision table without input and output: the ledger's writer sends what it is told to send, and reports what bookies answer.
Rules as in BookKeeper's ``PendingAddOp`` and ``LedgerHandle.handleBookieFailure``:

- An add is answered when enough bookies have stored it and every earlier add is answered.
- Every answer of a bookie counts until the add is answered, also beyond the quorum: a change of the ensemble takes answers
  back.
- While the ensemble changes nothing is answered, and new adds wait to be sent to the new one.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from delayed_tracker.bookkeeper.placement.quorums import Quorums


@dataclass(slots=True)
class _Pending:
    """Sets of bookies of one add, as bit masks of their indexes in the ensemble."""

    acked: int = 0
    failed: int = 0
    is_sent: bool = False


class PendingAdds:
    """Adds in the order of their entries.

    Args:
        quorums: of the ledger.
        ensemble: ids of the bookies in force.
        change_early: True to replace a bookie at its first failure, as BookKeeper's client does by default; False to wait
            until an add cannot be answered without it.
        first_entry_id: of the first add.
    """

    def __init__(
        self, quorums: Quorums, ensemble: Sequence[str], *, change_early: bool = True, first_entry_id: int = 0
    ) -> None:
        assert len(ensemble) == quorums.ensemble
        self._quorums = quorums
        self._change_early = change_early
        self._adds: deque[_Pending] = deque()
        self._read_only = 0
        """Bookies that have said so, as a bit mask."""
        self.ensemble = tuple(ensemble)
        self.first_entry_id = first_entry_id
        """The oldest add that is not answered; the last add that is answered has the entry before."""
        self.is_changing = False
        """True while the ensemble changes."""

    @property
    def next_entry_id(self) -> int:
        """The entry of the next add."""
        return self.first_entry_id + len(self._adds)

    def add(self, count: int = 1) -> Sequence[tuple[int, Sequence[int]]]:
        """Begin the next adds; return what to send: pairs of a bookie's index and its entries among them.

        Nothing is sent while the ensemble changes.
        """
        first, is_sent = self.next_entry_id, not self.is_changing
        self._adds.extend([_Pending(0, 0, is_sent) for _ in range(count)])
        return self._quorums.shares(first, count) if is_sent else ()

    def stored(self, entry_ids: Iterable[int], index: int, bookie: str) -> None:
        """Note that a bookie has stored entries. What a bookie says that is no longer at this index does not count."""
        if self.ensemble[index] != bookie:
            return
        first, adds, bit = self.first_entry_id, self._adds, 1 << index
        for entry_id in entry_ids:
            assert entry_id < first + len(adds)
            if entry_id >= first:
                add = adds[entry_id - first]
                add.acked |= bit
                add.failed &= ~bit

    def failed(self, entry_id: int, index: int, bookie: str, *, is_read_only: bool = False) -> None:
        """Note that a bookie has not stored an entry; ``is_read_only`` if it will store no later one either.

        A failure counts also after enough others have stored the entry: a change of the ensemble takes answers back.
        """
        add = self._find(entry_id)
        if add is not None and self.ensemble[index] == bookie:
            add.failed |= 1 << index
            if is_read_only and not self._quorums.is_stored(add.acked):
                self._read_only |= 1 << index

    def to_replace(self) -> frozenset[int]:
        """Return the bookies without which the ledger cannot go on, or goes on with too few copies; empty if none.

        Ask after each failure, and again after each change: another bookie may have failed meanwhile.
        """
        failed = self._read_only
        for add in self._adds:
            if not self._quorums.is_stored(add.acked) and (self._change_early or self._quorums.is_lost_to(add.failed)):
                failed |= add.failed
        return frozenset(index for index in range(self._quorums.ensemble) if failed >> index & 1)

    def is_lost(self) -> bool:
        """Return True if some add can never be answered by the bookies in force."""
        return any(
            not self._quorums.is_stored(add.acked) and self._quorums.is_lost_to(add.failed) for add in self._adds
        )

    def answered(self) -> int:
        """Return how many of the oldest adds are answered now, and forget them; 0 while the ensemble changes."""
        count = 0
        while not self.is_changing and self._adds and self._quorums.is_stored(self._adds[0].acked):
            self._adds.popleft()
            count += 1
        self.first_entry_id += count
        return count

    def begin_change(self) -> None:
        """Answer nothing and send nothing until :meth:`end_change`."""
        self.is_changing = True

    def end_change(self, ensemble: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Go on with a new ensemble; return what must be sent: pairs of an entry and the index of a bookie.

        What the replaced bookies have stored counts no more.
        """
        assert self.is_changing
        assert len(ensemble) == self._quorums.ensemble
        replaced = sum(1 << n for n, (old, new) in enumerate(zip(self.ensemble, ensemble, strict=True)) if old != new)
        self.ensemble = tuple(ensemble)
        self._read_only &= ~replaced
        self.is_changing = False
        sends: list[tuple[int, int]] = []
        for entry_id, add in enumerate(self._adds, self.first_entry_id):
            add.acked &= ~replaced
            add.failed &= ~replaced
            sends += (
                (entry_id, index)
                for index in self._quorums.write_set(entry_id)
                if not add.is_sent or replaced >> index & 1
            )
            add.is_sent = True
        return iter(sends)

    def _find(self, entry_id: int) -> _Pending | None:
        """Return an add, or None if it is answered already."""
        assert entry_id < self.next_entry_id
        return None if entry_id < self.first_entry_id else self._adds[entry_id - self.first_entry_id]
