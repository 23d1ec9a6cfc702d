"""Messages that a dispatcher offers again after kill -9: behind its claim, and without an add log."""

import time
from collections.abc import AsyncIterator

from delayed_tracker.client import Position, TrackerSession
from delayed_tracker.core.values.columns import IndexColumns
from tests.benchmarks.inputs.serving import TOPIC, served
from tests.benchmarks.inputs.shapes import NOW_MS, Shape, offered
from tests.benchmarks.measure import Run, require
from tests.benchmarks.rows import Row, Unit

ABOUT = (
    "A dispatcher offers a million messages in order, every entry of ledgers of 50,000 delayed over 7 days, 10,000 an offer, "
    "each carrying the claim of those before it. When all are answered the service is killed with -9 and started again on "
    "the same files, and the dispatcher offers from replay_from on. Then every message is tracked, once. Before: "
    "trackerDurableAdds=false, where nothing is claimed and replay_from is behind mark-delete. The time is from the start "
    "of the process to the answer to the last offer; the benchmark makes the columns out of memory, where a dispatcher "
    "reads its topic."
)
OFFER = 10_000
SUBSCRIPTION = "offers"


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure without the add log, then with it."""
    count = run.scale.adds
    for value, what in (("false", "without the add log"), ("true", "with the add log")):
        counts, took_ms = [], []
        for _ in run.fresh_repeats(f"offers after kill -9, {what}", is_long=True):
            again, ms = await _repeat(run, value)
            counts.append(float(again))
            took_ms.append(ms)
        yield Row(
            f"offered again {value}",
            f"offered again after kill -9, {what}",
            Unit.COUNT,
            tuple(counts),
            count,
            Shape.WEEK,
        )
        yield Row("offered again ms", f"until all is tracked again, {what}", Unit.MS, tuple(took_ms), count, Shape.WEEK)


async def _repeat(run: Run, durable_adds: str) -> tuple[int, float]:
    """Return the number of messages that are offered again, and the milliseconds until all are tracked."""
    indexes = offered(Shape.WEEK, run.scale.adds, per_ledger=run.scale.bucket)
    later_ms = time.time_ns() // 1_000_000 - NOW_MS
    indexes = IndexColumns(indexes.deliver_at_ms + later_ms, indexes.ledger_id, indexes.entry_id)
    settings = {"trackerDurableAdds": durable_adds, "delayedDeliveryMinIndexCountPerBucket": str(run.scale.bucket)}
    async with served(run, settings) as service:
        async with await service.client.open_tracker(TOPIC, SUBSCRIPTION) as session:
            require("offers", await _offer(session, indexes) == len(indexes))
        await service.process.kill()
        data = service.data
    begun_s = time.perf_counter()
    async with (
        served(run, settings, data=data) as service,
        await service.client.open_tracker(TOPIC, SUBSCRIPTION) as session,
    ):
        missing = indexes.take(slice(_first(indexes, session.opened.replay_from), None))
        added_count = await _offer(session, missing)
        took_ms = (time.perf_counter() - begun_s) * 1e3
        require("recovery", session.opened.recovered_count + added_count == len(indexes))
        require("recovery", (await session.stats()).pending_count == len(indexes))
    return len(missing), took_ms


async def _offer(session: TrackerSession, indexes: IndexColumns) -> int:
    """Offer in order, and send the last claim; return the number of those that were not tracked."""
    offers = session.offers()
    added_count = 0
    for start in range(0, len(indexes), OFFER):
        part = indexes.take(slice(start, start + OFFER))
        read_through = Position(int(part.ledger_id[-1]), int(part.entry_id[-1]))
        answer = await offers.offer(read_through, part.deliver_at_ms, part.ledger_id, part.entry_id)
        added_count += answer.added_count
    await offers.claim()
    return added_count


def _first(indexes: IndexColumns, replay_from: Position | None) -> int:
    """Return the offset of the first message at or above a position; None is below all."""
    if replay_from is None:
        return 0
    ledger_id, entry_id = replay_from
    return int(
        ((indexes.ledger_id < ledger_id) | ((indexes.ledger_id == ledger_id) & (indexes.entry_id < entry_id))).sum()
    )
