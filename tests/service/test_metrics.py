"""What is counted is shown: every counter of the shell and of trackers, by Prometheus' conventions and by PIP-195's."""

import dataclasses
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.service.shell import KEY, OTHER, TINY, bucketful, elapse, make_registry, settle
from tracker.core.outcomes import TrackerStats
from tracker.service.counters import EVENTS, SIZES, EffectCounters
from tracker.service.metrics import PIP_MEMORY, PIP_OPERATIONS, ServiceMetrics

NOT_SUMMED = {"epoch", "next_delivery_ms", "mark_delete", "replay_required", "merge_count"}
"""Says nothing as a sum; merges are counted by the shell."""


@pytest.fixture
async def registry(storage, clock):
    """More than one bucket is merged."""
    registry = make_registry(storage, clock, limits=dataclasses.replace(TINY, max_num_buckets=1))
    await registry.start()
    yield registry
    await registry.close()


def scraped(registry):
    """Value by name and labels. The parser gives a counter's samples the suffix that PIP-195's family does without."""
    text = ServiceMetrics(registry, version="1").render().decode()
    assert f"\n{PIP_OPERATIONS}{{" in text
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def _merged(registry, clock, key=KEY):
    epoch = (await registry.open(key, owner="tests", mark_delete=None)).epoch
    for ledger in (1, 2):
        registry.host(key).add(epoch, bucketful(clock.now_ms(), ledger))
        registry.host(key).seal(epoch)
        await settle()
    return epoch


async def test_a_merge_is_counted_under_both_names(registry, clock):
    """Two stores, a merge, and the deletion of both sources; state ``all`` is the sum."""
    await _merged(registry, clock)
    found = scraped(registry)
    for kind, count in (("create", 2), ("merge", 1), ("delete", 2), ("load", 0)):
        assert found["delayed_tracker_bucket_operations_total", *sorted((kind, "succeed"))] == count
        assert found["delayed_tracker_bucket_operations_total", *sorted((kind, "failed"))] == 0
        for state in ("succeed", "all"):
            assert found[f"{PIP_OPERATIONS}_total", *sorted((kind, state))] == count
    assert found["delayed_tracker_indexes_total", "merged"] == 10


async def test_counters_never_fall_and_sizes_do(registry, clock):
    """A close takes a tracker's indexes off the gauges; what happened to them has happened."""
    epoch = await _merged(registry, clock)
    await _merged(registry, clock, OTHER)
    assert scraped(registry)["delayed_tracker_pending_indexes",] == 20
    before = scraped(registry)
    await registry.close_tracker(KEY, epoch)
    after = scraped(registry)
    assert after["delayed_tracker_pending_indexes",] == 10
    assert after["delayed_tracker_buckets",] == 1
    assert after["delayed_tracker_indexes_total", "added"] == 20
    falling = {name for name, value in after.items() if value < before[name] and re.search("_total$|_count$", name[0])}
    assert not falling


async def test_the_memory_of_all_trackers_has_pulsars_name_too(registry, clock):
    """It is the sum of what their statistics say."""
    await _merged(registry, clock)
    await _merged(registry, clock, OTHER)
    found = scraped(registry)
    memory_bytes = [host.stats().memory_bytes for host in registry.hosts()]
    assert found[PIP_MEMORY,] == found["delayed_tracker_memory_bytes",] == sum(memory_bytes)
    assert min(memory_bytes) > 0


async def test_everything_that_is_counted_is_shown(registry, clock):
    """A counter added to the shell or to the stats needs a metric."""
    await elapse(clock, 0)
    assert {field.name for field in dataclasses.fields(TrackerStats)} == {*SIZES, *EVENTS} | NOT_SUMMED
    shown = {name.removeprefix("delayed_tracker_").removesuffix("_total") for name, *_ in scraped(registry)}
    by_operation = {
        "snapshots_stored", "snapshots_failed", "segment_loads", "segment_loads_failed",
        "snapshots_deleted", "deletes_failed", "snapshots_merged", "merges_failed",
    }  # fmt: skip
    assert {field.name for field in dataclasses.fields(EffectCounters)} - by_operation <= shown


async def test_names_and_types_follow_the_conventions(registry):
    """Counters end in _total, gauges do not, everything has a help text; PIP-195's family has the proposal's type."""
    text = ServiceMetrics(registry, version="1").render().decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    helped = set(re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE))
    assert types.pop(PIP_OPERATIONS) == "counter"
    assert types.keys() | {PIP_OPERATIONS} == helped
    for name, kind in types.items():
        if name.startswith("delayed_tracker_"):
            assert name.endswith("_total") == (kind == "counter"), name
            assert re.fullmatch(r"[a-z_]+", name)
