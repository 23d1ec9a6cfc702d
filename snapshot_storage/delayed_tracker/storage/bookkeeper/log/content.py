"""Content of one instance's log: where each tracker's records are, in which ledgers and entries. Pure.

It is filled by the items of the ledgers in order, when they are written and when they are read back, so that both give the
same content.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from delayed_tracker.storage.bookkeeper.log.entries import Cut, Defined, Item, Piece, Records

TrackerName: TypeAlias = tuple[str, str]
"""Topic and cursor."""


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive records of a tracker that came with one item, or one record in pieces."""

    first_number: int
    last_number: int
    ledger_id: int
    first_entry: int
    last_entry: int
    record_bytes: int
    """Bytes of all records of the part."""


@dataclass(slots=True)
class TrackerContent:
    """Records of one tracker."""

    last_number: int = 0
    cut_through: int = 0
    parts: list[Part] = field(default_factory=list)
    """Ascending; those that are cut are dropped."""
    piece_from: tuple[int, int] | None = None
    """Ledger and entry where the record began whose pieces are arriving."""

    @property
    def record_bytes(self) -> int:
        """Bytes of the parts that are not cut; a part that is cut in part counts whole."""
        return sum(part.record_bytes for part in self.parts)


class LogContent:
    """Trackers of one log, and which of its ledgers are needed."""

    def __init__(self) -> None:
        self.trackers: dict[TrackerName, TrackerContent] = {}
        self.is_damaged = False
        """True if entries could not be read: any tracker may have had records there."""
        self.record_bytes = 0
        """Bytes of the parts of all trackers."""
        self._ordinals: dict[int, dict[int, TrackerName]] = {}
        self._defined: dict[TrackerName, tuple[int, int]] = {}
        self._part_counts: dict[int, int] = {}

    def ordinal_of(self, ledger_id: int, name: TrackerName) -> int | None:
        """Return the ordinal that a tracker has in the ledger that is being written; None if it has none there."""
        defined_in, ordinal = self._defined.get(name, (-1, -1))
        return ordinal if defined_in == ledger_id else None

    def name_of(self, ledger_id: int, item: Item) -> TrackerName | None:
        """Return the tracker of an item of a ledger."""
        return self._ordinals.get(ledger_id, {}).get(item.ordinal)

    def next_ordinal(self, ledger_id: int) -> int:
        """Return an ordinal that no tracker has in a ledger."""
        return len(self._ordinals.get(ledger_id, ()))

    def ordinal_for(self, ledger_id: int, name: TrackerName) -> int:
        """Return the ordinal that a tracker has in the ledger that is being written, or the one to define it with."""
        ordinal = self.ordinal_of(ledger_id, name)
        return self.next_ordinal(ledger_id) if ordinal is None else ordinal

    def begin(self, ledger_id: int) -> None:
        """Take notice of a ledger, newer than all others."""
        self._ordinals[ledger_id] = {}
        self._part_counts[ledger_id] = 0

    def apply(self, ledger_id: int, entry_id: int, items: Sequence[Item]) -> None:
        """Take the items of an entry, the next one of its ledger."""
        for item in items:
            if isinstance(item, Defined):
                self._define(ledger_id, item)
                continue
            name = self._ordinals[ledger_id].get(item.ordinal)
            if name is None:
                self.is_damaged = True  # its definition was in an entry that could not be read
                continue
            tracker = self.trackers[name]
            match item:
                case Records():
                    size = sum(map(len, item.records))
                    self._add(tracker, Part(item.first_number, item.last_number, ledger_id, entry_id, entry_id, size))
                case Piece():
                    self._add_piece(tracker, ledger_id, entry_id, item)
                case Cut():
                    self._cut(tracker, item.through)

    def _define(self, ledger_id: int, item: Defined) -> None:
        name = (item.topic, item.cursor)
        self._ordinals[ledger_id][item.ordinal] = name
        self._defined[name] = (ledger_id, item.ordinal)
        tracker = self.trackers.get(name)
        if tracker is not None and item.is_fresh:
            self._cut(tracker, tracker.last_number)
            tracker = None
        if tracker is None:
            tracker = self.trackers[name] = TrackerContent(item.last_number, item.cut_through)
        tracker.last_number = max(tracker.last_number, item.last_number)
        self._cut(tracker, item.cut_through)

    def _add_piece(self, tracker: TrackerContent, ledger_id: int, entry_id: int, item: Piece) -> None:
        if item.offset == 0:
            tracker.piece_from = (ledger_id, entry_id)
        if item.is_last and tracker.piece_from is not None:
            began_in, first_entry = tracker.piece_from
            tracker.piece_from = None
            if began_in == ledger_id:
                part = Part(item.number, item.number, ledger_id, first_entry, entry_id, item.record_bytes)
                self._add(tracker, part)

    def _add(self, tracker: TrackerContent, part: Part) -> None:
        if part.first_number > tracker.last_number:
            tracker.parts.append(part)
            tracker.last_number = part.last_number
            self._count(part, 1)
        elif part.last_number > tracker.cut_through:
            self._add_again(tracker, part)

    def _add_again(self, tracker: TrackerContent, part: Part) -> None:
        """Take the copy of a part that was rewritten, so that its former ledger is not needed, or is gone already."""
        at = _place(tracker, part)
        after = tracker.parts[at] if at < len(tracker.parts) else None
        if after is not None and (after.first_number, after.last_number) == (part.first_number, part.last_number):
            self._count(after, -1)
            tracker.parts[at] = part
        elif (after is None or after.first_number > part.last_number) and (
            at == 0 or tracker.parts[at - 1].last_number < part.first_number
        ):
            tracker.parts.insert(at, part)
        else:
            return  # some of its records are in other parts
        self._count(part, 1)

    def _count(self, part: Part, sign: int) -> None:
        self._part_counts[part.ledger_id] += sign
        self.record_bytes += sign * part.record_bytes

    def _cut(self, tracker: TrackerContent, through: int) -> None:
        tracker.cut_through = max(tracker.cut_through, min(through, tracker.last_number))
        kept = [part for part in tracker.parts if part.last_number > tracker.cut_through]
        for part in tracker.parts[: len(tracker.parts) - len(kept)]:
            self._count(part, -1)
        tracker.parts = kept

    def drop(self, name: TrackerName) -> None:
        """Forget a tracker that another instance has."""
        tracker = self.trackers.pop(name, None)
        if tracker is not None:
            self._cut(tracker, tracker.last_number)
        self._defined.pop(name, None)

    def restore(self, name: TrackerName, tracker: TrackerContent) -> None:
        """Take back a tracker that was dropped, and whose records are still in these ledgers."""
        if name in self.trackers:
            return
        self.trackers[name] = TrackerContent(tracker.last_number, tracker.cut_through, list(tracker.parts))
        for part in tracker.parts:
            self._count(part, 1)

    @property
    def ledgers(self) -> list[int]:
        """Ledgers of the log, oldest first."""
        return list(self._part_counts)

    def parts_in(self, ledger_id: int) -> list[tuple[TrackerName, Part]]:
        """Return what is needed of a ledger, in the order of its entries."""
        found = ((name, part) for name, each in self.trackers.items() for part in each.parts)
        return sorted((each for each in found if each[1].ledger_id == ledger_id), key=lambda each: each[1].first_entry)

    def needs(self, name: TrackerName, part: Part) -> bool:
        """Return True if a tracker still has a part, in the same ledger."""
        tracker = self.trackers.get(name)
        if tracker is None:
            return False
        at = _place(tracker, part)
        return at < len(tracker.parts) and tracker.parts[at] == part

    def lose(self, name: TrackerName, part: Part) -> None:
        """Drop a needed part that cannot be read any more: its numbers stay, and say that records are missing."""
        tracker = self.trackers[name]
        del tracker.parts[_place(tracker, part)]
        self._count(part, -1)

    def unneeded_ledgers(self, current: int | None) -> list[int]:
        """Return the ledgers, oldest first, that no record needs, up to the first that one does."""
        found = []
        for ledger_id, count in self._part_counts.items():
            if count or ledger_id == current:
                break
            found.append(ledger_id)
        return found

    def only_defined_in(self, ledger_id: int) -> list[TrackerName]:
        """Return the trackers that no newer ledger defines: their numbers would be lost with it."""
        return [name for name, (defined_in, _) in self._defined.items() if defined_in == ledger_id]

    def end(self, ledger_id: int) -> None:
        """Forget a ledger that was deleted."""
        del self._part_counts[ledger_id]
        del self._ordinals[ledger_id]


def _place(tracker: TrackerContent, part: Part) -> int:
    """Return the index of the first part of a tracker that begins at or above the beginning of another one."""
    return bisect_left(tracker.parts, part.first_number, key=attrgetter("first_number"))
