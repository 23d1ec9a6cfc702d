"""Reads the ledgers of a topic and of its cursors and buckets, up to their ends.

A closed ledger ends where its metadata says, or where the topic recorded. If neither gives the end, there are two ways
to read it. As live, reading stops at the last entry that some writer knew to be acknowledged. As recovered, reading goes
on while the next entry is on any of the disks, because ledger recovery would add it again. This module only reads files;
it does not recover or fence ledgers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from delayed_tracker.ledger.entry.entry_columns import EntryColumns, scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry, EntriesUnreadable, ErrorPolicy, MetadataInvalid
from delayed_tracker.ledger.metadata.cursor import NO_LEDGER, CursorState, cursor_state
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from delayed_tracker.ledger.metadata.ledger_metadata import LedgerState
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue, parse_cursor_entry
from delayed_tracker.ledger.topic.ledger_logs import LedgerLogs
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb

_CURSOR_ATTEMPTS: Final = 3
_CURSOR_ENTRIES_MAX: Final = 4_096
"""Entries of a cursor's ledger that are searched for its newest state: metadata may claim four billion."""
_CURSOR_ENTRIES_AT_ONCE: Final = 64


class OpenLedgers(StrEnum):
    """Ways to read a ledger that was never closed, as far as the metadata say."""

    LIVE = "live"
    """A writer may be alive: stop at the last entry known to be acknowledged."""
    RECOVERED = "recovered"
    """No writer is alive and the disks of all bookies are available: go on while one of them has the next entry."""


@dataclass(frozen=True, slots=True)
class LedgerSpan:
    """One ledger and its last entry."""

    ledger_id: int
    last_entry_id: int
    """-1 if the ledger is empty."""
    end_known: bool
    """True if metadata gives the end; otherwise it is taken from the logs."""
    state: LedgerState | None
    """None if BookKeeper's metadata of the ledger is gone."""
    digest: LedgerDigest

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        return self.last_entry_id + 1


@dataclass(frozen=True, slots=True)
class LedgerRead:
    """Columns of the entries of one ledger."""

    span: LedgerSpan
    columns: EntryColumns
    """Ascending by entry. Entries without an undamaged record have no row; damaged messages have a verdict."""
    bad_entries: tuple[BadEntry, ...]
    """All entries of the span that cannot be used."""


@dataclass(frozen=True, slots=True)
class CursorRead:
    """State of a subscription, and the entries that were skipped to find it."""

    state: CursorState
    bad_entries: tuple[BadEntry, ...]


