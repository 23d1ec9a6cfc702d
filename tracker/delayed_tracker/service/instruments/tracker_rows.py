"""The numbers of all trackers, a row each, kept as they were when somebody last looked.

A step of a tracker only says that it has changed. Whoever scrapes reads those again that have, and those in which
something has become due meanwhile; ten thousand that are idle cost nothing. A row is read between two steps, so what
belongs together in it is of one moment.

The first trackers have series with labels of their own, up to a limit; of all others there is the sum.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np

from delayed_tracker.core.inspect.numbers import EVENTS, MOMENTS, NONE_MS, NUMBERS
from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.service.clock import Clock
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.instruments.bucket_operations import EffectAccount
from delayed_tracker.service.instruments.histogram import Histogram

UNLOADED: Final = "unloaded"
COLUMNS: Final = (*NUMBERS, UNLOADED)
"""What there is of each tracker, and their sum of all."""

READ_MS_MAX: Final = 2.0
"""Reading gives the event loop its turn this often."""
_READ_AT_ONCE: Final = 16
_ROWS_MIN: Final = 64
_SLACK: Final = 16
"""A share of so much is added when there is no room: ten thousand trackers are not to pay for twenty thousand."""
NO_ROW: Final = -1

_PLACE = {name: place for place, name in enumerate(COLUMNS)}
_MOMENTS: Final = [_PLACE[name] for name in MOMENTS]
_RISING: Final = slice(_PLACE[EVENTS[0]], _PLACE[UNLOADED])
_CAME: Final = [EVENTS.index(name) for name in ("added", "recovered")]
_WENT: Final = [
    EVENTS.index(name)
    for name in ("acked", "handed_off", "cancelled", "trimmed", "cleared", "refused_as_due", "dropped_as_corrupt")
]


class Counted(Protocol):
    """A tracker, as far as it is counted; told apart by identity."""

    key: TrackerKey
    row_place: int
    """Where its row is; NO_ROW if it has none."""

    def numbers(self) -> tuple[int, ...]:
        """The columns of NUMBERS, in any state."""
        ...


class LabelledTracker:
    """A tracker with series of its own."""

    __slots__ = ("account", "key", "lines", "row")

    def __init__(self, key: TrackerKey, account: EffectAccount) -> None:
        self.key = key
        self.account = account
        self.row: tuple[int, ...] = ()
        """The columns of COLUMNS when it was last read; empty: it never was."""
        self.lines: tuple[bytes, ...] = ()
        """Its series as they are written, a part for each family; empty: they are to be written anew."""


class Sums:
    """What the trackers of a group come to together, by name."""

    def __init__(self, values: Int64Array) -> None:
        self._values: list[int] = values.tolist()

    def __getitem__(self, name: str) -> int:
        return self._values[_PLACE[name]]

    def row(self) -> Sequence[int]:
        """In the order of COLUMNS."""
        return self._values


class TrackerRows:
    """Rows of open trackers, and what those that were closed have left behind.

    Args:
        labelled_max: how many trackers have series of their own.
        clock: says what has become due.
        durations: where all note how long operations on bucket snapshots took, by type.
    """

    def __init__(self, labelled_max: int, clock: Clock, durations: dict[str, Histogram]) -> None:
        self.changed: set[Counted] = set()
        """Trackers to be read again; every step puts its tracker in."""
        self.labelled: dict[Counted, LabelledTracker] = {}
        self.shared_account = EffectAccount(clock, durations, shows_all=True)
        """Of all trackers without series of their own, open or closed."""
        self.closed_effects = EffectCounters()
        """Of those with series of their own that were closed."""
        self.aggregated_total = 0
        """How many trackers were opened that got no series of their own."""
        self._labelled_max = labelled_max
        self._clock = clock
        self._durations = durations
        self._count = 0
        self._hosts: list[Counted | None] = []
        self._free: list[int] = []
        self._table: Int64Array = np.zeros((0, len(COLUMNS)), np.int64)
        self._is_labelled = np.zeros(0, np.bool_)
        self._closed: Int64Array = np.zeros(len(COLUMNS), np.int64)
        self._closed_unlabelled: Int64Array = np.zeros(len(COLUMNS), np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def aggregated_count(self) -> int:
        """Open trackers without series of their own."""
        return self._count - len(self.labelled)

    def effects(self) -> EffectCounters:
        """What became of the effects of all trackers there ever were. O(trackers with series of their own)."""
        own = (labelled.account.counters for labelled in self.labelled.values())
        return EffectCounters.total([self.shared_account.counters, self.closed_effects, *own])

    def admit(self, host: Counted) -> EffectAccount:
        """Begin a row; returns where the tracker's effects are noted."""
        if not self._free:
            self._grow()
        place = self._free.pop()
        self._count += 1
        host.row_place = place
        self._hosts[place] = host
        self.changed.add(host)
        if len(self.labelled) >= self._labelled_max:
            self.aggregated_total += 1
            return self.shared_account
        self._is_labelled[place] = True
        account = EffectAccount(self._clock, self._durations)
        self.labelled[host] = LabelledTracker(host.key, account)
        return account

    def retire(self, host: Counted) -> None:
        """End a row. What has happened stays in the sums; what was tracked is unloaded, and has series of its own no more."""
        self._read(host)
        place, host.row_place = host.row_place, NO_ROW
        self._count -= 1
        self._hosts[place] = None
        self.changed.discard(host)
        last = np.zeros(len(COLUMNS), np.int64)
        last[_RISING] = events = self._table[place, _RISING]
        last[_PLACE[UNLOADED]] = events[_CAME].sum() - events[_WENT].sum()
        self._closed += last
        if (labelled := self.labelled.pop(host, None)) is None:
            self._closed_unlabelled += last
        else:
            self.closed_effects.add(labelled.account.counters)
        self._clear(place)

    async def refresh(self, write: Callable[[LabelledTracker], object]) -> None:
        """Read what has changed since the last time. Gives the event loop its turn every few milliseconds.

        Args:
            write: called for each tracker with series of its own that was read again.
        """
        waiting = self.changed | set(self._with_something_due())
        begun_ms = self._clock.elapsed_ms()
        for count, host in enumerate(waiting, start=1):
            self.changed.discard(host)
            if host.row_place != NO_ROW:
                self._read(host)
                if (labelled := self.labelled.get(host)) is not None:
                    write(labelled)
            if count % _READ_AT_ONCE == 0 and self._clock.elapsed_ms() - begun_ms >= READ_MS_MAX:
                await asyncio.sleep(0)
                begun_ms = self._clock.elapsed_ms()

    def totals(self) -> Sums:
        """Of all trackers there ever were: sizes of the open ones, events of all; moments are the first and the last."""
        return Sums(_together(self._table) + self._closed)

    def aggregated(self) -> Sums:
        """Of those without series of their own."""
        return Sums(_together(self._table[~self._is_labelled]) + self._closed_unlabelled)

    def _with_something_due(self) -> Iterator[Counted]:
        next_ms, due = self._table[:, _PLACE["next_delivery_ms"]], self._table[:, _PLACE["due"]]
        is_stale = ((next_ms != NONE_MS) & (next_ms <= self._clock.now_ms())) | (due > 0)
        for place in np.flatnonzero(is_stale).tolist():
            host = self._hosts[place]
            if host is not None:
                yield host

    def _read(self, host: Counted) -> None:
        row = (*host.numbers(), 0)
        self._table[host.row_place] = row
        if (labelled := self.labelled.get(host)) is not None:
            labelled.row, labelled.lines = row, ()

    def _clear(self, place: int) -> None:
        self._table[place] = 0
        self._table[place, _MOMENTS] = NONE_MS
        self._is_labelled[place] = False
        self._free.append(place)

    def _grow(self) -> None:
        count = len(self._hosts)
        more = max(_ROWS_MIN, count // _SLACK)
        self._table = np.concatenate([self._table, np.zeros((more, len(COLUMNS)), np.int64)])
        self._is_labelled = np.concatenate([self._is_labelled, np.zeros(more, np.bool_)])
        self._hosts += [None] * more
        for place in reversed(range(count, count + more)):
            self._clear(place)


def _together(rows: Int64Array) -> Int64Array:
    """The sum of rows, with the first and the last of their moments."""
    sums: Int64Array = rows.sum(axis=0)
    for name in MOMENTS:
        column = rows[:, _PLACE[name]]
        known = column[column != NONE_MS]
        best = NONE_MS
        if len(known):
            best = int(known.max() if name == "latest_ms" else known.min())
        sums[_PLACE[name]] = best
    return sums
