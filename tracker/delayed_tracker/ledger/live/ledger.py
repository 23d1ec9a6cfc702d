"""One BookKeeper ledger of a topic, read from the bookies of a running cluster."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from delayed_tracker.bookkeeper.metadata.ledger_store import Versioned
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.live.client import ClusterClient, shared_client
from delayed_tracker.ledger.live.reading import scan_ledger


@dataclass(frozen=True, slots=True)
class LiveLedger:
    """A :class:`~delayed_tracker.ledger.topic.topic_log.Ledger` over bookies, as of one moment.

    It can be pickled: another process reads it by the cluster's address and the ledger's metadata, without looking for the
    topic. Its readers ask ZooKeeper only for entries that auto-recovery has moved meanwhile.
    """

    client: ClusterClient
    stored: Versioned
    """BookKeeper's metadata of the ledger."""
    last_entry_id: int
    """Last entry by the metadata; that of an open ledger was confirmed when it was looked at."""

    @property
    def ledger_id(self) -> int:
        """Id of the ledger in BookKeeper."""
        return self.stored.metadata.ledger_id

    @property
    def closed(self) -> bool:
        """True if the metadata give the last entry."""
        return self.stored.metadata.closed

    @property
    def payload_bytes(self) -> int | None:
        """Bytes of all payloads; None if the ledger is open."""
        return self.stored.metadata.payload_bytes if self.closed else None

    def read(self, first: int, last: int) -> LedgerEntries:
        """Read entries ``first`` to ``last``. An entry that no bookie can give is bad."""
        pieces = list(self.scan(first, last))
        entries = StoredEntries.concat([piece.entries for piece in pieces])
        return LedgerEntries(entries, tuple(bad for piece in pieces for bad in piece.bad_entries))

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        """Read the same range in pieces of about 4 MB."""
        return scan_ledger(self.client, self.stored, first, last)

    @property
    def is_metered(self) -> bool:
        """True if the source limits the rate."""
        return self.client.address.bytes_per_second_max is not None

    def for_one_of(self, reader_count: int) -> "LiveLedger":
        """Return the ledger for one of several processes that divide the source's rate equally among them."""
        address = self.client.address.share(reader_count)
        return self if address == self.client.address else replace(self, client=shared_client(address))
