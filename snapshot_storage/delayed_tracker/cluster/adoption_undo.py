"""Takes an adoption back: removes adopted trackers from their storage, unless a service has opened them since."""

from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

from delayed_tracker.storage.errors import SnapshotConflict
from delayed_tracker.storage.maintenance.claiming import Attempt
from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.maintenance.working import Retries
from delayed_tracker.storage.protocol import SnapshotStore

_WRITER: Final = "restore-"
"""Beginning of the names under which this writes."""


@dataclass(frozen=True, slots=True)
class AdoptedTracker:
    """A tracker whose buckets a command has adopted."""

    storage: str
    """URL of the storage."""
    topic: str
    subscription: str
    epoch: int
    """Epoch under which the buckets were published, or would have been."""


async def take_adoption_back(adopted: AdoptedTracker, *, attempt: Attempt | None = None) -> bool:
    """Remove an adopted tracker from its storage; False if it has no buckets there, nor snapshots that a run has left.

    Its epoch stays on record, so that a late writer is fenced.

    Args:
        adopted: of the file of ``--backup``.
        attempt: performs each operation; repeats it by default.
    Raises:
        SnapshotConflict: another owner has opened the tracker since; nothing was changed.
        InvalidInput: there is no such storage any more.
        StorageInUse: a process has it open, and this storage takes one alone.
        StorageUnavailable: run the same command again.
    """
    async with opened_storage("FILE", adopted.storage) as storage:
        return await _remove(storage.snapshots, adopted, attempt or Retries())


async def _remove(storage: SnapshotStore, adopted: AdoptedTracker, attempt: Attempt) -> bool:
    key = (adopted.topic, adopted.subscription)
    epoch = adopted.epoch + 1
    state = await attempt(partial(storage.list, *key))
    is_there = bool(state.entries or state.corrupt)
    if is_there:
        if state.epoch != adopted.epoch:
            raise SnapshotConflict(
                f"the tracker {key[1]!r} of {key[0]!r} was opened in {adopted.storage} since its buckets were adopted; delete it "
                "with `delayed-tracker delete` if it should go"
            )
        # Under a new epoch: an owner that opens it meanwhile has this one or a higher one, and one of the two is refused. In
        # one step: a run that is killed before it has changed nothing, and one that is killed after it is completed below.
        await attempt(partial(storage.forget, *key, epoch=epoch, writer=f"{_WRITER}{uuid4().hex}"))
    elif state.epoch != epoch or not state.writer.startswith(_WRITER):
        return False
    left = [stored for stored in await attempt(partial(storage.list_bucket_snapshots, *key)) if stored.epoch < epoch]
    for stored in left:
        await attempt(partial(storage.delete_bucket_snapshot, stored.bucket_id))
    return is_there or bool(left)
