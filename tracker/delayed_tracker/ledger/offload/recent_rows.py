"""Cache of the blocks that were inflated last, so that repeated reads in a ledger do not inflate them each time."""

from collections import OrderedDict
from typing import Final

from delayed_tracker.ledger.offload.entry_rows import EntryRows

_RECENT_BYTES: Final = 64 << 20
_ROW_BYTES: Final = 16


class RecentRows:
    """Cache of rows by file and offset, shared by all ledgers of a source.

    Its size in bytes is limited; the least recently used rows are removed first.
    """

    def __init__(self, bytes_max: int = _RECENT_BYTES) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._rows: OrderedDict[tuple[str, int], EntryRows] = OrderedDict()

    def __reduce__(self) -> tuple[type["RecentRows"], tuple[int]]:
        """Pickle only the limit: the cache is empty in another process."""
        return RecentRows, (self._bytes_max,)

    def get(self, file: str, offset: int) -> EntryRows | None:
        """Return the rows that were put there; None if they are not cached."""
        rows = self._rows.get((file, offset))
        if rows is not None:
            self._rows.move_to_end((file, offset))
        return rows

    def put(self, file: str, offset: int, rows: EntryRows) -> None:
        """Cache rows; rows that are larger than the whole cache are ignored."""
        if _size(rows) > self._bytes_max:
            return
        self._rows[file, offset] = rows
        self._bytes += _size(rows)
        while self._bytes > self._bytes_max:
            _, oldest = self._rows.popitem(last=False)
            self._bytes -= _size(oldest)


def _size(rows: EntryRows) -> int:
    return len(rows.buffer) + _ROW_BYTES * len(rows)
