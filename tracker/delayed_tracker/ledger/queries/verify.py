"""Verifies every checksum of whole topics: those of the storage and its indexes, and those of the producers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction.compacted_ledger import unreadable_kept, unwrapped
from delayed_tracker.ledger.entry.entry_columns import scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import BadEntry, LedgerError
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.topic.combined_source import unclaimed_of
from delayed_tracker.ledger.topic.entry_location import unreadable_entry
from delayed_tracker.ledger.topic.topic_log import Ledger, LedgerSource
from delayed_tracker.ledger.topic_name import TopicName


@runtime_checkable
class IndexedLedger(Protocol):
    """Ledger with an index that reading all entries does not use."""

    def index_damage(self) -> BadEntry | None:
        """Return the damage of the index, for the whole ledger and with an entry count of 0; None if it is sound."""


@dataclass(frozen=True, slots=True)
class LedgerVerdict:
    """Result for one ledger, or the reason why a topic's ledgers cannot be found."""

    topic: str | None
    """None if the topic is unknown."""
    ledger_id: int | None
    """None if the topic's metadata or the result of its compaction is unusable, or if the ledger's id is unknown."""
    entry_count: int
    """Entries that should be there."""
    payload_bytes: int
    """Bytes of payload that were read."""
    sound_count: int = 0
    """Entries that were read and whose checksums are correct."""
    compacted: bool = False
    """True if the ledger is the result of the topic's compaction."""
    bad_entries: tuple[BadEntry, ...] = ()
    """Bad entries, and the damage of the ledger's index, if any, without an entry id and with an entry count of 0."""
    problem: str | None = None
    """Reason why nothing, or nothing more, could be read."""

    @property
    def bad_count(self) -> int:
        """Number of entries that are missing or damaged."""
        return sum(bad.entry_count for bad in self.bad_entries)

    @property
    def sound(self) -> bool:
        """True if every entry is there and every checksum is correct."""
        return self.problem is None and not self.bad_entries


def verify_topics(
    source: LedgerSource, topics: Sequence[str], *, progress: Progress | None = None
) -> Iterator[LedgerVerdict]:
    """Read every entry of some topics and compare all checksums.

    The storage checks its own checksums when it is read: a bookie's digest, the checksums of blocks, records and
    indexes. For messages, this function also compares the producer's CRC32C and parses the metadata. Damage does not
    stop it.

    Args:
        source: source of the topics.
        topics: full names.
        progress: called after each piece, with entries processed and entries in all.
    Raises:
        OSError: a file cannot be read.
    Cost: O(bytes); memory for one piece and the list of bad entries.
    """
    checks: list[_Check] = []
    for topic in topics:
        try:
            log = source.topic_log(topic)
            checks += (_Check(log.name, ledger) for ledger in log.ledgers)
            compacted = source.compacted_log(topic)
        except LedgerError as error:
            yield LedgerVerdict(topic, None, 0, 0, problem=error.message)
            continue
        if compacted is not None:
            checks.append(_Check(log.name, compacted.ledger, compacted=True))
    total = sum(check.entry_count for check in checks)
    done = 0

    def seen(entry_count: int) -> None:
        if progress is not None:
            progress(done + entry_count, total)

    for check in checks:
        yield check.run(seen)
        done += check.entry_count


def verify_unclaimed(source: LedgerSource) -> Iterator[LedgerVerdict]:
    """Yield a verdict on everything that a source has and that belongs to none of its topics. Nothing of it is read.

    Raises:
        LedgerFileInvalid, OSError: as opening the source.
    """
    for bad in unclaimed_of(source):
        yield LedgerVerdict(None, bad.ledger_id, 0, 0, problem=f"{bad.reason}; {bad.remedy}")


@dataclass(frozen=True, slots=True)
class _Check:
    """One ledger to read."""

    topic: TopicName
    ledger: Ledger
    compacted: bool = False

    @property
    def entry_count(self) -> int:
        return self.ledger.last_entry_id + 1

    def run(self, seen: Callable[[int], None]) -> LedgerVerdict:
        payload_bytes = looked_at = sound_count = 0
        bad: list[BadEntry] = []
        problem = None
        try:
            for piece in self.ledger.scan(0, self.ledger.last_entry_id):
                payload_bytes += piece.entries.payload_bytes
                count = len(piece.entries) + sum(entry.entry_count for entry in piece.bad_entries)
                found = list(self._bad(piece))
                looked_at += count
                sound_count += count - sum(entry.entry_count for entry in found)
                bad += found
                seen(looked_at)
        except LedgerError as error:
            problem = error.message
        if isinstance(self.ledger, IndexedLedger) and (damage := self.ledger.index_damage()) is not None:
            bad.append(damage)
        said_bytes = self.ledger.payload_bytes
        if problem is None and not bad and said_bytes not in {None, payload_bytes}:
            reason = f"its entries have {payload_bytes} bytes together, its metadata says {said_bytes}"
            bad.append(BadEntry(self.ledger.ledger_id, None, None, None, reason, entry_count=0))
        seen(self.entry_count)
        return LedgerVerdict(
            str(self.topic),
            self.ledger.ledger_id,
            self.entry_count,
            payload_bytes,
            sound_count,
            compacted=self.compacted,
            bad_entries=tuple(bad),
            problem=problem,
        )

    def _bad(self, piece: LedgerEntries) -> Iterator[BadEntry]:
        """Yield the bad entries of a piece; those of a compacted ledger by their positions in the topic, if known."""
        found = unwrapped(self.ledger, piece) if self.compacted else piece
        yield from found.bad_entries
        if self.topic.holds_messages:
            stored = found.entries
            for row, reason in scan_entries(stored).unreadable():
                ledger_id, entry_id = int(stored.ledger_id[row]), int(stored.entry_id[row])
                if self.compacted:
                    yield unreadable_kept(self.ledger, Position(ledger_id, entry_id), reason)
                else:
                    yield unreadable_entry(self.ledger, entry_id, reason)
