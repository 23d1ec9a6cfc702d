"""Ledgers in memory that count the entries read."""

from collections.abc import Iterator, Mapping, Sequence

from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.topic.topic_log import TopicLog
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.harness.log_files import TOPIC


class ListLedger:
    """Ledger of a list of entries; None stands for a missing entry."""

    def __init__(self, ledger_id: int, payloads: Sequence[bytes | None], *, piece_entries: int = 3) -> None:
        self.ledger_id = ledger_id
        self.payloads = payloads
        self.piece_entries = piece_entries
        self.entries_read = 0

    @property
    def last_entry_id(self) -> int:
        return len(self.payloads) - 1

    @property
    def payload_bytes(self) -> int | None:
        return None

    @property
    def closed(self) -> bool:
        return True

    def read(self, first: int, last: int) -> LedgerEntries:
        ids = range(first, min(last, self.last_entry_id) + 1)
        self.entries_read += len(ids)
        there = [entry_id for entry_id in ids if self.payloads[entry_id] is not None]
        gone = [entry_id for entry_id in ids if self.payloads[entry_id] is None]
        bad = [BadEntry(self.ledger_id, entry_id, None, None, "missing") for entry_id in gone]
        return LedgerEntries(
            StoredEntries.of(self.ledger_id, there, [self.payloads[entry_id] or b"" for entry_id in there]), tuple(bad)
        )

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        for start in range(first, last + 1, self.piece_entries):
            yield self.read(start, min(start + self.piece_entries - 1, last))


def topic_of(ledgers: Mapping[int, Sequence[bytes | None]], *, topic: str = TOPIC) -> TopicLog:
    """Return a topic of such ledgers."""
    return TopicLog(
        TopicName.parse(topic), tuple(ListLedger(ledger_id, rows) for ledger_id, rows in sorted(ledgers.items()))
    )
