"""Membership of a tracker in parts: bitmaps by ledger, each part bounded in bytes and in the time that it takes.

A part is true of the moment when it is made. Nothing is copied ahead of it but the numbers of the ledgers.
"""

from typing import Final

import numpy as np

from delayed_tracker.core.index.membership import Membership
from delayed_tracker.core.values.columns import Int64Array

PART_BYTES: Final = 2**20
"""Bytes of a part, at most, with what a message needs around its bitmaps."""
LEDGERS_MAX: Final = 512
"""Ledgers of a part, at most: a small bitmap takes as long as 200 bytes of a large one."""
_ROOM_MIN: Final = PART_BYTES // 4
"""A part with less room left is complete: what fits would cut the next ledger into pieces that are too small."""
_CONTAINER_ENTRIES: Final = 1 << 16
_CONTAINER_HEADER_BYTES: Final = 2 * 4 + 1
"""Bytes of a container in the header of a portable bitmap: its key and size, its offset, and its run flag."""
_CONTAINER_BYTES: Final = 8_192 + _CONTAINER_HEADER_BYTES
"""Bytes of the largest container."""
_AROUND_BYTES: Final = 64
"""Bytes around the containers of a bitmap: its cookie, its field in the message, and its ledger."""


class MembershipReading:
    """Place of one reader in the membership of a tracker, by ledger and entry.

    Ledgers that are tracked later are not read.
    """

    __slots__ = ("_first_entry", "_ledgers", "_place")

    def __init__(self, ledger_ids: Int64Array) -> None:
        self._ledgers = np.sort(ledger_ids)
        self._place = 0
        self._first_entry = 0

    @property
    def is_over(self) -> bool:
        """True if every ledger was read."""
        return self._place == len(self._ledgers)

    def next_part(self, members: Membership) -> list[tuple[int, bytes]]:
        """Return the next entries that are tracked now, as (ledger id, portable bitmap), and move behind them.

        Ledgers ascend; one that has no room for all of its entries goes on in the next part, or, if it has large gaps,
        in the same one. A part may be empty before the reading is over. Cost: O(bytes), and O(buckets) for each ledger.
        """
        part: list[tuple[int, bytes]] = []
        room = PART_BYTES
        for _ in range(LEDGERS_MAX):
            if self.is_over or room < _ROOM_MIN:
                break
            ledger_id = int(self._ledgers[self._place])
            first = members.next_entry(ledger_id, self._first_entry)
            if first is None:
                self._next_ledger()
                continue
            last = members.last_entry(ledger_id)
            stop = _reach(members, ledger_id, first, last, room - _AROUND_BYTES)
            entries = members.entries_between(ledger_id, first, stop)
            entries.run_optimize()
            encoded = entries.serialize()
            part.append((ledger_id, encoded))
            room -= len(encoded) + _AROUND_BYTES
            self._first_entry = stop
            if last < stop:
                self._next_ledger()
        return part

    def _next_ledger(self) -> None:
        self._place += 1
        self._first_entry = 0


def _reach(members: Membership, ledger_id: int, first: int, last: int, room: int) -> int:
    """Return the end of a range of whole containers, from an entry on, whose bitmap certainly has room. O(containers)."""
    begin, containers = first // _CONTAINER_ENTRIES, room // _CONTAINER_BYTES
    while (stop := (begin + containers) * _CONTAINER_ENTRIES) <= last:
        # Sparse containers are lists, of two bytes for each entry.
        wider = 2 * containers
        count = members.count_between(ledger_id, first, (begin + wider) * _CONTAINER_ENTRIES)
        if min(count, wider) * _CONTAINER_HEADER_BYTES + 2 * count > room:
            break
        containers = wider
    return stop
