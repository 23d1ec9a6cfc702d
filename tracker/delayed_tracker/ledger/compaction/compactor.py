"""Compaction of a topic: of each key, the latest message is kept.

Two passes over the entries, so that memory holds keys and positions, never payloads: the first finds where the latest
message of each key is, the second copies those entries into a ledger of their own. An earlier compaction's result
stands for the topic up to its horizon, so that work grows with what is new and what was kept, not with all there was.
Source: AbstractTwoPhaseCompactor.java, PublishingOrderCompactor.java.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from delayed_tracker.ledger.messages.visibility import OpenTransactions, TransactionView, visible_entries
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic.places import unreadable_entry
from delayed_tracker.ledger.topic.topic_log import CompactedLog, Ledger, TopicLog
from delayed_tracker.pulsar.v1.entry_pb2 import MessageIdData, MessageMetadata

COMPONENT: Final = "compacted-ledger"


class CompactedLedgerWriter(Protocol):
    """Takes the entries of a new compacted ledger, which nobody reads before it is complete."""

    def append(self, entry: bytes) -> None:
        """One more entry, behind those before."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What phase one found out."""

    latest: LatestByKey
    horizon: Position
    """The last message looked at: from here on the topic itself is to be read."""
    compacted_to: Position
    """The last entry that is no tombstone, as far as phase one can know."""
    topic: str
    bad_entries: tuple[BadEntry, ...] = ()
    """Entries that could not be read, and are lost to whoever reads the compacted topic."""

    @property
    def custom_metadata(self) -> Mapping[str, bytes]:
        """What the ledger says about itself in BookKeeper's metadata, as Pulsar's compactor has it."""
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
    """What phase two wrote."""

    entry_count: int
    """Entries written."""
    rebatched_count: int
    """Batches among them, written anew."""
    undecodable_count: int
    """Batches among them that could not be taken apart, and were kept as they are."""
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
        """Copied, which most entries never are."""
        return self.buffer[self.start : self.end]

    def slots(self) -> list[Slot] | None:
        """Its messages if it is a readable batch and none of them is hidden by damage; None to take it as a whole."""
        try:
            return batch_slots(self.metadata, self.buffer[self.payload_start : self.end])
        except (PayloadInvalid, CompressedDataInvalid):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One compaction of one topic: :meth:`choose`, then :meth:`write`.

    Once the ledger is closed and durable, whoever commits stores its id and the plan's horizon together, and only then
    deletes the ledger of the compaction before.
    """

    log: TopicLog
    previous: CompactedLog | None = None
    """What the last compaction left."""
    retain_null_key: bool = False
    """``topicCompactionRetainNullKey``: keep messages that have no key."""
    through: Position | None = None
    """The last position to look at, behind the previous horizon; None is the end. An open transaction ends it earlier,
    and so does a message of which a producer may still send pieces."""
    on_error: ErrorPolicy = ErrorPolicy.FAIL
    """SKIP goes on without entries that cannot be read, which loses them for good once their ledgers are trimmed."""
    progress: Progress | None = None
    """Called after each piece, with entries looked at and entries in all; each counts twice, once for either phase."""

    def choose(self) -> CompactionPlan | None:
        """Phase one: find the latest message of each key. None when there is no message to look at: none in the topic, or
        none was kept before and none is new; or what is new must wait for the rest of a message in pieces.

        Raises:
            EntriesUnreadable: entries are missing or damaged and the policy says to fail.
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
            # Of keys whose latest message lies behind, readers get that from the topic itself.
            last = _entry_before(self.log, waiting)
            if last is not None and self.previous is not None and last <= self.previous.horizon:
                return None
        if last is None:
            return None
        horizon = last if self.previous is None else max(last, self.previous.horizon)
        compacted_to = horizon if compacted_to is None else min(compacted_to, horizon)
        return CompactionPlan(latest, horizon, compacted_to, str(self.log.name), tuple(bad_entries))

    def write(self, plan: CompactionPlan, writer: CompactedLedgerWriter) -> CompactionSummary:
        """Phase two: copy what the plan keeps, in topic order.

        Args:
            plan: of this compaction.
            writer: gets each entry once; an error of it ends the compaction, and what it has is worthless.
        Raises:
            EntriesUnreadable: entries are missing or damaged and the policy says to fail.
        Cost: O(bytes) time; memory for a piece of a ledger.
        """
        written = rebatched = undecodable = size = 0
        partition = self.log.name.partition
        for entry in self._entries([], looked_at=self._entry_count):  # the plan lists the bad ones
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
        """Entries that a phase looks at, at most."""
        kept = 0 if self.previous is None else self.previous.ledger.last_entry_id + 1
        return kept + self.log.entry_count - EntryLookup(self.log).number(self._start or BEFORE_ALL)

    @property
    def _start(self) -> Position | None:
        """Where the topic itself is to be read from; None is the beginning."""
        if self.previous is None:
            return None
        return Position(self.previous.horizon.ledger_id, self.previous.horizon.entry_id + 1)

    def _entries(self, bad_entries: list[BadEntry], *, looked_at: int) -> Iterator[_Entry]:
        """What consumers would get, entry by entry: what was compacted before, then the topic behind it."""
        if self.previous is not None:
            ledger = self.previous.ledger
            yield from self._visible(self._told(scan_compacted(ledger), looked_at), ledger, bad_entries)
            looked_at += ledger.last_entry_id + 1
        new = self._told(self.log.scan(self._start, self.through), looked_at)
        yield from self._visible(new, None, bad_entries)

    def _told(self, pieces: Iterator[LedgerEntries], looked_at: int) -> Iterator[LedgerEntries]:
        """The same pieces, with progress told behind each."""
        total = 2 * self._entry_count
        for piece in pieces:
            yield piece
            looked_at += len(piece.entries) + sum(bad.entry_count for bad in piece.bad_entries)
            if self.progress is not None:
                self.progress(looked_at, total)

    def _visible(
        self, pieces: Iterator[LedgerEntries], kept: Ledger | None, bad_entries: list[BadEntry]
    ) -> Iterator[_Entry]:
        """Of entries of the topic, or of a ledger in which they were kept before; all that was kept was committed."""
        transactions = TransactionView(self.log) if kept is None else None
        for piece in pieces:
            columns = scan_entries(piece.entries)
            visible = visible_entries(columns, transactions, OpenTransactions.STOP)
            stored = columns.stored
            bad = list(piece.bad_entries)
            for row, reason in columns.unreadable():
                if row < visible.end:
                    ledger_id, entry_id = int(stored.ledger_id[row]), int(stored.entry_id[row])
                    if kept is None:
                        bad.append(unreadable_entry(self.log.ledger(ledger_id), entry_id, reason))
                    else:
                        bad.append(unreadable_kept(kept, Position(ledger_id, entry_id), reason))
            if bad and self.on_error is ErrorPolicy.FAIL:
                raise EntriesUnreadable(bad)
            bad_entries += bad
            # Readable, so that nothing is left to be found wrong.
            yield from map(_Entry, *_messages(columns, visible.rows))
            if visible.end < len(columns):
                return


def _messages(columns: EntryColumns, rows: NDArray[np.intp]) -> tuple[Iterable[Any], ...]:
    """What :class:`_Entry` consists of, part by part, for some rows."""
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
    """The place before an entry's; None for the topic's first."""
    if position.entry_id > 0:
        return Position(position.ledger_id, position.entry_id - 1)
    earlier = [ledger for ledger in log.ledgers if ledger.ledger_id < position.ledger_id and ledger.last_entry_id >= 0]
    return Position(earlier[-1].ledger_id, earlier[-1].last_entry_id) if earlier else None
