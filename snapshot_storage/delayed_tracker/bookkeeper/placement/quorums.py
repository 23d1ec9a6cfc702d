"""Sets of bookies: which of an ensemble have an entry, and how many must answer (BookKeeper's round-robin distribution).

A bookie is named by its index in the ensemble, from 0. Sets of bookies are bit masks: bit ``i`` is the bookie at index ``i``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from delayed_tracker.core.values.errors import InvalidInput

ENSEMBLE_MAX = 1_000
"""More bookies than any ledger has; it bounds what is read from metadata."""


@dataclass(frozen=True, slots=True)
class Quorums:
    """Sizes of a ledger's ensemble, write quorum and ack quorum.

    Raises:
        InvalidInput: not ``1 <= ack <= write <= ensemble <= ENSEMBLE_MAX``.
    """

    ensemble: int
    """Bookies among which the entries are spread."""
    write: int
    """Bookies that an entry is sent to."""
    ack: int
    """Bookies that must have stored an entry before its add is answered."""

    def __post_init__(self) -> None:
        if not 1 <= self.ack <= self.write <= self.ensemble <= ENSEMBLE_MAX:
            raise InvalidInput(
                "quorums",
                f"ensemble {self.ensemble}, write {self.write}, ack {self.ack}",
                f"give 1 <= ack <= write <= ensemble <= {ENSEMBLE_MAX}",
            )

    def write_set(self, entry_id: int) -> tuple[int, ...]:
        """Return the bookies of an entry, the first one first."""
        return tuple((entry_id + number) % self.ensemble for number in range(self.write))

    def in_order(self, entry_id: int, avoided: int) -> tuple[int, ...]:
        """Return the bookies of an entry, the first one first and those to be avoided last."""
        bookies = self.write_set(entry_id)
        return tuple(sorted(bookies, key=lambda index: avoided >> index & 1)) if avoided else bookies

    def shares(self, first: int, count: int) -> Sequence[tuple[int, Sequence[int]]]:
        """Return pairs of a bookie and its entries among ``count`` ones from ``first`` on, which are at least one."""
        entries = range(first, first + count)
        if count == 1 or self.write == self.ensemble:
            return [(index, entries) for index in self.write_set(first)]
        shares = (
            (index, [entry_id for entry_id in entries if (index - entry_id) % self.ensemble < self.write])
            for index in range(self.ensemble)
        )
        return [(index, share) for index, share in shares if share]

    def write_mask(self, entry_id: int) -> int:
        """Return the bookies of an entry as a set."""
        return _mask(self.write_set(entry_id))

    def is_stored(self, acked: int) -> bool:
        """Return True if an entry that these bookies have stored is safe."""
        return acked.bit_count() >= self.ack

    def is_lost_to(self, failed: int) -> bool:
        """Return True if an entry cannot be stored safely while these bookies of its write set fail."""
        return failed.bit_count() > self.write - self.ack

    def is_missing(self, missing_count: int) -> bool:
        """Return True if an entry was never acknowledged, since so many bookies of its write set do not have it."""
        return missing_count > self.write - self.ack

    def covers(self, answered: int) -> bool:
        """Return True if no entry can have been acknowledged by bookies of which none has answered.

        That is so if of every write set fewer than ``ack`` have not answered.
        """
        return all((mask & ~answered).bit_count() < self.ack for mask in self._write_masks())

    def _write_masks(self) -> Iterator[int]:
        for first in range(1 if self.write == self.ensemble else self.ensemble):
            yield self.write_mask(first)


def _mask(indexes: tuple[int, ...]) -> int:
    return sum(1 << index for index in indexes)
