"""Sizes of the benchmarks: full, for numbers; quick, to check that each of them runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes of all measurements, in indexes unless the name has another unit."""

    repeats: int = 5
    """Repeats after one warm-up that does not count."""
    long_repeats: int = 1
    """Repeats of measurements that take a minute each, after shorter ones have warmed up."""
    adds: int = 1_000_000
    bucket: int = 50_000
    buckets: int = 20
    week_polls: int = 2_016
    """Polls during the simulated week: one every five minutes."""
    rest_s: float = 5.0
    """Pause before memory is measured, in seconds: an idle service returns freed memory, and checks every two seconds.
    """
    runs: int = 100
    run_length: int = 2_000
    pending: tuple[int, ...] = (1_000_000, 10_000_000)
    """Pending indexes with which memory, recovery and growth are measured."""
    has_all_shapes: bool = True
    """True if memory is also measured in the dense shapes."""
    stored_entries: int = 1_000_000
    """Entries that are read from end to end, and looked up in."""
    look_ups: int = 500
    """Look-ups of each kind, for each repeat."""
    spark_ledgers: int = 120
    """Ledgers that Spark reads."""
    spark_ledger_entries: int = 250_000
    spark_warm_ups: int = 2
    """Warm-up jobs in the same session, because Java continues to compile for a while."""
    spark_repeats: int = 3
    spark_replayed: int = 300_000
    """Indexes that a broker replayed in a measurement; a multiple of ``bucket``."""
    growth_adds: int = 40_000
    """Below ``bucket``, so that none of them seals."""
    batch_sizes: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    """Batch sizes of calls over the network."""
    calls: int = 2_000
    """Calls with small batches; with large ones, as many as send ``adds``."""
    polled: int = 200_000
    """Indexes taken by polls over the network, for each repeat."""
    poll_lead_ms: int = 4_000
    """Distance of deadlines when they are added, so that all are added before the first is due."""
    poll_spread_ms: int = 1_000
    """Spread of dense deadlines."""
    one_seal: int = 1_000_000
    """Indexes that are sealed at once while a client adds at a steady rate."""
    merging_buckets: int = 40
    merged_buckets_max: int = 10
    steady_calls_per_s: int = 500
    steady_batch: int = 100
    steady_s: float = 20.0
    """Shortest duration, in seconds; the run continues until everything is sealed and merged."""
    scraped_trackers: int = 10_000
    handed_off_per_s: int = 100_000
    handed_off_s: float = 60.0
    read_back_per_s: int = 20_000
    """Indexes added each second that are stored, and read back before they are handed out."""
    read_back_s: float = 20.0
    read_back_delay_ms: int = 20_000
    """Time from their add to their deadline."""
    month_pending: int = 100_000_000
    """Pending over a month in one process; a multiple of 100 times ``bucket``."""
    ledger_entries: tuple[tuple[int, int], ...] = ((5_000_000, 24), (10_000, 8_000), (1_000, 30_000))
    """Entries that are written to a ledger and read: bytes of each, and how many."""


QUICK = Scale(
    repeats=1,
    adds=4_000,
    bucket=1_000,
    buckets=2,
    week_polls=12,
    rest_s=0.0,
    runs=4,
    run_length=100,
    pending=(4_000,),
    has_all_shapes=False,
    stored_entries=2_000,
    look_ups=20,
    spark_ledgers=2,
    spark_warm_ups=1,
    spark_ledger_entries=2_500,
    spark_repeats=1,
    spark_replayed=3_000,
    growth_adds=500,
    batch_sizes=(1, 1_000),
    calls=4,
    polled=400,
    poll_lead_ms=10_000,
    poll_spread_ms=50,
    one_seal=3_000,
    merging_buckets=6,
    merged_buckets_max=3,
    steady_s=0.3,
    scraped_trackers=20,
    handed_off_per_s=10_000,
    handed_off_s=0.5,
    read_back_per_s=10_000,
    read_back_s=1.0,
    read_back_delay_ms=3_000,
    month_pending=100_000,
    ledger_entries=((5_000_000, 2), (10_000, 20), (1_000, 50)),
)
"""Sizes that only show that the benchmarks work; the numbers mean nothing."""
