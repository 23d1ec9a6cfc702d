"""Every checksum of whole topics: those of the storage and those of the producers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tracker.ledger.entry_columns import scan_entries
from tracker.ledger.errors import BadEntry, LedgerError
from tracker.ledger.topic_log import Ledger, LedgerSource, TopicLog

VerifyProgress = Callable[[int, int], None]
"""Called with the entries looked at so far, and those there are in all."""


@dataclass(frozen=True, slots=True)
class LedgerVerdict:
    """What was found in one ledger, or why a topic's ledgers are not to be found."""

    topic: str
    ledger_id: int | None
    """None: the topic's metadata is of no use."""
    entry_count: int
    """That should be there."""
    payload_bytes: int
    """Read."""
    bad_entries: tuple[BadEntry, ...] = ()
    problem: str | None = None
    """Why nothing, or nothing more, could be read."""

    @property
    def bad_count(self) -> int:
        """Entries that are missing or damaged."""
        return sum(bad.entry_count for bad in self.bad_entries)

    @property
    def sound(self) -> bool:
        """Whether every entry is there and every checksum holds."""
        return self.problem is None and not self.bad_entries


def verify_topics(
    source: LedgerSource, topics: Sequence[str], *, progress: VerifyProgress | None = None
) -> Iterator[LedgerVerdict]:
    """Read every entry of some topics, and compare what has a checksum with it.

    The storage's own checks run below this: a bookie's digest, the checksums of blocks and records. Where entries are
    messages, the producer's CRC32C is compared and the metadata parsed. Damage ends neither a ledger nor the whole.

    Args:
        source: where they are.
        topics: full names.
        progress: called after each piece.
    Raises:
        OSError: a file cannot be read.
    Cost: O(bytes); memory for one piece and the list of what is bad.
    """
    logs: list[TopicLog] = []
    for topic in topics:
        try:
            logs.append(source.topic_log(topic))
        except LedgerError as error:
            yield LedgerVerdict(topic, None, 0, 0, problem=error.message)
    total = sum(log.entry_count for log in logs)
    done = 0

    def seen(entry_count: int) -> None:
        if progress is not None:
            progress(done + entry_count, total)

    for log in logs:
        for ledger in log.ledgers:
            yield _verify(str(log.name), ledger, are_messages=log.name.holds_messages, seen=seen)
            done += ledger.last_entry_id + 1


def _verify(topic: str, ledger: Ledger, *, are_messages: bool, seen: Callable[[int], None]) -> LedgerVerdict:
    entry_count = ledger.last_entry_id + 1
    payload_bytes = looked_at = 0
    bad: list[BadEntry] = []
    problem = None
    try:
        for piece in ledger.scan(0, ledger.last_entry_id):
            payload_bytes += piece.entries.payload_bytes
            bad += piece.bad_entries
            if are_messages:
                columns = scan_entries(piece.entries)
                for row, reason in columns.unreadable():
                    bad.append(BadEntry(ledger.ledger_id, int(piece.entries.entry_id[row]), None, None, reason))
            looked_at += len(piece.entries) + sum(entry.entry_count for entry in piece.bad_entries)
            seen(looked_at)
    except LedgerError as error:
        problem = error.message
    seen(entry_count)
    return LedgerVerdict(topic, ledger.ledger_id, entry_count, payload_bytes, tuple(bad), problem)
