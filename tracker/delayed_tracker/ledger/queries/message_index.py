"""Finds the entry that holds the message with a given broker index (PIP-415).

The index in a broker frame is that of the entry's last message; the first index follows from the number of messages.
There are two modes: the rules of the proposal, and those of the broker that shipped. They differ if
    the message is...                        the proposal                      the shipped broker
    a system message (marker)                the next user message             the marker
    in the first entry, but not its last     that entry: it has not expired    EARLIEST
    in a topic whose first entry has none    as if that entry were not there   BrokerMetadataMissing
    beside entries that have none            the same                          takes those for later ones

Source: PIP-415; PersistentTopicsBase.java (internalGetMessageIDByIndexAsync).
"""

from enum import Enum
from itertools import chain
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.ledger.entry.entry_columns import EntryFlag
from delayed_tracker.ledger.errors import BrokerMetadataMissing, MessageIndexInvalid, MessageNotFound
from delayed_tracker.ledger.messages.message import MessageId
from delayed_tracker.ledger.queries.seek import newest_matching
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic.topic_log import TopicLog

EARLIEST: Final = BEFORE_ALL
"""Result for a message that expired and was deleted: read from the current start of the topic."""
_PROBES_MAX: Final = 16
"""Entries of a ledger of which one must have an index, or the ledger has none."""


class IndexLookupMode(Enum):
    """Rules of the lookup."""

    PROPOSAL = "proposal"
    """Rules of PIP-415."""
    PULSAR_COMPATIBLE = "pulsar-compatible"
    """Rules of Pulsar 4.2, for tools that rely on them."""


def get_message_id_by_index(
    log: TopicLog, index: int, *, mode: IndexLookupMode = IndexLookupMode.PROPOSAL
) -> MessageId:
    """Return the result of :func:`position_by_index` as the HTTP interface does: an entry, without a batch index."""
    return MessageId(*position_by_index(EntryLookup(log), index, mode=mode), partition=log.name.partition)


def position_by_index(lookup: EntryLookup, index: int, *, mode: IndexLookupMode = IndexLookupMode.PROPOSAL) -> Position:
    """Return the position of the entry that holds the message with an index.

    Args:
        lookup: the topic.
        index: index of any message, also inside a batch; counted from 0.
        mode: rules of the lookup.
    Returns: the entry's position, or EARLIEST for a message that expired and was deleted.
    Raises:
        MessageIndexInvalid: the index is negative.
        MessageNotFound: the index is above the topic's last, or only system messages follow.
        BrokerMetadataMissing: the entries have no index.
        EntriesUnreadable: an entry that the search needs is missing or damaged, so the result would be a guess.
    Cost: at most log2(entries) + 2 entries if all entries have an index, twice that if the entries of one part of the
        topic have none. More only for consecutive system messages (all of them), and for several parts without an index:
        2 entries of each ledger, 16 of each without an index at its ends, and all consecutive entries without an index
        between others that have one.
    """
    if index < 0:
        raise MessageIndexInvalid(index)
    if not lookup.entry_count:
        raise MessageNotFound(str(lookup.log.name), None)
    if mode is IndexLookupMode.PULSAR_COMPATIBLE:
        number = _shipped_answer(lookup, index)
    else:
        number = _proposed_answer(lookup, index)
    return EARLIEST if number is None else lookup.position(number)


def _shipped_answer(lookup: EntryLookup, index: int) -> int | None:
    first_index = lookup.index(0)
    if first_index is None:
        raise BrokerMetadataMissing(str(lookup.log.name))
    if index < first_index:
        return None

    def lower(number: int) -> bool:
        found = lookup.index(number)
        return found is not None and found < index

    earlier = newest_matching(lookup.searchable_count, lower)
    number = 0 if earlier is None else earlier + 1
    if number == lookup.entry_count:
        raise MessageNotFound(str(lookup.log.name), index)
    return number


def _proposed_answer(lookup: EntryLookup, index: int) -> int | None:
    number = _IndexSearch(lookup, index).find()
    if number is None or not lookup.metadata(number).HasField("marker_type"):
        return number
    number += 1
    for columns in lookup.pieces(number):
        user_messages = np.flatnonzero(~columns.has(EntryFlag.MARKER))
        if len(user_messages):
            return number + int(user_messages[0])
        number += len(columns)
    raise MessageNotFound(str(lookup.log.name), index)


