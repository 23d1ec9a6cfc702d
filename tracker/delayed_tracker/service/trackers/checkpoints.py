"""Records in the catalogue what one tracker has consumed, and cuts the records of the add log that it then contains."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.errors import TrackerBroken, TrackerNotOpen
from delayed_tracker.service.storage.snapshot_writer import Consumption
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.service.trackers.gate import TrackerGate
from delayed_tracker.storage.protocol import LogMark

_NOTHING: Final[Mapping[int, int]] = {}  # shared by idle trackers


class Checkpoints:
    """Checkpoints of one tracker while it is open, and the last one when it is closed."""

    __slots__ = ("_gate", "_log_id", "_recorded")

    def __init__(self, gate: TrackerGate, log_id: str) -> None:
        self._gate = gate
        self._log_id = log_id
        self._recorded: Mapping[int, int] = _NOTHING
        """Positions that were still tracked, of each stored bucket, when the catalogue learnt of it last."""

    def forget(self) -> None:
        """Forget what the catalogue knows: the core is about to be dropped."""
        self._recorded = _NOTHING

    async def record(self) -> bool:
        """Record the consumed positions in the catalogue, and cut what the add log no longer has to keep.

        Returns: False if it could not be recorded, or nothing was cut. Either is logged, and changes nothing.
        """
        counts: dict[int, int] = {}

        def look() -> Consumption:
            consumption = self._consumption(core := self._gate.require_core())
            counts.update((bucket_id, tracked) for bucket_id, (tracked, _) in core.stored_counts().items())
            return consumption

        with suppress(TrackerNotOpen, TrackerBroken), self._gate.held():
            recorded = await self._gate.runner.writer.record_consumed(look)
            if recorded is not None and recorded.mark is not None:
                self._recorded = counts
                return await self._gate.cut_log(recorded.mark.number)
        return False

    async def record_last(self) -> None:
        """Record the consumed positions of a closed tracker whose effects have ended; none if its core was given up."""
        if (core := self._gate.sound_core) is None:
            return
        consumption = self._consumption(core)
        # A catalogue that has nothing to learn may be busy, and the close need not wait for it.
        if consumption.is_empty:
            return
        recorded = await self._gate.runner.writer.record_consumed(lambda: consumption)
        if recorded is not None and recorded.mark is not None:
            await self._gate.cut_log(recorded.mark.number)

    def _consumption(self, core: TrackerCore) -> Consumption:
        """Return the state of now, with the mark up to which the catalogue then contains the log, if there is one."""
        # First of all: this may retire buckets, and so does away with what is still to be recorded of them. The catalogue
        # names them until they are deleted, which may fail, or happen after the records of their positions were cut.
        through = None if self._gate.log is None else core.contained_through()
        return Consumption(
            self._changed(core),
            core.undeleted() | self._gate.runner.stale_catalogue_ids,
            None if through is None else self._mark(core, through),
        )

    def _changed(self, core: TrackerCore) -> Mapping[int, PositionBitmap]:
        """Return what each stored bucket tracks of which the catalogue may not know what is consumed."""
        changed = [
            bucket_id
            for bucket_id, (tracked_count, sealed_count) in core.stored_counts().items()
            if self._recorded.get(bucket_id, sealed_count) != tracked_count
        ]
        return core.remaining(changed) if changed else {}

    def _mark(self, core: TrackerCore, through: int) -> LogMark:
        return LogMark(through, core.offered_through, self._log_id, self._gate.stored_through())

    def cuttable_log_bytes(self) -> int:
        """Return the bytes that a checkpoint would free in the add log; 0 unless the tracker answers verbs."""
        core = self._gate.sound_core
        if core is None or self._gate.log is None or self._gate.state is not HostState.READY:
            return 0
        return self._gate.log.cuttable_bytes(core.contained_through())
