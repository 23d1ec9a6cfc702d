"""Every checksum of whole topics: those of the storage, its indexes among them, and those of the producers."""

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
from delayed_tracker.ledger.topic.places import unreadable_entry
from delayed_tracker.ledger.topic.topic_log import Ledger, LedgerSource
from delayed_tracker.ledger.topic_name import TopicName


@runtime_checkable
class IndexedLedger(Protocol):
    """A ledger with an index that nobody looks at who reads everything."""

    def index_damage(self) -> BadEntry | None:
        """What is wrong with the index, for the ledger as a whole and counting no entry; None when nothing is."""


@dataclass(frozen=True, slots=True)
class LedgerVerdict:
    """What was found in one ledger, or why a topic's ledgers are not to be found."""

    topic: str | None
    """None: nothing says whose it is."""
    ledger_id: int | None
    """None: the topic's metadata, or what compaction left of it, is of no use, or nothing says which ledger it is."""
    entry_count: int
    """That should be there."""
    payload_bytes: int
    """Read."""
    sound_count: int = 0
    """Entries that were read, and whose checksums hold."""
    compacted: bool = False
    """Whether it is what compaction left of the topic."""
    bad_entries: tuple[BadEntry, ...] = ()
    """And what is wrong with the ledger's index, if it has one: with no entry id, and counting none."""
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
    source: LedgerSource, topics: Sequence[str], *, progress: Progress | None = None
) -> Iterator[LedgerVerdict]:
    """Read every entry of some topics, and compare what has a checksum with it.

    The storage's own checks run below this: a bookie's digest, the checksums of blocks, records and indexes. Where entries are
    messages, the producer's CRC32C is compared and the metadata parsed. Damage ends neither a ledger nor the whole.

    Args:
        source: where they are.
        topics: full names.
        progress: called after each piece, with entries looked at and entries in all.
    Raises:
        OSError: a file cannot be read.
    Cost: O(bytes); memory for one piece and the list of what is bad.
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
    """A verdict on everything that a source has and that no topic of it claims, none of which was read.

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
        """What is bad among some entries; those of compacted ledgers by their place in the topic, if it is known."""
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
