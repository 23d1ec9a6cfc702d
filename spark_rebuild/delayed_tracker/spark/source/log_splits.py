"""Entry logs divided among tasks: each stretch of a log is read once, with all ledgers in it.

The plan assigns each entry to one piece, the first that has a copy. If that copy is damaged, the task searches the
other pieces with the entry, which the plan lists.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyroaring import BitMap
from pyspark.sql.datasource import InputPartition

from delayed_tracker.ledger.bookkeeper.entry_logs import gaps, missing_entries
from delayed_tracker.ledger.bookkeeper.log_inventory import LogInventory, LogPiece
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from delayed_tracker.ledger.topic.topic_reader import LedgerSpan


@dataclass(frozen=True, slots=True)
class LoggedSpan:
    """Ledger of a topic that is read from entry logs."""

    topic: str
    span: LedgerSpan


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a log."""

    file: Path
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Share:
    """Entries that a task takes from a piece of a log."""

    start: int
    end: int
    entries: Mapping[int, BitMap | None]
    """Entry ids by ledger; None selects all entries of the ledger in the piece, whose ids an entry can have."""


@dataclass
class LogPart(InputPartition):
    """Pieces of one log for one task."""

    file: Path
    shares: tuple[Share, ...]
    ledgers: Mapping[int, tuple[str, LedgerDigest]]
    """Topic and digest of each ledger."""
    copies: Mapping[int, tuple[Stretch, ...]]
    """Pieces with further copies of some entries, by ledger."""


@dataclass(slots=True)
class LogPlan:
    """Assignment of entries to tasks."""

    parts: list[LogPart]
    missing: list[tuple[str, BadEntry]]
    """Entries that no log has, with their topics."""


def plan_logs(inventory: LogInventory, spans: Mapping[int, LoggedSpan], part_bytes: int) -> LogPlan:
    """Assign each entry to a piece, and group the pieces.

    Args:
        inventory: of all logs.
        spans: the wanted ledgers, by id.
        part_bytes: approximate bytes of a log that a task reads.
    Returns: parts with pieces of one log each, in order. An archived log is one part, because it can only be read from
        its beginning.
    Cost: O(pieces and ledgers in each), and the entries of ledgers that lack some.
    """
    given: dict[int, dict[int, BitMap | None]] = defaultdict(dict)
    copies: dict[int, list[LogPiece]] = defaultdict(list)
    missing: list[tuple[str, BadEntry]] = []
    for ledger_id, logged in spans.items():
        wanted = BitMap(range(logged.span.last_entry_id + 1))
        left = wanted.copy()
        for piece in inventory.holders(ledger_id):
            has = piece.entries[ledger_id]
            first_copies = has & left
            if first_copies:
                given[id(piece)][ledger_id] = None if len(first_copies) == len(has) else first_copies
                left -= first_copies
            if len(has & wanted) > len(first_copies):
                copies[ledger_id].append(piece)
        if left:
            # From the entries that are there: metadata may claim four billion that are not.
            present = np.array((wanted - left).to_array(), np.int64)
            lacking = gaps(present, 0, logged.span.last_entry_id)
            missing += (
                (logged.topic, bad)
                for bad in missing_entries(ledger_id, lacking, truncated=inventory.truncated, damage=inventory.damage)
            )
    places = {
        ledger_id: tuple(Stretch(inventory.files[piece.file_no], piece.start, piece.end) for piece in pieces)
        for ledger_id, pieces in copies.items()
    }
    parts = [
        LogPart(
            inventory.files[group[0].file_no],
            tuple(Share(piece.start, piece.end, given[id(piece)]) for piece in group),
            {
                ledger_id: (spans[ledger_id].topic, spans[ledger_id].span.digest)
                for piece in group
                for ledger_id in given[id(piece)]
            },
            {ledger_id: places[ledger_id] for piece in group for ledger_id in given[id(piece)] if ledger_id in places},
        )
        for group in _grouped(inventory, given, part_bytes)
    ]
    return LogPlan(parts, missing)


def _grouped(
    inventory: LogInventory, given: Mapping[int, Mapping[int, BitMap | None]], part_bytes: int
) -> Iterator[list[LogPiece]]:
    """Yield the pieces that have assigned entries, grouped by log and number of bytes."""
    group: list[LogPiece] = []
    size_bytes = 0
    for piece in inventory.pieces:
        if id(piece) not in given:
            continue
        archived = inventory.files[piece.file_no].suffix == ".gz"
        full = not archived and size_bytes + piece.end - piece.start > part_bytes
        if group and (full or group[0].file_no != piece.file_no):
            yield group
            group, size_bytes = [], 0
        group.append(piece)
        size_bytes += piece.end - piece.start
    if group:
        yield group
