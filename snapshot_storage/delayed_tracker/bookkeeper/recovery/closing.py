"""Decides where the recovery of a ledger begins, and how its metadata look in the end. No input and output."""

from collections.abc import Sequence

from delayed_tracker.bookkeeper.metadata.errors import MetadataConflict
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState

Segment = tuple[int, tuple[str, ...]]
"""First entry, and ensemble."""


def last_known(metadata: LedgerMetadata, last_confirmed: int) -> int:
    """Return the last entry that need not be recovered; -1 if there is none.

    Entries before the last segment are confirmed and complete, even if no bookie of the last segment says so. Adding one of
    them again would begin a segment within an older one.

    Args:
        metadata: of the ledger.
        last_confirmed: what the bookies of the last segment say; -1 for none.
    """
    return max(last_confirmed, metadata.segments[-1][0] - 1)


def closed(
    found: LedgerMetadata, changes: Sequence[Segment], *, last_entry_id: int, payload_bytes: int
) -> LedgerMetadata:
    """Return the metadata of a recovered ledger.

    Args:
        found: those in ZooKeeper.
        changes: segments that the recovery made, ascending. The first may begin where the last one of ``found`` does, and
            takes its place then.
        last_entry_id: -1 for an empty ledger.
        payload_bytes: of all its entries.
    Raises:
        MetadataConflict: the ledger is not in recovery, or another client has added a segment.
    """
    if found.state is not LedgerState.IN_RECOVERY:
        raise MetadataConflict(
            f"metadata of ledger {found.ledger_id} became {found.state.name} during its recovery; recover it again"
        )
    made = found
    for first, bookies in changes:
        if first < made.segments[-1][0]:
            raise MetadataConflict(
                f"metadata of ledger {found.ledger_id} got a segment from entry {made.segments[-1][0]} during its recovery;"
                " recover it again"
            )
        made = made.with_segment(first, bookies)
    return made.with_state(LedgerState.CLOSED, last_entry_id=last_entry_id, payload_bytes=payload_bytes)
