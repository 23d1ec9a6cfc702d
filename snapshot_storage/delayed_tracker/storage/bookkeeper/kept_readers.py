"""Readers of closed ledgers that are kept, so that a second read of a ledger does not ask ZooKeeper for its metadata."""

from collections import OrderedDict
from typing import Final

from delayed_tracker.bookkeeper.reading.reader import LedgerReader

READERS_MAX: Final = 4_096
"""Readers that are kept at a time; about 1 KB each."""


class KeptReaders:
    """The readers used last, at most ``READERS_MAX``. One that was dropped is opened again at its next use."""

    __slots__ = ("_readers",)

    def __init__(self) -> None:
        self._readers: OrderedDict[int, LedgerReader] = OrderedDict()

    def __len__(self) -> int:
        return len(self._readers)

    def get(self, ledger_id: int) -> LedgerReader | None:
        """Return the reader of a ledger, which is then the last used; None if it is not kept."""
        reader = self._readers.get(ledger_id)
        if reader is not None:
            self._readers.move_to_end(ledger_id)
        return reader

    def keep(self, ledger_id: int, reader: LedgerReader) -> None:
        """Keep a reader, in the place of an earlier one; the one that was not used for longest makes room."""
        self._readers[ledger_id] = reader
        self._readers.move_to_end(ledger_id)
        if len(self._readers) > READERS_MAX:
            self._readers.popitem(last=False)

    def drop(self, ledger_id: int) -> None:
        """Forget the reader of a ledger, if it is kept."""
        self._readers.pop(ledger_id, None)
