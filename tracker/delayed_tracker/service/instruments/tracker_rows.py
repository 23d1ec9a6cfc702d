"""The numbers of all trackers, one row each, as of the last scrape.

A step of a tracker only marks it as changed. A scrape reads the changed rows again, and those with indexes that have
become due since. Ten thousand idle trackers cost nothing. A row is read between two steps, so its values are of one
moment.

The first trackers have series with labels of their own, up to a limit. All others are summed, and so are trackers with
very long names, which each of their series would repeat.
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
"""Columns of a tracker's row, and of the sums."""

READ_MS_MAX: Final = 2.0
"""Milliseconds of reading after which other tasks of the event loop may run."""
_READ_AT_ONCE: Final = 16
_ROWS_MIN: Final = 64
_SLACK: Final = 16
"""The table grows by one row for this many rows: ten thousand trackers must not need memory for twenty thousand."""
NO_ROW: Final = -1
LABEL_BYTES_MAX: Final = 1_024
"""Bytes of the topic and the subscription of a tracker with series of its own."""

_PLACE = {name: place for place, name in enumerate(COLUMNS)}
_MOMENTS: Final = [_PLACE[name] for name in MOMENTS]
_RISING: Final = slice(_PLACE[EVENTS[0]], _PLACE[UNLOADED])
_CAME: Final = [EVENTS.index(name) for name in ("added", "recovered")]
_WENT: Final = [
    EVENTS.index(name)
    for name in ("acked", "handed_off", "cancelled", "trimmed", "cleared", "refused_as_due", "dropped_as_corrupt")
]


class Counted(Protocol):
    """A tracker, as far as it is counted. Trackers are compared by identity."""

    key: TrackerKey
    row_place: int
    """Place of its row; NO_ROW if it has none."""

    def numbers(self) -> tuple[int, ...]:
        """Return the columns of NUMBERS, in any state."""
        ...


class LabelledTracker:
    """A tracker with series of its own."""

    __slots__ = ("account", "key", "lines", "row")

    def __init__(self, key: TrackerKey, account: EffectAccount) -> None:
        self.key = key
        self.account = account
        self.row: tuple[int, ...] = ()
        """The columns of COLUMNS at the last read; empty before the first read."""
        self.lines: tuple[bytes, ...] = ()
        """Its series in the text format, one part for each family; empty if they must be written again."""


class Sums:
    """Sums over the trackers of a group, by name."""

    def __init__(self, values: Int64Array) -> None:
        self._values: list[int] = values.tolist()

    def __getitem__(self, name: str) -> int:
        return self._values[_PLACE[name]]

    def row(self) -> Sequence[int]:
        """Return the sums in the order of COLUMNS."""
        return self._values


class TrackerRows:
    """Rows of open trackers, and the sums that closed ones leave.

    Args:
        labelled_max: trackers that have series of their own.
        clock: gives the time by which deadlines are due.
        durations: histograms of operations on bucket snapshots for all trackers, by type.
    """

    def __init__(self, labelled_max: int, clock: Clock, durations: dict[str, Histogram]) -> None:
        self.changed: set[Counted] = set()
        """Trackers to be read again; every step adds its tracker."""
        self.labelled: dict[Counted, LabelledTracker] = {}
        self.shared_account = EffectAccount(clock, durations, shows_all=True)
        """Account of all trackers without series of their own, open or closed."""
        self.closed_effects = EffectCounters()
        """Counters of closed trackers that had series of their own."""
        self.aggregated_total = 0
        """Trackers that were opened without series of their own, since the start."""
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
        """Return the counters of effects of all trackers since the start. O(trackers with series of their own)."""
        own = (labelled.account.counters for labelled in self.labelled.values())
        return EffectCounters.total([self.shared_account.counters, self.closed_effects, *own])

    def admit(self, host: Counted) -> EffectAccount:
        """Add a row, and return the account of the tracker's effects."""
        if not self._free:
            self._grow()
        place = self._free.pop()
        self._count += 1
        host.row_place = place
        self._hosts[place] = host
        self.changed.add(host)
        if len(self.labelled) >= self._labelled_max or sum(len(name.encode()) for name in host.key) > LABEL_BYTES_MAX:
            self.aggregated_total += 1
            return self.shared_account
        self._is_labelled[place] = True
        account = EffectAccount(self._clock, self._durations)
        self.labelled[host] = LabelledTracker(host.key, account)
        return account

    def retire(self, host: Counted) -> None:
        """Remove a row. Its events stay in the sums; its tracked indexes count as unloaded. Its own series end."""
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
        """Read the rows that have changed since the last time. Other tasks of the event loop run every few
        milliseconds.

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
        """Return the sums over all trackers since the start.

        Sizes are those of the open trackers, events those of all. Moments are the first and the last.
        """
        return Sums(_together(self._table) + self._closed)

    def aggregated(self) -> Sums:
        """Return the sums over the trackers without series of their own."""
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
    """Return the sum of rows, with the first and the last of their moments."""
    sums: Int64Array = rows.sum(axis=0)
    for name in MOMENTS:
        column = rows[:, _PLACE[name]]
        known = column[column != NONE_MS]
        best = NONE_MS
        if len(known):
            best = int(known.max() if name == "latest_ms" else known.min())
        sums[_PLACE[name]] = best
    return sums
