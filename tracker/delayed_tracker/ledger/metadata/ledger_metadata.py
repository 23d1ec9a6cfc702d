"""Finds and parses BookKeeper's metadata of a ledger in a dump or in ZooKeeper."""

from collections.abc import Iterator
from typing import Final

from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, parse
from delayed_tracker.core.values.columns import ENTRY_ID_MAX
from delayed_tracker.ledger.errors import MetadataInvalid

__all__ = ["LedgerMetadata", "LedgerState", "ledger_paths", "parse_ledger_metadata"]

_SHORT_IDS_END: Final = 2**31 - 1


def ledger_paths(ledger_id: int) -> Iterator[str]:
    """Yield the possible nodes of a ledger's metadata, the usual layout first."""
    short, long = f"{ledger_id:010d}", f"{ledger_id:019d}"
    if ledger_id < _SHORT_IDS_END:
        yield f"/ledgers/{short[:2]}/{short[2:6]}/L{short[6:]}"
    yield f"/ledgers/{long[:3]}/{long[3:7]}/{long[7:11]}/{long[11:15]}/L{long[15:]}"
    yield f"/ledgers/L{short}"


def parse_ledger_metadata(ledger_id: int, stored: bytes) -> LedgerMetadata:
    """Parse the value of a ledger's node.

    Args:
        ledger_id: id of the ledger, which the value does not contain.
        stored: the whole value.
    Raises:
        MetadataInvalid: not such a value, a version this program does not know, or damaged.
    """
    try:
        metadata = parse(ledger_id, stored)
    except LedgerMetadataInvalid as error:
        raise MetadataInvalid(f"{error.message}; take the dump again") from error
    if metadata.last_entry_id > ENTRY_ID_MAX:
        raise MetadataInvalid(
            f"metadata of ledger {ledger_id} claims entry {metadata.last_entry_id}, and entry ids end at {ENTRY_ID_MAX}; restore "
            "it from a copy"
        )
    return metadata
