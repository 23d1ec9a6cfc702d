"""Compaction of a topic: keeps the latest message of each key.

Two passes over the entries, so that memory holds keys and positions, never payloads. The first finds the latest message
of each key; the second copies those entries into a new ledger. The result of an earlier compaction replaces the topic
up to its horizon, so the work grows with the new and the kept entries, not with all entries that ever existed.
Source: AbstractTwoPhaseCompactor.java, PublishingOrderCompactor.java.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.ledger.compaction.compacted_entry import encode_compacted
from delayed_tracker.ledger.compaction.compacted_ledger import scan_compacted, unreadable_kept
from delayed_tracker.ledger.compaction.latest import LatestByKey
from delayed_tracker.ledger.compaction.rebatch import batch_slots, is_readable_batch, rebatch
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import (
    BadEntry,
    CompressedDataInvalid,
    EntriesUnreadable,
    ErrorPolicy,
    PayloadInvalid,
)
from delayed_tracker.ledger.messages.batch import Slot
from delayed_tracker.ledger.messages.build import signed
from delayed_tracker.ledger.messages.visibility import (
    OpenTransactions,
    TransactionView,
    bad_entries_of,
    visible_entries,
)
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.topic.entry_location import unreadable_at
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic.topic_log import CompactedLog, Ledger, TopicLog
from delayed_tracker.pulsar.v1.entry_pb2 import MessageIdData, MessageMetadata

COMPONENT: Final = "compacted-ledger"


class CompactedLedgerWriter(Protocol):
    """Writer of a new compacted ledger, which is not read before it is complete."""

    def append(self, entry: bytes) -> None:
        """Append an entry."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Result of phase one."""

    latest: LatestByKey
    horizon: Position
    """Last message read; behind it, readers read the topic itself."""
    compacted_to: Position
    """Last entry that is not a tombstone, as far as phase one can determine."""
    topic: str
    bad_entries: tuple[BadEntry, ...] = ()
    """Entries that could not be read; readers of the compacted topic do not receive them. Behind the horizon, they are
    those that may have the end of the open transaction at which it is."""

    @property
    def custom_metadata(self) -> Mapping[str, bytes]:
        """Metadata of the ledger in BookKeeper, the same as Pulsar's compactor writes."""
        ledger_id, entry_id = self.compacted_to
        return {
            "application": b"pulsar",
            "component": COMPONENT.encode(),
            "pulsar/compactedTopic": self.topic.encode(),
            "pulsar/compactedTo": MessageIdData(
                ledger_id=ledger_id, entry_id=entry_id, batch_size=0
            ).SerializeToString(),
        }


@dataclass(frozen=True, slots=True)
class CompactionSummary:
    """Result of phase two."""

    entry_count: int
    """Number of entries written."""
    rebatched_count: int
    """Number of batches among them that were rewritten."""
    undecodable_count: int
    """Number of batches among them that could not be split, and were kept unchanged."""
    payload_bytes: int
    """Bytes of all entries written."""


