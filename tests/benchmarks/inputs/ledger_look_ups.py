"""Look-ups of single messages of a long topic, by index and by time."""

import time
from collections.abc import Callable, Iterator
from random import Random

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.queries.message_index import position_by_index
from delayed_tracker.ledger.queries.seek import seek_by_time
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic.topic_log import TopicLog
from tests.benchmarks.inputs.shapes import NOW_MS
from tests.benchmarks.measure import Run, percentile, require
from tests.benchmarks.rows import Row, Unit

_Ask = Callable[[EntryLookup, int], Position]


def look_up_rows(run: Run, where: str, log: TopicLog) -> Iterator[Row]:
    """Yield time and entries read. The n-th entry has index n and was written n milliseconds after ``NOW_MS``."""
    run.note(f"{where}: reading all once")
    _warm_up(log)
    asked: dict[str, _Ask] = {
        "message by index": position_by_index,
        "seek by time": lambda lookup, number: seek_by_time(lookup, NOW_MS + number).position,
    }
    for what, ask in asked.items():
        yield from _rows(run, f"{what}, {where}", log, ask)


def _rows(run: Run, what: str, log: TopicLog, ask: _Ask) -> Iterator[Row]:
    count, random = log.entry_count, Random(1)
    slow_ms: list[float] = []
    touched: list[float] = []
    for counts in run.repeats(what):
        took_ms = []
        most = 0
        for number in random.choices(range(count), k=run.scale.look_ups):
            lookup = EntryLookup(log)
            wanted = lookup.position(number)
            started_ns = time.perf_counter_ns()
            found = ask(lookup, number)
            took_ms.append((time.perf_counter_ns() - started_ns) / 1e6)
            require(what, found == wanted)
            most = max(most, lookup.touched_count)
        if counts:
            slow_ms.append(percentile(sorted(took_ms), 0.99))
            touched.append(most)
    yield Row("look-up", f"{what}: 99th percentile", Unit.MS, tuple(slow_ms), count)
    yield Row("look-up touches", f"{what}: most", Unit.ENTRIES, tuple(touched), count)


def _warm_up(log: TopicLog) -> None:
    """Read from every stretch, so that all records of a blob have been walked once."""
    for ledger in log.ledgers:
        for entry_id in range(0, ledger.last_entry_id + 1, 1_000):
            ledger.read(entry_id, entry_id)
        ledger.read(ledger.last_entry_id, ledger.last_entry_id)
