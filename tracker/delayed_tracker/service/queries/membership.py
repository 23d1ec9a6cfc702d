"""All tracked positions of one tracker, part by part, while it goes on.

Each part is made when the caller has taken the one before, from the tracker as it is then. In between nothing of it is
kept but the place where the reading goes on, so that a caller who reads slowly costs no memory.
"""

from collections.abc import AsyncGenerator

from delayed_tracker.service.admission.call_admission import POSITIONS_MAX
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.service.trackers.registry import TrackerRegistry


async def membership_parts(
    registry: TrackerRegistry, host: TrackerHost, epoch: int | None
) -> AsyncGenerator[list[tuple[int, bytes]], None]:
    """Yield every tracked position, as lists of (ledger id, portable bitmap), none of them empty.

    A part takes as much of an iteration of the event loop as a large request. A tracker that was unloaded meanwhile is
    brought back, with the same history.

    Args:
        registry: has the tracker.
        host: of the tracker, in memory.
        epoch: the owner's; None for any.
    Raises:
        Fenced: the epoch is not the owner's.
        PollEnded, ShuttingDown, TrackerBroken: the tracker was cleared, closed or opened anew meanwhile.
        StorageUnavailable: an unloaded tracker could not be brought back.
    """
    if epoch is not None:
        host.require_owner(epoch)
    with host.follow_history() as history:
        reading = host.begin_membership()
        while not reading.is_over:
            await registry.calls.iteration_budget.take(POSITIONS_MAX)
            history.require()
            await registry.loaded_host(host.key)
            # No await from here on: the part is of this history.
            history.require()
            if part := host.membership_part(reading):
                yield part
        # The last part was taken under the same history.
        history.require()
