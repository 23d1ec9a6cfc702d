"""How large the benchmarks are: full, for numbers; quick, to see that each of them runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes of everything that is measured, in indexes unless the name says otherwise."""

    repeats: int = 5
    """After one warm-up that does not count."""
    long_repeats: int = 1
    """Of what takes a minute each time, after the shorter ones have warmed up."""
    adds: int = 1_000_000
    bucket: int = 50_000
    buckets: int = 20
    week_polls: int = 2_016
    """How often a poller comes while the week passes: every five minutes."""
    rest_s: float = 5.0
    """Before memory is measured: the service gives back what was freed once it has rested, and looks every two seconds."""
    runs: int = 100
    run_length: int = 2_000
    pending: tuple[int, ...] = (1_000_000, 10_000_000)
    """Pending indexes with which memory, recovery and growth are measured."""
    has_all_shapes: bool = True
    """Whether memory is measured in the dense shapes, too."""
    stored_entries: int = 1_000_000
    """Of what is read from end to end, and looked up in."""
    look_ups: int = 500
    """Of each kind, for each repeat."""
    spark_ledgers: int = 40
    """That Spark reads."""
    spark_ledger_entries: int = 250_000
    spark_warm_ups: int = 2
    """Before what is measured, in the same session: Java goes on compiling for a while."""
    spark_repeats: int = 3
    spark_replayed: int = 300_000
    """As many as a broker was seen to replay; a multiple of ``bucket``."""
    growth_adds: int = 40_000
    """Below ``bucket``, so that none of them seals."""
    batch_sizes: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    """Of calls over the network."""
    calls: int = 2_000
    """Calls of small batches; large ones make as many as it takes to send ``adds``."""
    polled: int = 200_000
    """What is taken in polls over the network, for each repeat."""
    poll_lead_ms: int = 4_000
    """Deadlines are this far away when they are offered, so that all are in before the first is due."""
    poll_spread_ms: int = 1_000
    """... and lie within this, if they are dense."""
    one_seal: int = 1_000_000
    """What is sealed at once while a steady client adds."""
    merging_buckets: int = 40
    merged_buckets_max: int = 10
    steady_calls_per_s: int = 500
    steady_batch: int = 100
    steady_s: float = 20.0
    """At least this long, and until everything is sealed and merged."""
    scraped_trackers: int = 10_000
    handed_off_per_s: int = 100_000
    handed_off_s: float = 60.0


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
    poll_lead_ms=1_150,
    poll_spread_ms=50,
    one_seal=3_000,
    merging_buckets=6,
    merged_buckets_max=3,
    steady_s=0.3,
    scraped_trackers=20,
    handed_off_per_s=10_000,
    handed_off_s=0.5,
)
"""Numbers of this size mean nothing; that they come out means that the benchmarks work."""
