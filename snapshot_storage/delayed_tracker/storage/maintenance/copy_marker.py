"""The mark of an unfinished copy in its target: one entry in the catalogue of a name that no tracker has.

It says where the copy comes from, and its epoch belongs to the process that copies now. So a copy goes on from the same
source only, of two processes that copy at the same time the later one fences the other, and a service does not start on
half a storage. When the copy is complete, the name is forgotten.
"""

import json
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import SnapshotConflict, SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.maintenance.claiming import Attempt, claim_tracker
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, SnapshotCatalogue, SnapshotStore

MARKER: Final = ("delayed-tracker", "unfinished copy")
"""Topic and cursor of the mark. Topics of brokers have a scheme, and so do those of the service's clients."""

_PLACE: Final = Position(0, 0)


@dataclass(frozen=True, slots=True)
class UnfinishedCopy:
    """A copy that this process has begun or goes on with."""

    source: str
    """URL of the source."""
    writer: str
    """Writer of the target's trackers, the same in all runs of the copy."""
    run: str
    """Writer of the mark: this run."""
    epoch: int
    """Epoch of the mark, which this process has claimed."""
    is_resumed: bool

    async def require_own(self, storage: SnapshotCatalogue, attempt: Attempt) -> None:
        """Raise SnapshotConflict if another process goes on with the copy."""
        state = await attempt(partial(storage.list, *MARKER))
        if state.epoch != self.epoch:
            raise SnapshotConflict("another process goes on with this copy; let it, or stop it and run this again")

    async def end(self, storage: SnapshotCatalogue, attempt: Attempt) -> None:
        """Take the mark away: the copy is complete."""
        await attempt(partial(storage.forget, *MARKER, epoch=self.epoch, writer=self.run))


async def require_no_unfinished_copy(storage: SnapshotCatalogue) -> None:
    """Refuse to work with half a storage.

    Raises:
        StorageFormatUnsupported: a copy into this storage is not complete; the message says how to complete it.
        StorageUnavailable: try again.
    """
    found = _source_of(await storage.list(*MARKER))
    if found is not None:
        raise StorageFormatUnsupported(
            f"the storage is an unfinished copy of {found[0]}: run `delayed-tracker storage copy --from {found[0]}` again, or "
            "use the source"
        )


async def begin_copy(storage: SnapshotStore, url: str, source: str, attempt: Attempt) -> UnfinishedCopy:
    """Mark an empty target, or go on with a copy that was interrupted.

    Args:
        storage: the target.
        url: of the target, for messages.
        source: URL of the source.
        attempt: performs each operation.
    Raises:
        InvalidInput: the target is neither empty nor a copy of this source that was begun; nothing was changed.
        SnapshotConflict: other processes keep claiming the mark.
    """
    found = _source_of(await attempt(partial(storage.list, *MARKER)))
    if found is not None and found[0] != source:
        raise InvalidInput(
            "--to", url, f"it is an unfinished copy of {found[0]}; go on with that one, or give an empty storage"
        )
    # A run that ended before it had marked the target has left its claim of the mark.
    trackers = set(await attempt(storage.trackers)) - {MARKER}
    if found is None and trackers:
        raise InvalidInput("--to", url, "it has trackers; give an empty storage, or one whose copy was interrupted")
    run = f"copy-run-{uuid4().hex}"
    claimed = await claim_tracker(storage, None, MARKER, writer=run, attempt=attempt)
    if claimed.state.epoch != claimed.epoch or _source_of(claimed.state) != found:
        raise SnapshotConflict(
            "another process has begun a copy into the same storage; let it, or stop it and run again"
        )
    writer = f"copy-{uuid4().hex}" if found is None else found[1]
    if found is None:
        begin = partial(
            storage.replace, *MARKER, remove=(), add=[_entry(source, writer)], epoch=claimed.epoch, writer=run
        )
        await attempt(begin)
    return UnfinishedCopy(source, writer, run, claimed.epoch, is_resumed=found is not None)


def _source_of(state: CatalogueState) -> tuple[str, str] | None:
    """Return source and writer of an unfinished copy; None if there is none. Raises SnapshotCorrupt."""
    if not state.entries:
        return None
    written = state.entries[0].summary
    try:
        content = json.loads(written)
        return str(content["from"]), str(content["writer"])
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotCorrupt(f"the mark of an unfinished copy is damaged ({written[:80]!r}); copy anew") from error


def _entry(source: str, writer: str) -> CatalogueEntry:
    content = json.dumps({"from": source, "writer": writer}).encode()
    return CatalogueEntry(1, _PLACE, _PLACE, summary=content)
