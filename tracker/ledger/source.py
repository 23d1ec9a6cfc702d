"""A dead bookie's disk as a source of delayed messages: entry logs and a metadata dump, opened together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tracker.core.columns import IndexColumns
from tracker.ledger.errors import BadEntry, ErrorPolicy
from tracker.ledger.topic_reader import OpenLedgers

# SKETCH: the signatures are final, the bodies follow.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PendingReport:
    indexes: IndexColumns  # pending, in position order
    bad_entries: tuple[BadEntry, ...]
    # entry_count, delayed_count, acked_count, aborted_count, open_transaction_count, marker_count, mark_delete: Position


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    bucket_id: int
    first_ledger_id: int
    last_ledger_id: int
    metadata: bytes
    segments: tuple[bytes, ...]


class BookieDisk:
    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError

    def topics(self) -> list[str]:
        """Full names, persistent://tenant/namespace/topic, sorted."""
        raise NotImplementedError

    def subscriptions(self, topic: str) -> list[str]:
        raise NotImplementedError

    def pending(
        self,
        topic: str,
        subscription: str,
        *,
        ignore_acks: bool = False,
        open_ledgers: OpenLedgers = OpenLedgers.RECOVERED,
        on_error: ErrorPolicy = ErrorPolicy.FAIL,
        progress: Progress | None = None,
    ) -> PendingReport:
        """progress(entries read, entries in all)."""
        raise NotImplementedError

    def stored_snapshots(self, topic: str, subscription: str) -> list[StoredSnapshot]:
        raise NotImplementedError


def open_bookie_disk(
    log_directories: Sequence[str | Path], metadata_dump: str | Path, *, progress: Progress | None = None
) -> BookieDisk:
    """progress(log bytes scanned, log bytes in all)."""
    raise NotImplementedError