class TopicReader:
    """Reader of ledgers from entry logs, bounded by metadata."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        logs: LedgerLogs,
        open_ledgers: OpenLedgers,
        *,
        open_cursors: OpenLedgers | None = None,
    ) -> None:
        """Take the parts.

        Args:
            catalogue: metadata.
            logs: entries.
            open_ledgers: how to read ledgers that were never closed.
            open_cursors: how to read such ledgers of cursors; None for the same way. A cursor's last entry is its newest
                state, even before the writer knows that it is acknowledged.
        """
        self.catalogue = catalogue
        self.logs = logs
        self.open_ledgers = open_ledgers
        self.open_cursors = open_cursors or open_ledgers

    def span(
        self, ledger_id: int, *, entry_count: int | None = None, open_ledgers: OpenLedgers | None = None
    ) -> LedgerSpan:
        """Return the span of a ledger, with its last entry.

        Args:
            ledger_id: any id.
            entry_count: entries that the topic recorded when it ended the ledger; used if the ledger's own metadata does
                not give the end, or is gone.
            open_ledgers: how to read the ledger if it was never closed; None for the way of this reader.
        Raises:
            MetadataInvalid: BookKeeper's metadata of the ledger is damaged or of an unknown version.
            EntriesUnreadable: the bookies of a ledger that was never closed do not answer.
        """
        metadata = self.catalogue.ledger(ledger_id)
        digest = LedgerDigest.of(metadata)
        state = None if metadata is None else metadata.state
        if metadata is not None and metadata.closed:
            return LedgerSpan(ledger_id, metadata.last_entry_id, end_known=True, state=state, digest=digest)
        if entry_count is not None:
            # The topic ends a ledger only after its last entry was acknowledged. The ledger's own metadata may be older:
            # a dump of a running cluster may have it from before.
            return LedgerSpan(ledger_id, entry_count - 1, end_known=True, state=state, digest=digest)
        last = self.logs.last_add_confirmed(ledger_id, digest)
        if metadata is not None and metadata.segments:
            # A new ensemble starts only after everything before it was acknowledged.
            last = max(last, metadata.segments[-1][0] - 1)
        if (open_ledgers or self.open_ledgers) is OpenLedgers.RECOVERED:
            last = self.logs.last_contiguous_entry(ledger_id, last)
        return LedgerSpan(ledger_id, last, end_known=False, state=state, digest=digest)

    def topic_spans(self, topic: TopicName) -> list[LedgerSpan]:
        """Return the ledgers of a topic in message order, with their last entries.

        Raises:
            TopicNotFound: there is no such topic.
            MetadataInvalid: metadata of the topic or of a ledger is damaged.
        """
        ledgers = self.catalogue.managed_ledger(topic).ledgers
        return [self.span(ledger.ledger_id, entry_count=ledger.entry_count) for ledger in ledgers]

    def read(self, spans: Sequence[LedgerSpan], *, on_error: ErrorPolicy) -> Iterator[LedgerRead]:
        """Read the ledgers of the given spans one by one, each on demand and at once.

        Raises:
            EntriesUnreadable: entries are missing or damaged and the policy is to fail.
        Cost: O(bytes) time; memory for one ledger.
        """
        return (self._read(span, self._stored(span), on_error) for span in spans)

    def scan(self, spans: Sequence[LedgerSpan], *, on_error: ErrorPolicy) -> Iterator[LedgerRead]:
        """Read the same entries in pieces of about 4 MB, ascending, each of one ledger.

        Raises:
            EntriesUnreadable: entries are missing or damaged and the policy is to fail.
        Cost: O(bytes) time; memory for one piece.
        """
        for span in spans:
            doubts = self._doubts(span)
            if doubts:
                nothing = StoredEntries.of(span.ledger_id, [], [])
                yield self._read(span, LedgerEntries(nothing, doubts), on_error)
            for piece in self.logs.scan(span.ledger_id, 0, span.last_entry_id, span.digest):
                yield self._read(span, piece, on_error)

    def _read(self, span: LedgerSpan, stored: LedgerEntries, on_error: ErrorPolicy) -> LedgerRead:
        columns = scan_entries(stored.entries)
        bad = [*stored.bad_entries]
        bad += (
            self._bad(span.ledger_id, int(stored.entries.entry_id[row]), reason) for row, reason in columns.unreadable()
        )
        if bad and on_error is ErrorPolicy.FAIL:
            raise EntriesUnreadable(bad)
        return LedgerRead(span, columns, tuple(bad))

    def _bad(self, ledger_id: int, entry_id: int, reason: str) -> BadEntry:
        """Return an entry as bad, with its place if there is one."""
        file, offset = self.logs.locate(ledger_id, entry_id) or (None, None)
        return BadEntry(ledger_id, entry_id, None if file is None else str(file), offset, reason)

    def payloads(self, span: LedgerSpan) -> list[bytes]:
        """Return all payloads of a ledger that is not a topic's, but a cursor's or a bucket's.

        Raises:
            EntriesUnreadable: entries are missing or damaged.
        """
        stored = self._stored(span)
        if stored.bad_entries:
            raise EntriesUnreadable(stored.bad_entries)
        return [stored.entries.payload(row) for row in range(len(stored.entries))]

    def cursor(
        self, topic: TopicName, subscription: str, spans: Sequence[LedgerSpan], *, on_error: ErrorPolicy
    ) -> CursorRead:
        """Read a subscription's state, from the metadata or from the cursor's ledger.

        Args:
            topic: an existing topic.
            subscription: its plain name.
            spans: spans of the topic's ledgers.
            on_error: SKIP uses the newest readable state or, without any, the stale position in the metadata, as Pulsar
                does. Messages that were acknowledged since then are pending again.
        Raises:
            SubscriptionNotFound: the topic has no such subscription.
            MetadataInvalid: the cursor's metadata is damaged.
            EntriesUnreadable: the cursor's ledger is gone, or its last entry is missing or damaged, and the policy is
                to fail.
        """
        info = self.catalogue.cursor(topic, subscription)
        state_entry, bad = self._state_entry(info.cursors_ledger_id, on_error)
        for _ in range(_CURSOR_ATTEMPTS - 1):
            # A running broker may have moved the cursor to another ledger meanwhile, and deleted this one.
            newer = self.catalogue.cursor(topic, subscription) if bad else info
            if newer == info:
                break
            info = newer
            state_entry, bad = self._state_entry(info.cursors_ledger_id, on_error)
        if bad and on_error is ErrorPolicy.FAIL:
            raise EntriesUnreadable(bad)
        last_entry_ids = {span.ledger_id: span.last_entry_id for span in spans}
        try:
            return CursorRead(cursor_state(info, state_entry, last_entry_ids), tuple(bad))
        except MetadataInvalid as error:
            raise MetadataInvalid(f"cursor {subscription!r} of {topic}: {error.message}") from error

    def _state_entry(self, ledger_id: int, on_error: ErrorPolicy) -> tuple[pb.PositionInfo | None, list[BadEntry]]:
        """Return the newest readable entry of a cursor's ledger (None without any), and all newer bad entries."""
        if ledger_id == NO_LEDGER:
            return None, []
        try:
            span = self.span(ledger_id, open_ledgers=self.open_cursors)
        except EntriesUnreadable as error:
            return None, list(error.bad_entries)
        # Pulsar names a ledger in the cursor after it stored the first entry, so an open ledger has at least entry 0.
        last_entry_id = span.last_entry_id if span.end_known else max(span.last_entry_id, 0)
        bad: list[BadEntry] = []
        if span.state is None:
            reason = "it holds a cursor's state, and BookKeeper's metadata of it is gone"
            bad.append(BadEntry(ledger_id, None, None, None, reason))
            # Records of a deleted ledger may be left from before the cursor was reset.
            last_entry_id = -1
        end, lowest, count = last_entry_id + 1, max(last_entry_id + 1 - _CURSOR_ENTRIES_MAX, 0), 1
        while end > lowest:
            first = max(end - count, lowest)
            state_entry, unreadable = self._newest_state(span, first, end - 1)
            bad += unreadable
            if state_entry is not None or on_error is ErrorPolicy.FAIL:
                return state_entry, bad
            end, count = first, min(2 * count, _CURSOR_ENTRIES_AT_ONCE)
        if lowest:
            reason = f"not searched, since none of the {_CURSOR_ENTRIES_MAX} entries behind can be read"
            bad.append(BadEntry(ledger_id, 0, None, None, reason, entry_count=lowest))
        return None, bad

    def _newest_state(self, span: LedgerSpan, first: int, last: int) -> tuple[pb.PositionInfo | None, list[BadEntry]]:
        """Return the newest readable entry of a range (None without any), and the bad entries behind it."""
        stored = self.logs.read(span.ledger_id, first, last, span.digest)
        bad = list(stored.bad_entries)
        for row in np.argsort(stored.entries.entry_id)[::-1].tolist():
            entry_id = int(stored.entries.entry_id[row])
            try:
                state_entry = parse_cursor_entry(stored.entries.payload(row))
            except MetadataInvalid as error:
                bad.append(self._bad(span.ledger_id, entry_id, error.message))
                continue
            return state_entry, [one for one in bad if one.entry_id is None or one.entry_id > entry_id]
        return None, bad

    def _stored(self, span: LedgerSpan) -> LedgerEntries:
        stored = self.logs.read(span.ledger_id, 0, span.last_entry_id, span.digest)
        return LedgerEntries(stored.entries, (*self._doubts(span), *stored.bad_entries))

    def _doubts(self, span: LedgerSpan) -> tuple[BadEntry, ...]:
        """Return what may hide entries of a ledger whose end no metadata give."""
        if span.end_known:
            return ()
        gone = BadEntry(span.ledger_id, None, None, None, "BookKeeper's metadata of it is gone")
        # The entries behind a damaged stretch may have belonged to this ledger, and would not be missed.
        return (*((gone,) if span.state is None else ()), *self.logs.damage)