class _Entry(NamedTuple):
    position: Position
    metadata: MessageMetadata
    buffer: bytes
    start: int
    payload_start: int
    end: int

    @property
    def entry(self) -> bytes:
        """Copy of the entry's bytes; most entries are never copied."""
        return self.buffer[self.start : self.end]

    def slots(self) -> list[Slot] | None:
        """Return the messages of a readable batch; None if damage hides some, and the entry must be kept whole."""
        try:
            return batch_slots(self.metadata, self.buffer[self.payload_start : self.end])
        except (PayloadInvalid, CompressedDataInvalid):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One compaction of one topic: :meth:`choose`, then :meth:`write`.

    Once the ledger is closed and durable, the caller stores its id and the plan's horizon together. Only then it
    deletes the ledger of the previous compaction.
    """

    log: TopicLog
    previous: CompactedLog | None = None
    """Result of the previous compaction."""
    retain_null_key: bool = False
    """``topicCompactionRetainNullKey``: keep messages that have no key."""
    through: Position | None = None
    """Last position to read, behind the previous horizon; None is the end. Reading ends earlier at an open transaction,
    and at a message of which a producer may still send pieces."""
    on_error: ErrorPolicy = ErrorPolicy.FAIL
    """SKIP leaves out entries that cannot be read; they are lost for good once their ledgers are trimmed."""
    progress: Progress | None = None
    """Called after each piece, with entries read and entries in all; each entry counts twice, once for each phase."""

    def choose(self) -> CompactionPlan | None:
        """Find the latest message of each key (phase one).

        Returns None if there is nothing to compact: the topic has no messages, no message was kept before and none is
        new, or the new messages must wait for the rest of a message in pieces.

        Raises:
            EntriesUnreadable: entries are missing or damaged, and the policy is FAIL.
        Cost: O(bytes) time; memory for the keys and a piece of a ledger.
        """
        latest = LatestByKey(retain_null_key=self.retain_null_key)
        bad_entries: list[BadEntry] = []
        compacted_to = last = None
        published_ms = 0
        for entry in self._entries(bad_entries, looked_at=0):
            last, published_ms = entry.position, signed(entry.metadata.publish_time)
            if not is_readable_batch(entry.metadata):
                kept = latest.add_message(entry.position, entry.metadata, entry.end - entry.payload_start)
            else:
                slots = entry.slots()
                kept = slots is None or latest.add_batch(entry.position, slots)
            if kept:
                compacted_to = entry.position
        waiting = latest.finish(published_ms)
        if last is not None and waiting is not None:
            # If the latest message of a key lies behind, readers get it from the topic itself.
            last = _entry_before(self.log, waiting)
            if last is not None and self.previous is not None and last <= self.previous.horizon:
                return None
        if last is None:
            return None
        horizon = last if self.previous is None else max(last, self.previous.horizon)
        compacted_to = horizon if compacted_to is None else min(compacted_to, horizon)
        return CompactionPlan(latest, horizon, compacted_to, str(self.log.name), tuple(bad_entries))

    def write(self, plan: CompactionPlan, writer: CompactedLedgerWriter) -> CompactionSummary:
        """Copy the entries that the plan keeps, in topic order (phase two).

        Args:
            plan: the plan of this compaction.
            writer: receives each entry once. If it raises, the compaction ends and its ledger must be discarded.
        Raises:
            EntriesUnreadable: entries are missing or damaged, and the policy is FAIL.
        Cost: O(bytes) time; memory for a piece of a ledger.
        """
        written = rebatched = undecodable = size = 0
        partition = self.log.name.partition
        for entry in self._entries([], looked_at=self._entry_count):  # the plan lists the bad entries
            if entry.position > plan.horizon:
                break
            content: bytes | None
            if not is_readable_batch(entry.metadata):
                content = entry.entry if plan.latest.keeps_message(entry.position, entry.metadata) else None
            elif (slots := entry.slots()) is None:
                content = entry.entry
                undecodable += 1
            else:
                kept = plan.latest.kept_slots(entry.position, slots)
                content = rebatch(entry.entry, entry.metadata, slots, frozenset(kept)) if kept else None
                rebatched += bool(kept)
            if content is not None:
                compacted = encode_compacted(entry.position, partition, content)
                writer.append(compacted)
                written += 1
                size += len(compacted)
        return CompactionSummary(written, rebatched, undecodable, size)

    @property
    def _entry_count(self) -> int:
        """Most entries that a phase reads."""
        kept = 0 if self.previous is None else self.previous.ledger.last_entry_id + 1
        return kept + self.log.entry_count - EntryLookup(self.log).number(self._start or BEFORE_ALL)

    @property
    def _start(self) -> Position | None:
        """First position to read from the topic itself; None is the beginning."""
        if self.previous is None:
            return None
        return Position(self.previous.horizon.ledger_id, self.previous.horizon.entry_id + 1)

    def _entries(self, bad_entries: list[BadEntry], *, looked_at: int) -> Iterator[_Entry]:
        """Yield the entries that consumers receive: those compacted before, then those of the topic behind them."""
        if self.previous is not None:
            ledger = self.previous.ledger
            yield from self._visible(self._told(scan_compacted(ledger), looked_at), ledger, bad_entries)
            looked_at += ledger.last_entry_id + 1
        new = self._told(self.log.scan(self._start, self.through), looked_at)
        yield from self._visible(new, None, bad_entries)

    def _told(self, pieces: Iterator[LedgerEntries], looked_at: int) -> Iterator[LedgerEntries]:
        """Yield the same pieces, and report progress after each."""
        total = 2 * self._entry_count
        for piece in pieces:
            yield piece
            looked_at += len(piece.entries) + sum(bad.entry_count for bad in piece.bad_entries)
            if self.progress is not None:
                self.progress(looked_at, total)

    def _visible(
        self, pieces: Iterator[LedgerEntries], kept: Ledger | None, bad_entries: list[BadEntry]
    ) -> Iterator[_Entry]:
        """Yield the visible entries of the topic, or of a ledger that kept them before: all of those were committed."""
        transactions = TransactionView(self.log) if kept is None else None
        name_bad = partial(unreadable_at, self.log) if kept is None else partial(unreadable_kept, kept)
        for piece in pieces:
            columns = scan_entries(piece.entries)
            visible = visible_entries(columns, transactions, OpenTransactions.STOP)
            bad = bad_entries_of(piece, columns, visible, transactions, name_bad)
            if bad and self.on_error is ErrorPolicy.FAIL:
                raise EntriesUnreadable(bad)
            bad_entries += bad
            # These rows are readable, so parsing them cannot fail.
            yield from map(_Entry, *_messages(columns, visible.rows))
            if visible.end < len(columns):
                return


def _messages(columns: EntryColumns, rows: NDArray[np.intp]) -> tuple[Iterable[Any], ...]:
    """Return the fields of :class:`_Entry` for some rows, one iterable for each field."""
    stored = columns.stored
    chosen = (
        stored.ledger_id,
        stored.entry_id,
        columns.metadata_start(),
        columns.payload_start,
        stored.start,
        stored.end,
    )
    ledger_id, entry_id, metadata_start, payload_start, start, end = (column[rows].tolist() for column in chosen)
    buffer = stored.buffer
    metadata = (MessageMetadata.FromString(buffer[at:to]) for at, to in zip(metadata_start, payload_start, strict=True))
    return map(Position, ledger_id, entry_id), metadata, repeat(buffer), start, payload_start, end


def _entry_before(log: TopicLog, position: Position) -> Position | None:
    """Return the position before an entry; None for the topic's first."""
    if position.entry_id > 0:
        return Position(position.ledger_id, position.entry_id - 1)
    earlier = [ledger for ledger in log.ledgers if ledger.ledger_id < position.ledger_id and ledger.last_entry_id >= 0]
    return Position(earlier[-1].ledger_id, earlier[-1].last_entry_id) if earlier else None
