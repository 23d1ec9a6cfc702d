"""The blocks that were inflated last, so that looking around in a ledger does not inflate them each time."""

from collections import OrderedDict
from typing import Final

from delayed_tracker.ledger.offload.entry_rows import EntryRows

_RECENT_BYTES: Final = 64 << 20
_ROW_BYTES: Final = 16


class RecentRows:
    """Rows by file and offset, up to a number of bytes; the oldest go first. One for all ledgers of a source."""

    def __init__(self, bytes_max: int = _RECENT_BYTES) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._rows: OrderedDict[tuple[str, int], EntryRows] = OrderedDict()

    def __reduce__(self) -> tuple[type["RecentRows"], tuple[int]]:
        """Another process begins with nothing."""
        return RecentRows, (self._bytes_max,)

    def get(self, file: str, offset: int) -> EntryRows | None:
        """What was put there, if it is still here."""
        rows = self._rows.get((file, offset))
        if rows is not None:
            self._rows.move_to_end((file, offset))
        return rows

    def put(self, file: str, offset: int, rows: EntryRows) -> None:
        """Keep rows; anything larger than all room is not kept."""
        if _size(rows) > self._bytes_max:
            return
        self._rows[file, offset] = rows
        self._bytes += _size(rows)
        while self._bytes > self._bytes_max:
            _, oldest = self._rows.popitem(last=False)
            self._bytes -= _size(oldest)


def _size(rows: EntryRows) -> int:
    return len(rows.buffer) + _ROW_BYTES * len(rows)
