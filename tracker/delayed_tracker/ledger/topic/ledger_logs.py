"""What entry logs answer about one ledger, however much of them is kept in memory."""

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
        """Stretches of files that hold no records though they should. Entries lost there show up as missing."""

    def last_add_confirmed(self, ledger_id: int, digest: LedgerDigest) -> int:
        """The highest entry that a writer knew to be acknowledged; -1 when there is none. Damaged records do not count."""

    def last_without_gap(self, ledger_id: int, after: int) -> int:
        """The last of the entries after + 1, after + 2, ... that all have a record; ``after`` when none has."""

    def read(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> LedgerEntries:
        """Entries ``first`` to ``last`` of a ledger, both included.

        Args:
            ledger_id: any; a ledger without records reads as missing entries.
            first: 0 or more.
            last: below ``first`` for nothing at all.
            digest: of that ledger, from its metadata.
        """

    def scan(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> Iterator[LedgerEntries]:
        """The same range in pieces of about 4 MB, and of at least one entry. Memory: for one piece."""

    def locate(self, ledger_id: int, entry_id: int) -> tuple[Path, int] | None:
        """File and offset of an entry's first record."""

    def close(self) -> None:
        """Let go of the files. What was read stays valid; reading more does not work."""
