"""Replaces the failed bookies of a live ledger, and publishes each new ensemble in ZooKeeper before it is used."""

import contextlib
from typing import Final

from delayed_tracker.bookkeeper.errors import LedgerFenced, NotEnoughBookies
from delayed_tracker.bookkeeper.metadata.errors import MetadataConflict
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from delayed_tracker.bookkeeper.placement.bookies import Bookies

ATTEMPTS: Final = 10
"""Swaps that other clients may win; each of them is rare."""


class PublishedSegments:
    """Segments of a ledger that this client writes.

    Args:
        store: the ledgers' metadata.
        bookies: those that may take the place of bookies that fail.
        current: metadata of the ledger.
    """

    def __init__(self, store: LedgerStore, bookies: Bookies, current: Versioned) -> None:
        self.current = current
        """Metadata of the ledger, as they were read or written last."""
        self._store = store
        self._bookies = bookies

    async def change(
        self, first_entry_id: int, ensemble: tuple[str, ...], failed: frozenset[int], *, avoid: frozenset[str]
    ) -> tuple[str, ...]:
        """Publish a segment with other bookies in the place of those that failed, and return its ensemble.

        If there are too few others, some of the failed ones stay in it.

        Raises:
            LedgerFenced: another client recovers or has closed the ledger.
            LedgerNotFound: it was deleted.
            NotEnoughBookies: there are no others; ``ensemble`` is still in force.
            MetadataConflict: other clients kept changing the metadata.
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        lost = {(index, ensemble[index]) for index in failed}
        for _, bookie in lost:
            self._bookies.quarantine(bookie)
        for attempt in range(1, ATTEMPTS + 1):
            metadata = self.current.metadata
            last_first, found = metadata.segments[-1]
            if last_first > first_entry_id:
                raise LedgerFenced(
                    f"ledger {metadata.ledger_id}: another client began a segment at entry {last_first}; open the ledger"
                    " with recovery to see its end, and create another one"
                )
            still = lost.intersection(enumerate(found))
            if not still:
                # Who re-replicates entries has replaced the bookies.
                return found
            try:
                replacements = await self._choose(len(still), exclude={*ensemble, *found, *avoid})
            except NotEnoughBookies:
                if found == ensemble:
                    raise
                # At least those that were replaced by another client.
                return found
            chosen = list(found)
            for (index, _), bookie in zip(sorted(still), replacements, strict=False):
                chosen[index] = bookie
            try:
                self.current = await self._store.replace(self.current, metadata.with_segment(first_entry_id, chosen))
            except MetadataConflict:
                if attempt == ATTEMPTS:
                    raise
                self.current = await self.reread()
            else:
                break
        return self.current.metadata.segments[-1][1]

    async def _choose(self, count: int, exclude: set[str]) -> list[str]:
        """Return as many bookies, or fewer, but one at least."""
        for fewer in range(count, 1, -1):
            with contextlib.suppress(NotEnoughBookies):
                return await self._bookies.choose(fewer, exclude)
        return await self._bookies.choose(1, exclude)

    async def reread(self) -> Versioned:
        """Return the metadata after another client changed them.

        Raises:
            LedgerFenced: another client recovers or has closed the ledger.
            LedgerNotFound: it was deleted.
        """
        found = await self._store.read(self.current.metadata.ledger_id, newest=True)
        if found.metadata.state is not LedgerState.OPEN:
            raise fenced(found.metadata)
        return found


def fenced(metadata: LedgerMetadata) -> LedgerFenced:
    """Return the error of a writer whose ledger another client has taken."""
    return LedgerFenced(
        f"ledger {metadata.ledger_id}: another client made it {metadata.state.name}; open it with recovery to see its end,"
        " and create another one"
    )
