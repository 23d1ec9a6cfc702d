"""Reads single entries of a topic by number, and parses no more of an entry than a query needs.

A search reads a few entries out of millions. The broker's frame usually has the needed values. The message metadata is
parsed, and its checksum compared, only if the frame lacks them (PIP-70). The number of entries read is counted here,
because it is the cost of a search.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, scan_entries
from delayed_tracker.ledger.entry.frame import (
    Frame,
    checksum_matches,
    parse_broker_metadata,
    parse_message_metadata,
    split_frame,
)
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import EntriesUnreadable, FrameInvalid
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.entry_location import unreadable_entry
from delayed_tracker.ledger.topic.topic_log import Ledger, TopicLog
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

_CACHE_ENTRIES_MAX: Final = 64
_CACHED_PAYLOAD_BYTES_MAX: Final = 16 << 10
"""Larger entries are read again instead of cached, so that the cache never holds more than a megabyte."""
_PIECE_ENTRIES_MIN: Final = 16
_PIECE_ENTRIES_MAX: Final = 4_096


@dataclass(slots=True)
class _SeenEntry:
    """One entry that was read; its metadata is set when first needed."""

    payload: bytes
    frame: Frame
    index: int | None
    broker_timestamp_ms: int | None
    metadata: MessageMetadata | None = None


class EntryLookup:
    """Entries of one topic, numbered from 0 in message order across its ledgers. Not thread-safe.

    It covers the entries that the log had when it was opened; entries added later have no number.
    """

    def __init__(self, log: TopicLog) -> None:
        self.log = log
        self.touched_count = 0
        """Entries read so far, without those served from the cache."""
        self.metadata_parsed_count = 0
        """Entries whose message metadata was parsed, because the frame was not sufficient."""
        self._ledgers: list[Ledger] = [ledger for ledger in log.ledgers if ledger.last_entry_id >= 0]
        counts = [ledger.last_entry_id + 1 for ledger in self._ledgers]
        self._ends: list[int] = np.cumsum(counts, dtype=np.int64).tolist()
        self._seen: OrderedDict[int, _SeenEntry] = OrderedDict()

    @property
    def entry_count(self) -> int:
        """Entries of the topic."""
        return self._ends[-1] if self._ends else 0

    @property
    def searchable_count(self) -> int:
        """Entries before the absent ledgers at the end. A search that ends here would have to continue in those."""
        ledgers = dropwhile(lambda ledger: isinstance(ledger, AbsentLedger), reversed(self._ledgers))
        newest = next(ledgers, None)
        return 0 if newest is None else self.number(Position(newest.ledger_id, newest.last_entry_id + 1))

    @property
    def ledger_starts(self) -> list[int]:
        """Numbers of the first entries of all ledgers, ascending. Ledgers without entries have none."""
        return [0, *self._ends[:-1]] if self._ends else []

    def position(self, number: int) -> Position:
        """Return the position of an entry. For ``entry_count``, return the position at which the topic continues.

        Raises:
            EntriesUnreadable: the entry is in an absent ledger.
        """
        if number >= self.entry_count:
            return self._behind_the_end()
        at, entry_id = self._place(number)
        if isinstance(self._ledgers[at], AbsentLedger):
            raise EntriesUnreadable(self._ledgers[at].read(entry_id, entry_id).bad_entries)
        return Position(self._ledgers[at].ledger_id, entry_id)

    def number(self, position: Position) -> int:
        """Return the number of entries before a position, which need not exist."""
        at = bisect_right(self._ledgers, position.ledger_id, key=lambda ledger: ledger.ledger_id) - 1
        if at < 0:
            return 0
        start = self._ends[at - 1] if at else 0
        if self._ledgers[at].ledger_id < position.ledger_id:
            return self._ends[at]
        return start + min(max(position.entry_id, 0), self._ledgers[at].last_entry_id + 1)

    def index(self, number: int) -> int | None:
        """Return the broker's index of an entry's last message; None if the entry has none.

        Raises:
            EntriesUnreadable: the entry is missing or damaged.
        """
        return self._entry(number).index

    def time_ms(self, number: int) -> int:
        """Return the time at which an entry was written: the broker's time, or the producer's if there is none.

        Raises:
            EntriesUnreadable: the entry is missing or damaged.
        """
        stamped = self._entry(number).broker_timestamp_ms
        return _signed(self.metadata(number).publish_time) if stamped is None else stamped

    def metadata(self, number: int) -> MessageMetadata:
        """Return the message metadata of an entry, after its checksum was compared.

        Raises:
            EntriesUnreadable: the entry is missing or damaged.
        """
        entry = self._entry(number)
        if entry.metadata is None:
            self.metadata_parsed_count += 1
            if not checksum_matches(entry.payload, entry.frame):
                raise self._unreadable(number, f"CRC32C of the message is not the stored {entry.frame.crc:08x}")
            try:
                entry.metadata = parse_message_metadata(entry.payload, entry.frame)
            except FrameInvalid as error:
                raise self._unreadable(number, error.message) from error
        return entry.metadata

    def pieces(self, start: int) -> Iterator[EntryColumns]:
        """Yield all entries from a number on, in growing pieces, so that looking ahead needs few reads.

        Raises:
            EntriesUnreadable: an entry is missing or damaged.
        """
        piece_entries = _PIECE_ENTRIES_MIN
        while start < self.entry_count:
            at, first = self._place(start)
            last = min(first + piece_entries - 1, self._ledgers[at].last_entry_id)
            columns = scan_entries(self._read(at, first, last).entries)
            for row, reason in columns.unreadable():
                raise self._unreadable(start + row, reason)
            yield columns
            start += last - first + 1
            piece_entries = min(2 * piece_entries, _PIECE_ENTRIES_MAX)

    def _entry(self, number: int) -> _SeenEntry:
        seen = self._seen.get(number)
        if seen is not None:
            self._seen.move_to_end(number)
            return seen
        at, entry_id = self._place(number)
        payload = self._read(at, entry_id, entry_id).entries.payload(0)
        try:
            frame = split_frame(payload)
            broker = parse_broker_metadata(payload, frame)
        except FrameInvalid as error:
            raise self._unreadable(number, error.message) from error
        stamped = broker is not None and broker.HasField("broker_timestamp")
        indexed = broker is not None and broker.HasField("index")
        entry = _SeenEntry(
            payload,
            frame,
            index=_signed(broker.index) if broker is not None and indexed else None,
            broker_timestamp_ms=_signed(broker.broker_timestamp) if broker is not None and stamped else None,
        )
        if len(payload) <= _CACHED_PAYLOAD_BYTES_MAX:
            self._seen[number] = entry
            if len(self._seen) > _CACHE_ENTRIES_MAX:
                self._seen.popitem(last=False)
        return entry

    def _read(self, at: int, first: int, last: int) -> LedgerEntries:
        found = self._ledgers[at].read(first, last)
        self.touched_count += last - first + 1
        if found.bad_entries:
            raise EntriesUnreadable(found.bad_entries)
        return found

    def _place(self, number: int) -> tuple[int, int]:
        """Return the index of the ledger that has an entry, and the entry's id there."""
        at = bisect_right(self._ends, number)
        return at, number - (self._ends[at - 1] if at else 0)

    def _behind_the_end(self) -> Position:
        ledgers = self.log.ledgers
        if not ledgers:
            return Position(-1, -1)
        # If a ledger is already open for the next entry, the next entry goes there, as in a broker.
        return Position(ledgers[-1].ledger_id, ledgers[-1].last_entry_id + 1)

    def _unreadable(self, number: int, reason: str) -> EntriesUnreadable:
        at, entry_id = self._place(number)
        return EntriesUnreadable([unreadable_entry(self._ledgers[at], entry_id, reason)])


def _signed(value: int) -> int:
    """Convert an unsigned 64-bit wire value to the signed value that Java reads."""
    return value - (1 << 64) if value >> 63 else value
