"""Records of trackers in the entries of a log's ledgers: how they are read, and which items a commit of them needs."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from delayed_tracker.storage.add_log import LogAppend, LoggedRecord
from delayed_tracker.storage.bookkeeper.log.content import LogContent, Part, TrackerContent, TrackerName
from delayed_tracker.storage.bookkeeper.log.entries import Cut, Item, Piece, Records
from delayed_tracker.storage.bookkeeper.log.ledgers import LogLedgers
from delayed_tracker.storage.bookkeeper.log.own_log import OwnLog


async def read_records(
    ledgers: LogLedgers, name: TrackerName, content: LogContent, tracker: TrackerContent, *, after: int
) -> AsyncIterator[LoggedRecord]:
    """Yield the records of a tracker above a number in order, as far as they can be read.

    Args:
        ledgers: of all logs.
        name: of the tracker.
        content: of the log that has its records.
        tracker: its part of that content.
        after: number above which records are wanted.
    """
    for part in tuple(tracker.parts):
        if part.last_number <= after:
            continue
        entries = await ledgers.items(part.ledger_id, part.first_entry, part.last_entry)
        items = [item for entry in entries for item in entry or () if content.name_of(part.ledger_id, item) == name]
        for record in records_of(part, items):
            if record.number > after:
                yield record


def records_of(part: Part, items: Sequence[Item]) -> Iterator[LoggedRecord]:
    """Yield the records of a part from the items that its tracker has in its entries.

    A record in pieces is left out unless all of them are there.
    """
    pieces: list[bytes] = []
    for item in items:
        if isinstance(item, Records) and item.first_number == part.first_number:
            yield from map(LoggedRecord, range(item.first_number, item.first_number + len(item.records)), item.records)
        elif isinstance(item, Piece) and item.number == part.first_number:
            pieces.append(item.content)
    if pieces and sum(map(len, pieces)) == part.record_bytes:
        yield LoggedRecord(part.first_number, b"".join(pieces))


def record_items(own: OwnLog, ledger_id: int, new: Mapping[TrackerName, Sequence[LoggedRecord]]) -> list[Item]:
    """Return the items that add records of several trackers, with the ordinals that they need in a ledger."""
    items, ordinals = own.with_ordinals(ledger_id, list(new))
    for name, records in new.items():
        items += [Records(ordinals[name], first, tuple(octets)) for first, octets in _runs(records)]
    return items


def cut_items(own: OwnLog, ledger_id: int, cuts: Sequence[tuple[TrackerName, int]]) -> list[Item]:
    """Return the items that cut records of several trackers up to a number, where that changes anything."""
    trackers = own.content.trackers
    wanted = {
        name: min(through, trackers[name].last_number)
        for name, through in cuts
        if name in trackers and through > trackers[name].cut_through < trackers[name].last_number
    }
    items, ordinals = own.with_ordinals(ledger_id, list(wanted))
    return [*items, *(Cut(ordinals[name], through) for name, through in wanted.items())]


def unwritten(part: LogAppend, tracker: TrackerContent) -> list[LoggedRecord]:
    """Return the records of a part that are not on record."""
    skipped = max(tracker.last_number + 1 - part.first_number, 0)
    return [
        LoggedRecord(number, octets)
        for number, octets in enumerate(part.records[skipped:], part.first_number + skipped)
    ]


def _runs(records: Sequence[LoggedRecord]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the first number and the contents of each run of consecutive records."""
    first = 0
    octets: list[bytes] = []
    for record in records:
        if octets and record.number != first + len(octets):
            yield first, octets
            octets = []
        if not octets:
            first = record.number
        octets.append(record.record)
    if octets:
        yield first, octets
