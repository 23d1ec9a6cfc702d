"""A real Prometheus under a scripted load: its series are correct, and every panel and rule has data."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from delayed_tracker.cli.spark.textfile import COUNTS, write_metrics
from delayed_tracker.client import DelayedTrackerClient, TrackerSession
from delayed_tracker.storage.testing.faulty import FaultPlan
from tests.integration.harness.dispatcher import now_ms
from tests.prometheus.binaries import find_program
from tests.prometheus.live import PATIENT, Prometheus, Service, eventually, prometheus, textfile_exporter
from tests.prometheus.queries import panel_queries, rules
from tests.service.metrics.served_storage import ServedStorage

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TOPIC, SUBSCRIPTION, HOUR_MS = "persistent://lab/main/delayed", "billing", 3_600_000
SETTINGS = {"strict": True, "min_index_count_per_bucket": 100, "buckets_max": 2}
PULSAR = "pulsar_delayed_message_index"

CHOSEN = {
    "$job": ".+",
    "$instance": ".+",
    "$topic": ".+",
    "$subscription": ".+",
    "$command": ".+",
    "$__rate_interval": "10s",
}
"""Values that Grafana would insert."""


def as_grafana_asks(expr: str) -> str:
    for variable, value in CHOSEN.items():
        expr = expr.replace(variable, value)
    return expr


def textfile(directory: Path) -> str:
    """Return the textfile that a rebuild leaves for the node exporter."""
    path = directory / "rebuild.prom"
    write_metrics(path, "rebuild", dict.fromkeys(COUNTS, 7), {"read": 1.5, "commit": 0.5})
    return path.read_text()


async def everything_happens(service: Service, client: DelayedTrackerClient, over: asyncio.Event) -> None:
    """Repeat messages of every fate, seals, merges, failures and recoveries."""
    session = await client.open_tracker(TOPIC, SUBSCRIPTION)
    ledger = 0
    while not over.is_set():
        ledger += 1
        at_ms = now_ms()
        count = 300
        deadlines = [at_ms - 1] * 10 + [at_ms + 500] * 90 + [at_ms + HOUR_MS] * 200
        await session.add_columns(deadlines, [ledger] * count, range(count))
        await session.add_columns(deadlines[:100], [ledger] * 100, range(100))
        await session.cancel([ledger] * 10, range(200, 210))
        await session.poll(10, wait_ms=1_000, lease_ms=100)
        async with await session.poll(1_000, wait_ms=1_000):
            pass
        await session.advance_mark_delete(max(0, ledger - 20), 250)
        if ledger % 5 == 0:
            service.storage.plan = FaultPlan(error_before=0.5, seed=ledger)
        elif ledger % 5 == 2:
            service.storage.plan = FaultPlan()
            await (await client.open_tracker(TOPIC, f"other {ledger}")).close()
        await asyncio.sleep(0.2)


async def servers_answer(served: ServedStorage, over: asyncio.Event) -> None:
    """Count requests to bookies and to an object store."""
    while not over.is_set():
        served.ask()
        await asyncio.sleep(0.2)


async def test_every_panel_and_rule_has_something_to_show(tmp_path: Path):
    """No query of a board or of a rule is empty while everything happens."""
    service = Service(tmp_path, "busy", **SETTINGS)
    queries = {where: as_grafana_asks(expr) for where, expr in panel_queries()}
    queries |= {f"rule {rule['record']}": rule["record"] for rule in rules() if "record" in rule}
    async with AsyncExitStack() as stack:
        await service.start()
        stack.push_async_callback(service.stop)
        served = ServedStorage()
        service.storage.cluster_report, service.storage.request_counts = served.cluster_report, served.request_counts
        served.bookie.failed("ADD_ENTRY", "BOOKIE_TIMED_OUT", 1)
        client = await stack.enter_async_context(
            DelayedTrackerClient.connect(str(service.bound.grpc), settings=PATIENT)
        )
        node = await stack.enter_async_context(textfile_exporter(textfile(tmp_path)))
        (tmp_path / "prometheus").mkdir()
        targets = {"busy": str(service.bound.http)}
        watching = await stack.enter_async_context(
            prometheus(find_program("prometheus"), tmp_path / "prometheus", targets, node)
        )
        over, empty = asyncio.Event(), set(queries)

        async def each_has_shown_something() -> bool:
            for where in sorted(empty):
                samples = await watching.query(queries[where])
                if any(sample["value"][1] != "NaN" for sample in samples):
                    empty.discard(where)
            return not empty

        async with asyncio.TaskGroup() as load:
            load.create_task(everything_happens(service, client, over))
            load.create_task(servers_answer(served, over))
            await eventually(each_has_shown_something, "every query has shown something", unless=lambda: empty)
            over.set()
            service.storage.plan = FaultPlan()


async def counted(watching: Prometheus, metric: str, label: str) -> dict[str, float]:
    """Return the samples of a family by one label, without zeros."""
    samples = await watching.query(metric)
    return {each["metric"][label]: float(each["value"][1]) for each in samples if float(each["value"][1])}


async def until_shown(
    watching: Prometheus, counts: Mapping[tuple[str, str], Mapping[str, float]], values: Mapping[str, float]
) -> None:
    """Wait until one look at all queries finds what is expected: a scrape may be old, or fail on a busy machine.

    Args:
        watching: the Prometheus.
        counts: expected samples without zeros, by family and label; first what happens last, so that the rest is not older.
        values: expected samples of queries that have one.
    """
    wrong: dict[object, object] = {}

    async def is_shown() -> bool:
        found: dict[object, object] = {
            (metric, label): await counted(watching, metric, label) for metric, label in counts
        }
        found |= {query: await watching.value(query) for query in values}
        wrong.clear()
        wrong.update({name: found[name] for name, expected in {**counts, **values}.items() if found[name] != expected})
        return not wrong

    await eventually(is_shown, "every series has its value", unless=lambda: wrong)


async def test_series_are_the_truth_before_and_after_a_restart(tmp_path: Path):
    """After a script of known outcome and a restart, gauges are right and counters begin at zero."""
    service = Service(tmp_path, "truth", strict=True, min_index_count_per_bucket=100)
    tracked = 450 - 60 - 20 - 25
    standing = {
        "delayed_tracker_pending_indexes": tracked,
        'delayed_tracker_subscription_pending_indexes{topic!=""}': tracked,
        "delayed_tracker_leased_indexes": 0,
        f"sum ({PULSAR}_bucket_total)": 2,
    }
    async with AsyncExitStack() as stack:
        await service.start()
        stack.push_async_callback(service.stop)
        node = await stack.enter_async_context(textfile_exporter(""))
        (tmp_path / "prometheus").mkdir()
        watching = await stack.enter_async_context(
            prometheus(find_program("prometheus"), tmp_path / "prometheus", {"truth": str(service.bound.http)}, node)
        )
        async with DelayedTrackerClient.connect(str(service.bound.grpc), settings=PATIENT) as client:
            await script(await client.open_tracker(TOPIC, SUBSCRIPTION))
        events = {"added": 450, "acked": 60, "handed_off": 20, "cancelled": 25}
        await until_shown(
            watching,
            {
                ("delayed_tracker_indexes_total", "event"): events,
                ("delayed_tracker_offered_indexes_total", "result"): {"added": 450, "due": 50, "duplicate": 30},
                (f'{PULSAR}_bucket_op_count{{type="create",topic!=""}}', "state"): {"succeed": 1, "all": 1},
            },
            {
                **standing,
                "delayed_tracker_handoff_lateness_seconds_count": 60 + 40 + 20,
                "delayed_tracker_early_handoffs_total": 0,
                "delayed_tracker_lease_expirations_total": 0,
                f'sum ({PULSAR}_bucket_op_latency_ms{{type="create"}})': 1,
            },
        )

        await service.stop()
        await service.start()
        async with DelayedTrackerClient.connect(str(service.bound.grpc), settings=PATIENT) as client:
            await client.open_tracker(TOPIC, SUBSCRIPTION)
            await until_shown(
                watching,
                {
                    ("delayed_tracker_indexes_total", "event"): {"recovered": tracked},
                    ("delayed_tracker_offered_indexes_total", "result"): {},
                },
                standing,
            )


async def script(session: TrackerSession) -> None:
    """Add 300 far indexes, sealed; 150 near, 60 of them acknowledged and 20 handed off; 50 due; 30 repeated."""
    far_ms = now_ms() + HOUR_MS
    await session.add_columns([far_ms] * 300, [1] * 300, range(300))
    await session.seal()
    # Long enough that they are not due before they come to a service whose commits take seconds.
    near = [now_ms() + 5_000] * 120 + [far_ms] * 30
    await session.add_columns(near, [2] * 150, range(150))
    await session.add_columns([now_ms() - 1] * 50, [2] * 50, range(200, 250))
    await session.add_columns(near[120:], [2] * 30, range(120, 150))
    await session.cancel([1] * 25, range(25))
    async with await session.poll(60, wait_ms=20_000):
        pass
    given_back = await session.poll(40, wait_ms=20_000)
    await session.nack(given_back.lease_id, given_back.messages.ledger_ids, given_back.messages.entry_ids)
    assert len(await session.poll_hand_off(20)) == 20
