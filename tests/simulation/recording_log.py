"""An add log that knows what it has on record as consumed, whatever the service believes."""

from delayed_tracker.core.values.changes import Added, CursorMoved, MarkDeleteAdvanced, Removed, Rescheduled
from delayed_tracker.core.values.columns import BEFORE_ALL
from delayed_tracker.storage.codec.log_records import decode_change
from delayed_tracker.storage.memory_log import MemoryAddLog


class RecordingLog(MemoryAddLog):
    """The log of one tracker in memory, with the positions whose last record says that they are not tracked."""

    def __init__(self):
        super().__init__()
        self.consumed = set()
        """Positions whose consumption is on record. A cut leaves them here: then the catalogue has it."""
        self.tracked = set()
        """Positions whose last record says that they are tracked."""
        self.mark_delete = BEFORE_ALL
        """Mark-delete position of the last record that has one."""

    async def append(self, parts, *, writer):
        refused = await super().append(parts, writer=writer)
        for part in parts:
            if (part.topic, part.cursor) not in refused:
                for record in part.records:
                    self._note(decode_change(record))
        return refused

    def _note(self, change):
        if isinstance(change, Removed):
            self.consumed.update(change.positions)
            self.tracked.difference_update(change.positions)
        elif isinstance(change, Added | Rescheduled):
            self.consumed.difference_update(change.indexes.positions)
            self.tracked.update(change.indexes.positions)
        elif isinstance(change, MarkDeleteAdvanced | CursorMoved):
            self.mark_delete = change.mark_delete
            # A cursor that is moved down again brings nothing of this back: it is offered again.
            through = change.mark_delete if isinstance(change, MarkDeleteAdvanced) else change.trimmed_through
            self.tracked = {position for position in self.tracked if position > through}