class _IndexSearch:
    """Search for the first entry whose index is not below the wanted one, among entries that may have no index.

    A broker starts or stops to write indexes only after a restart, and then into a new ledger. So entries without an
    index come as runs of whole ledgers. Such an entry does not show in which direction to continue, and a search that
    guesses may miss the result. But a result can be verified: by the entry before it, or because it contains the wanted
    message. So the search first tries two guesses (entries without an index are the oldest; they are the newest), and
    searches ledger by ledger only if neither result can be verified.
    """

    def __init__(self, lookup: EntryLookup, index: int) -> None:
        self._lookup = lookup
        self._index = index
        self._start = 0
        """All entries before this one are ruled out."""
        self._without_index: list[int] = []
        """Entries without an index that the search read, in reading order."""

    def find(self) -> int | None:
        """Return the number of the entry; None for a message that expired.

        Raises:
            MessageNotFound: the index is above the last.
            BrokerMetadataMissing: no entry has an index.
        """
        number = self._first_not_lower(0, self._lookup.searchable_count, without_index_is_lower=True)
        if self._is_proven(number):
            return self._answer(number, is_first=number == 0)
        nearest = next(without for without in self._without_index if without >= self._start)
        doubtful = self._first_not_lower(self._start, nearest, without_index_is_lower=False)
        if self._lookup.index(doubtful) is not None:
            return self._answer(doubtful, is_first=doubtful == 0)
        return self._ledger_by_ledger(doubtful, number)

    def _first_not_lower(self, start: int, stop: int, *, without_index_is_lower: bool) -> int:
        """Return the first entry in ``start`` to ``stop`` - 1 that is not lower, by binary search; ``stop`` if none."""
        while start < stop:
            middle = (start + stop) // 2
            found = self._lookup.index(middle)
            if found is None:
                self._without_index.append(middle)
            elif found < self._index:
                self._start = middle + 1
            if without_index_is_lower if found is None else found < self._index:
                start = middle + 1
            else:
                stop = middle
        return start

    def _is_proven(self, number: int) -> bool:
        """Return True if no entry before the result of the first guess can be the right one."""
        if number == 0 or self._lookup.index(number - 1) is not None:
            return True
        return number < self._lookup.entry_count and self._first_message(number) <= self._index

    def _ledger_by_ledger(self, start: int, stop: int) -> int | None:
        """Return the exact result, if all entries before ``start`` are lower and the result is at most ``stop``.

        Cost: ``_PROBES_MAX`` entries of each ledger in between that has no index, and usually one of each other.
        """
        is_first = start == 0
        starts = self._lookup.ledger_starts
        for ledger_start, ledger_stop in zip(starts, [*starts[1:], self._lookup.entry_count], strict=True):
            first, behind = max(ledger_start, start), min(ledger_stop, stop)
            if first >= behind or not self._has_indexes(ledger_start, ledger_stop):
                continue
            number = self._first_not_lower_in_ledger(first, behind)
            indexed = self._next_indexed(first, number)
            if number < behind:
                return self._answer(number, is_first=is_first and indexed == number)
            is_first = is_first and indexed == behind
        if is_first and stop == self._lookup.entry_count:
            raise BrokerMetadataMissing(str(self._lookup.log.name))
        return self._answer(stop, is_first=is_first)

    def _has_indexes(self, ledger_start: int, ledger_stop: int) -> bool:
        """Return True if one of a few entries of a ledger has an index: its ends, or some spread evenly in between."""
        # Single entries without an index may also be at both ends. The ends come first, as they usually decide.
        gaps = min(ledger_stop - ledger_start, _PROBES_MAX) - 1
        inside = (ledger_start + (ledger_stop - 1 - ledger_start) * at // gaps for at in range(1, gaps))
        probes = chain((ledger_start, ledger_stop - 1), inside)
        return any(self._lookup.index(number) is not None for number in probes)

    def _first_not_lower_in_ledger(self, start: int, stop: int) -> int:
        """Search as :meth:`_first_not_lower`, but skip single entries without an index, which hold no message."""
        number = stop
        while start < stop:
            middle = (start + stop) // 2
            indexed = self._next_indexed(middle, stop)
            found = self._lookup.index(indexed) if indexed < stop else None
            if found is not None and found < self._index:
                start = indexed + 1
            else:
                number = number if found is None else indexed
                stop = middle
        return number

    def _next_indexed(self, number: int, stop: int) -> int:
        """Return the first entry from a number on that has an index; ``stop`` if there is none before it."""
        while number < stop and self._lookup.index(number) is None:
            number += 1
        return number

    def _answer(self, number: int, *, is_first: bool) -> int | None:
        """Return the result; None if it is the first entry with an index and the message was before it."""
        if number == self._lookup.entry_count:
            raise MessageNotFound(str(self._lookup.log.name), self._index)
        return None if is_first and self._index < self._first_message(number) else number

    def _first_message(self, number: int) -> int:
        """Return the index of an entry's first message."""
        last = self._lookup.index(number)
        assert last is not None
        metadata = self._lookup.metadata(number)
        # The batch of a transaction counts as one message. An entry with half a transaction id is in no transaction.
        in_transaction = metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits")
        counts_as_many = metadata.num_messages_in_batch > 1 and not in_transaction
        return last - metadata.num_messages_in_batch + 1 if counts_as_many else last
