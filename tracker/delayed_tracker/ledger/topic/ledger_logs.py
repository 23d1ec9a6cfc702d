"""Interface of entry logs that serve single ledgers, independent of how much is kept in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.metadata.digest import LedgerDigest


class LedgerLogs(Protocol):
    """All entry logs of one or more bookies. Not thread-safe."""

    @property
    def damage(self) -> tuple[BadEntry, ...]:
        """Stretches of files that should hold records and do not. Entries lost there are reported as missing."""

    def last_add_confirmed(self, ledger_id: int, digest: LedgerDigest) -> int:
        """Return the highest entry that a writer knew to be acknowledged; -1 if none. Ignores damaged records."""

    def last_contiguous_entry(self, ledger_id: int, after: int) -> int:
        """Return the last of the entries after + 1, after + 2, ... that all have a record; ``after`` if none has."""

    def read(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> LedgerEntries:
        """Read entries ``first`` to ``last`` of a ledger, both included.

        Args:
            ledger_id: any id; a ledger without records reads as missing entries.
            first: 0 or more.
            last: below ``first`` to read nothing.
            digest: digest of that ledger, from its metadata.
        """

    def scan(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> Iterator[LedgerEntries]:
        """Read the same range in pieces of about 4 MB, each of at least one entry. Uses memory for one piece."""

    def locate(self, ledger_id: int, entry_id: int) -> tuple[Path, int] | None:
        """Return file and offset of an entry's first record; None if there is none."""

    def close(self) -> None:
        """Release the files. Results stay valid, but further reads fail."""
