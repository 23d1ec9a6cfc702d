"""Replaces bookies that fail while the entries of a ledger are added again, and keeps that to itself until the ledger is closed.

Readers of a ledger in recovery, and other recoveries, must go on with the segments of its writer: a segment of a recovery
that does not end has no acknowledged entry.
"""

from delayed_tracker.bookkeeper.placement.bookies import Bookies


class HeldSegments:
    """Segments that one recovery makes.

    Args:
        bookies: those that may take the place of bookies that fail.
    """

    def __init__(self, bookies: Bookies) -> None:
        self.segments: dict[int, tuple[str, ...]] = {}
        """Ensembles by their first entries, ascending."""
        self._bookies = bookies

    async def change(
        self, first_entry_id: int, ensemble: tuple[str, ...], failed: frozenset[int], *, avoid: frozenset[str]
    ) -> tuple[str, ...]:
        """Return an ensemble with other bookies in the place of those that failed, as ``PublishedSegments`` does.

        Raises:
            NotEnoughBookies: there are no others.
            ZooKeeperUnavailable: the bookies changed, and ZooKeeper does not answer.
        """
        for index in failed:
            self._bookies.quarantine(ensemble[index])
        others = await self._bookies.choose(len(failed), exclude={*ensemble, *avoid})
        chosen = dict(zip(sorted(failed), others, strict=True))
        made = tuple(chosen.get(index, bookie) for index, bookie in enumerate(ensemble))
        self.segments[first_entry_id] = made
        return made
