"""Takes a tracker over: a new epoch in its catalogue and its add log, so that no earlier owner can write any more."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from delayed_tracker.storage.add_log import AddLog, LogExtent
from delayed_tracker.storage.errors import SnapshotConflict
from delayed_tracker.storage.protocol import CatalogueState, SnapshotCatalogue

Answer = TypeVar("Answer")

CLAIM_ATTEMPTS_MAX: Final = 3


class Attempt(Protocol):
    """Performs an idempotent operation, and may repeat it while the storage is unavailable."""

    def __call__(self, operation: Callable[[], Awaitable[Answer]], /) -> Awaitable[Answer]:
        """Return the answer of the operation, which is called once for each attempt."""
        ...


@dataclass(frozen=True, slots=True)
class Claimed:
    """Content of catalogue and add log of a tracker, read after every earlier owner was fenced."""

    epoch: int
    """Epoch that was recorded. That of the state is higher if another process has claimed the tracker since."""
    state: CatalogueState
    extent: LogExtent | None
    """None if there is no add log."""

    def require_own(self, tracker: tuple[str, str]) -> None:
        """Raise SnapshotConflict if another process has claimed the tracker since."""
        if self.state.epoch != self.epoch:
            raise SnapshotConflict(
                f"another process has opened {tracker[1]!r} of {tracker[0]!r} meanwhile, under epoch {self.state.epoch}; stop "
                "the services that use this storage, and try again"
            )


async def claim_tracker(
    storage: SnapshotCatalogue,
    log: AddLog | None,
    tracker: tuple[str, str],
    *,
    writer: str,
    attempt: Attempt,
    above: int = 0,
) -> Claimed:
    """Record a new epoch, so that no earlier owner can change what is read next.

    If two processes choose the same epoch at the same time, the storage refuses the second, which tries the next epoch,
    above the one that refused it.
    So the process that claims last owns the tracker.

    Args:
        storage: has the catalogue.
        log: the add log beside it; None if there is none.
        tracker: topic and cursor.
        writer: unique name of the claiming process.
        attempt: performs each operation.
        above: the new epoch is higher than this one.
    Raises:
        StorageUnavailable: the epoch may be recorded; try again.
        SnapshotConflict: other processes keep writing newer epochs; one of them owns the tracker.
    """
    state = await attempt(partial(storage.list, *tracker))
    for attempts_left in reversed(range(CLAIM_ATTEMPTS_MAX)):
        epoch = max(state.epoch, above) + 1
        try:
            fence = partial(storage.replace, *tracker, remove=(), add=(), epoch=epoch, writer=writer)
            state_after = await attempt(fence)
            extent = None
            if log is not None:
                extent = await attempt(partial(log.take_over, *tracker, epoch=epoch, writer=writer))
            break
        except SnapshotConflict as error:
            if not attempts_left:
                raise
            above = max(above, error.epoch or 0)  # of a log that is far ahead of a catalogue from a backup, too
            state = await attempt(partial(storage.list, *tracker))
    if state_after is None:
        # Read again: the earlier owner could commit until the new epoch was recorded.
        state_after = await attempt(partial(storage.list, *tracker))
    return Claimed(epoch, state_after, extent)
