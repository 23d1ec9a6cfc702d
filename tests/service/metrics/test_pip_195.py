"""A scrape compared with the proposal's table of metrics."""

import re
from dataclasses import replace

import pytest

from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.exposition.exporter import Names, ServiceMetrics
from tests.service.harness.shell import KEY, TINY, bucketful, elapse, make_registry, settle
from tests.service.metrics.scraping import exposition, label_values, parsed, types

TABLE = """
| pulsar_delayed_message_index_bucket_total               | Gauge     | The number of delayed message index buckets (immutable buckets + LastMutableBucket ) |
| pulsar_delayed_message_index_loaded                     | Gauge     | The total number of delayed message indexes for in the memory. |
| pulsar_delayed_message_index_bucket_op_count            | Counter   | The total number of operate delayed message index bucket snapshot. The `state` label can be `succeed`,`failed`,`all` (the `all` means is the total number of all states) and the `type` label can be `create`,`load`,`delete`,`merge`. |
| pulsar_delayed_message_index_bucket_snapshot_size_bytes | Gauge     | The total size of delayed message index bucket snapshot (in bytes). |
| pulsar_delayed_message_index_bucket_op_latency_ms       | Histogram | The latency of delayed message index bucket snapshot operation with a given quantile (threshold). The label`type` label can be `create`,`load`,`delete`,`merge`<br/>The label `quantile` can be:<ul><li>quantile="50" is operation latency between (0ms, 50ms]</li><li>quantile="100" is operation latency between (50ms, 100ms]</li><li>quantile="500" is operation between (100ms, 500ms]</li><li>quantile="1000" is operation latency between (500ms, 1s]</li><li>quantile="5000" is operation latency between (1s, 5s]</li><li>quantile="30000" is operation latency between (5s, 30s]</li><li>quantile="60000" is operation latency between (30s, 60s]</li><li>quantile="overflow" is operation latency > 1m</li></ul> |
"""  # fmt: skip
"""PIP-195, "Metrics Changes"."""

ROWS = {row[0].strip(): row[1].strip().lower() for row in re.findall(r"^\|([^|]+)\|([^|]+)\|", TABLE, re.MULTILINE)}
TYPES = {"create", "load", "delete", "merge"}
LABELS = {
    "pulsar_delayed_message_index_bucket_op_count": {"state": {"succeed", "failed", "all"}, "type": TYPES},
    "pulsar_delayed_message_index_bucket_op_latency_ms": {
        "quantile": set(re.findall(r'quantile="(\w+)"', TABLE)),
        "type": TYPES,
    },
}
OF_A_TRACKER = {"cluster": {"east"}, "namespace": {"shop/orders"}, "topic": {KEY.topic}, "subscription": {"billing"}}
PULSAR_ELSEWHERE = {"pulsar_delayed_message_index_size_bytes": "gauge"}
"""The type of a metric that is older than the proposal."""


def test_the_table_is_read():
    """The table has five families and eight ranges."""
    assert len(ROWS) == 5
    assert len(LABELS["pulsar_delayed_message_index_bucket_op_latency_ms"]["quantile"]) == 8


async def test_every_family_of_the_proposal_has_its_name_type_and_labels(registry, clock):
    """The first scrape has each value of each label, and a tracker's own series have Pulsar's labels."""
    text = await exposition(registry, cluster="east")
    shown = {name: kind for name, kind in types(text).items() if name.startswith("pulsar_")}
    assert shown == ROWS | PULSAR_ELSEWHERE
    for name in shown:
        assert label_values(parsed(text), name) == {"cluster": {"east"}} | LABELS.get(name, {})
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).seal(epoch)
    await settle()
    samples = parsed(await exposition(registry, cluster="east"))
    for name in shown:
        assert label_values(samples, name) == OF_A_TRACKER | LABELS.get(name, {})


async def test_openmetrics_has_the_same_series_of_unknown_type(registry):
    """OpenMetrics has neither a counter without _total nor a histogram of separate ranges, so the type is unknown."""
    metrics = ServiceMetrics(registry, version="1")
    text, _ = await metrics.scrape("application/openmetrics-text; version=1.0.0")
    shown = {name: kind for name, kind in types(text.decode()).items() if name.startswith("pulsar_")}
    assert shown == dict.fromkeys(ROWS | PULSAR_ELSEWHERE, "unknown")
    plain, _ = await metrics.scrape()
    of_pulsar = [{line for line in body.decode().splitlines() if line.startswith("pulsar_")} for body in (text, plain)]
    assert of_pulsar[0] == of_pulsar[1]


@pytest.mark.parametrize(("took_ms", "quantile"), [
    (0, "50"), (50, "50"), (51, "100"), (100, "100"), (500, "500"), (1_000, "1000"), (1_001, "5000"),
    (30_000, "30000"), (60_000, "60000"), (60_001, "overflow"),
])  # fmt: skip
async def test_ranges_are_separate_and_include_their_upper_end(registry, storage, clock, took_ms, quantile):
    """An operation counts in exactly one range, under its tracker."""
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch

    async def takes_long(*_args, **_kwargs):
        clock.advance(took_ms)

    storage.before["create_bucket_snapshot"] = takes_long
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).seal(epoch)
    await settle()
    samples = parsed(await exposition(registry))
    name = "pulsar_delayed_message_index_bucket_op_latency_ms"
    assert {key: value for key, value in samples.items() if key[0] == name and value} == {
        (
            name,
            "namespace=shop/orders",
            f"quantile={quantile}",
            "subscription=billing",
            f"topic={KEY.topic}",
            "type=create",
        ): 1
    }
    twin = "delayed_tracker_bucket_operation_duration_seconds"
    assert samples[f"{twin}_sum", "type=create"] == pytest.approx(took_ms / 1_000)
    await elapse(clock, 0)


async def test_bucket_total_counts_the_mutable_bucket(registry, clock):
    """A tracker that has just been opened has one bucket, and two after a seal."""
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    name = "pulsar_delayed_message_index_bucket_total"
    key = (name, "namespace=shop/orders", "subscription=billing", f"topic={KEY.topic}")
    assert parsed(await exposition(registry))[key] == 1
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).seal(epoch)
    await settle()
    samples = parsed(await exposition(registry))
    assert samples[key] == 2
    assert samples["pulsar_delayed_message_index_loaded", *key[1:]] == 0
    stats = registry.host(KEY).stats()
    assert samples["pulsar_delayed_message_index_bucket_snapshot_size_bytes", *key[1:]] == stats.snapshot_bytes > 0
    assert samples["pulsar_delayed_message_index_size_bytes", *key[1:]] == stats.memory_bytes > 0


@pytest.mark.parametrize("names", Names)
async def test_either_of_two_names_can_be_dropped(registry, names):
    """A family without a twin is always shown."""
    shown = types(await exposition(registry, names=names))
    pulsar = {name for name in shown if name.startswith("pulsar_")}
    assert bool(pulsar) == (names is not Names.PROMETHEUS)
    assert ("delayed_tracker_bucket_operations_total" in shown) == (names is not Names.PULSAR)
    assert "delayed_tracker_pending_indexes" in shown


async def test_the_in_memory_tracker_has_no_buckets(storage, clock):
    """The in-memory tracker has no buckets, as in Pulsar."""
    registry = make_registry(storage, clock, limits=replace(TINY, kind=TrackerKind.IN_MEMORY))
    await registry.start()
    await registry.open(KEY, owner="tests", mark_delete=None)
    assert parsed(await exposition(registry))["delayed_tracker_buckets",] == 0
    await registry.close()
