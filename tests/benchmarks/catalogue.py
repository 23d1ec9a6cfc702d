"""All benchmarks, in the order of the report."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from tests.benchmarks.calls import bench_grpc_add, bench_grpc_poll, bench_secured
from tests.benchmarks.measure import Run
from tests.benchmarks.paths import (
    bench_add,
    bench_add_log,
    bench_codec,
    bench_contains,
    bench_durable_acks,
    bench_durable_adds,
    bench_durable_stalls,
    bench_growth,
    bench_lateness,
    bench_ledgers,
    bench_life,
    bench_memory,
    bench_metrics,
    bench_offered_again,
    bench_opens,
    bench_pop,
    bench_recovery,
    bench_spark,
    bench_stalls,
)
from tests.benchmarks.rows import Row
from tests.benchmarks.storages import (
    bench_bookkeeper_client,
    bench_month,
    bench_storage_life,
    bench_storage_recovery,
    bench_week,
)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark, a part of the report."""

    name: str
    """Name for ``--only``."""
    title: str
    about: str
    rows: Callable[[Run], Iterator[Row] | AsyncIterator[Row]]


BENCHMARKS = [
    Benchmark("add", "Core: add", bench_add.ABOUT, bench_add.rows),
    Benchmark("codec", "Seal, encode, decode", bench_codec.ABOUT, bench_codec.rows),
    Benchmark("pop", "Core: pop", bench_pop.ABOUT, bench_pop.rows),
    Benchmark("contains", "Core: contains", bench_contains.ABOUT, bench_contains.rows),
    Benchmark("life", "Whole life: core and storage", bench_life.ABOUT, bench_life.rows),
    Benchmark("growth", "Growth", bench_growth.ABOUT, bench_growth.rows),
    Benchmark("grpc-add", "Over gRPC: add", bench_grpc_add.ABOUT, bench_grpc_add.rows),
    Benchmark("grpc-poll", "Over gRPC: poll", bench_grpc_poll.ABOUT, bench_grpc_poll.rows),
    Benchmark("secured", "TLS, tokens and authorization", bench_secured.ABOUT, bench_secured.rows),
    Benchmark("durable-adds", "Durable adds", bench_durable_adds.ABOUT, bench_durable_adds.rows),
    Benchmark("durable-acks", "The consumption window", bench_durable_acks.ABOUT, bench_durable_acks.rows),
    Benchmark("add-log", "The add log: bytes", bench_add_log.ABOUT, bench_add_log.rows),
    Benchmark("offered-again", "Offered again", bench_offered_again.ABOUT, bench_offered_again.rows),
    Benchmark("memory", "Memory and disk", bench_memory.ABOUT, bench_memory.rows),
    Benchmark("metrics", "Metrics", bench_metrics.ABOUT, bench_metrics.rows),
    Benchmark("recovery", "Recovery", bench_recovery.ABOUT, bench_recovery.rows),
    Benchmark("opens", "Opening many trackers", bench_opens.ABOUT, bench_opens.rows),
    Benchmark("ledgers", "Stored entries", bench_ledgers.ABOUT, bench_ledgers.rows),
    Benchmark("spark", "Spark", bench_spark.ABOUT, bench_spark.rows),
    Benchmark("stalls", "Stalls", bench_stalls.ABOUT, bench_stalls.rows),
    Benchmark("durable-stalls", "Stalls of durable adds", bench_durable_stalls.ABOUT, bench_durable_stalls.rows),
    Benchmark("lateness", "Lateness", bench_lateness.ABOUT, bench_lateness.rows),
    Benchmark("network-lateness", "Lateness over a network", bench_lateness.NETWORK_ABOUT, bench_lateness.network_rows),
    Benchmark(
        "bookkeeper-client", "The BookKeeper client", bench_bookkeeper_client.ABOUT, bench_bookkeeper_client.rows
    ),
    Benchmark("storage-life", "Whole life over each storage", bench_storage_life.ABOUT, bench_storage_life.rows),
    Benchmark(
        "storage-recovery", "Recovery from each storage", bench_storage_recovery.ABOUT, bench_storage_recovery.rows
    ),
    Benchmark("week", "The week as it passes", bench_week.ABOUT, bench_week.rows),
    Benchmark("month", "A hundred million over a month", bench_month.ABOUT, bench_month.rows),
]
