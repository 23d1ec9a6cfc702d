"""All counters are exported in both formats, with names and labels of the catalogue only."""

import dataclasses
import re

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from delayed_tracker.core.inspect.numbers import EVENTS
from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.counters import Counters
from delayed_tracker.core.values.verb_results import AddOutcome
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.exposition.tracker_samples import OF_ALL
from delayed_tracker.service.instruments.bucket_operations import COUNTERS, EffectAccount
from delayed_tracker.service.instruments.catalogue import FAMILIES, FROM_THE_LIBRARY
from delayed_tracker.service.instruments.family import Kind, Origin
from delayed_tracker.service.instruments.measured_add_log import MeasuredAddLog
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from delayed_tracker.service.instruments.service_families import SHELL_COUNTERS
from delayed_tracker.service.instruments.tracker_families import INDEX_EVENTS, OFFERS
from delayed_tracker.service.instruments.tracker_rows import COLUMNS, LABEL_BYTES_MAX
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.capabilities import StorageSpace
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.shell import KEY, OTHER, TINY, bucketful, elapse, indexes, make_registry, settle
from tests.service.metrics.scraping import assert_balanced, exposition, label_values, parsed, scraped, summed, types
from tests.service.metrics.served_storage import ServedStorage

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""The Accept header of a Prometheus server."""


@pytest.fixture
async def registry(storage, clock):
    """Return a registry that merges above one bucket."""
    registry = make_registry(storage, clock, limits=dataclasses.replace(TINY, max_num_buckets=1))
    await registry.start()
    yield registry
    await registry.close()


async def _merged(registry, clock, key=KEY):
    epoch = (await registry.open(key, owner="tests", mark_delete=None)).epoch
    for ledger in (1, 2):
        registry.host(key).add(epoch, bucketful(clock.now_ms(), ledger))
        registry.host(key).seal(epoch)
        await settle()
    return epoch


async def test_a_merge_is_counted_under_both_names(registry, clock):
    """The counts show two stores, a merge and the deletion of both sources; state ``all`` is the sum."""
    await _merged(registry, clock)
    samples = await scraped(registry)
    for kind, count in (("create", 2), ("merge", 1), ("delete", 2), ("load", 0)):
        ours, pulsars = "delayed_tracker_bucket_operations_total", "pulsar_delayed_message_index_bucket_op_count"
        assert samples[ours, "state=succeed", f"type={kind}"] == count
        assert samples[ours, "state=failed", f"type={kind}"] == 0
        for state in ("succeed", "all"):
            assert summed(samples, pulsars, state=state, type=kind) == count
        ranges = summed(samples, "pulsar_delayed_message_index_bucket_op_latency_ms", type=kind)
        assert ranges == samples["delayed_tracker_bucket_operation_duration_seconds_count", f"type={kind}"] == count
    assert samples["delayed_tracker_merged_indexes_total",] == 10
    assert_balanced(samples)


async def test_counters_never_fall_and_sizes_do(registry, clock):
    """A close removes a tracker's indexes from the gauges and ends its own series, but lowers no counter."""
    epoch = await _merged(registry, clock)
    await _merged(registry, clock, OTHER)
    before = await scraped(registry)
    assert before["delayed_tracker_pending_indexes",] == 20
    await registry.close_tracker(KEY, epoch)
    after = await scraped(registry)
    assert after["delayed_tracker_pending_indexes",] == 10
    assert after["delayed_tracker_buckets",] == 2
    assert after["delayed_tracker_indexes_total", "event=added"] == 20
    assert after["delayed_tracker_indexes_total", "event=unloaded"] == 10
    assert label_values(after, "delayed_tracker_subscription_pending_indexes")["subscription"] == {"shipping"}
    falling = {
        key for key, value in after.items() if value < before[key] and re.search("_(total|count|bucket)$", key[0])
    }
    assert not falling
    assert_balanced(after)


async def test_what_is_recovered_has_its_gauges_at_once(storage, clock):
    """A restart counts from zero, and the gauges show the stored indexes at once."""
    registry = make_registry(storage, clock)
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).seal(epoch)
    await settle()
    before = await scraped(registry)
    await registry.close()
    again = make_registry(storage, clock)
    await again.start()
    await again.open(KEY, owner="tests", mark_delete=None)
    after = await scraped(again)
    assert after["delayed_tracker_indexes_total", "event=added"] == 0
    assert after["delayed_tracker_indexes_total", "event=recovered"] == 5
    for name in ("pending_indexes", "snapshot_bytes", "latest_deadline_timestamp_seconds", "buckets"):
        assert after[f"delayed_tracker_{name}",] == before[f"delayed_tracker_{name}",] > 0
    assert after["delayed_tracker_recovery_duration_seconds_count", "outcome=succeeded"] == 1
    assert_balanced(after)
    await again.close()


async def test_above_the_limit_there_are_sums(storage, clock):
    """With labels or without, the series of a family add up to its total."""
    registry = make_registry(storage, clock, service_limits=ServiceLimits(labelled_trackers_max=1))
    await registry.start()
    epochs = {}
    for number, key in enumerate((KEY, OTHER, TrackerKey("persistent://shop/orders/late", "x"))):
        epochs[key] = (await registry.open(key, owner="tests", mark_delete=None)).epoch
        registry.host(key).add(epochs[key], bucketful(clock.now_ms(), 1 + number, count=5 + number))
        registry.host(key).seal(epochs[key])
    await settle()

    def check(samples, labelled):
        for ours, by_tracker in (
            ("pending_indexes", "delayed_tracker_subscription_pending_indexes"),
            ("buckets", "pulsar_delayed_message_index_bucket_total"),
            ("memory_bytes", "pulsar_delayed_message_index_size_bytes"),
            ("snapshot_bytes", "pulsar_delayed_message_index_bucket_snapshot_size_bytes"),
        ):
            assert summed(samples, by_tracker) == samples[f"delayed_tracker_{ours}",] > 0
        found = label_values(samples, "delayed_tracker_subscription_pending_indexes").get("subscription", set())
        assert found == labelled
        assert_balanced(samples)

    samples = await scraped(registry)
    check(samples, {KEY.subscription})
    assert samples["delayed_tracker_subscription_pending_indexes",] == 6 + 7
    assert samples["pulsar_delayed_message_index_bucket_op_count", "state=all", "type=create"] == 2
    assert samples["delayed_tracker_aggregated_trackers",] == samples["delayed_tracker_trackers_aggregated_total",] == 2

    await registry.close_tracker(OTHER, epochs[OTHER])
    samples = await scraped(registry)
    check(samples, {KEY.subscription})
    assert samples["pulsar_delayed_message_index_bucket_op_count", "state=all", "type=create"] == 2, "counters stay"
    events = "delayed_tracker_subscription_indexes_total"
    assert samples[events, "event=added"] == 6 + 7
    assert samples[events, "event=unloaded"] == 6
    await registry.close_tracker(KEY, epochs[KEY])
    check(await scraped(registry), set())
    await registry.open(OTHER, owner="tests", mark_delete=None)
    check(await scraped(registry), {OTHER.subscription})
    await registry.close()


async def test_trackers_with_very_long_names_are_summed(registry, clock):
    """Labels have a bound: names of 8 KiB in each of a tracker's series would make expositions of any size."""
    long, short = TrackerKey("t" * 4_096, "s" * 4_096), TrackerKey("t" * (LABEL_BYTES_MAX - 2), "ä")
    for key in (long, short):
        opened = await registry.open(key, owner="tests", mark_delete=None)
        registry.host(key).add(opened.epoch, bucketful(clock.now_ms(), 1))
    samples = await scraped(registry)
    pending = "delayed_tracker_subscription_pending_indexes"
    assert label_values(samples, pending)["subscription"] == {"ä"}
    assert samples[pending,] == samples["delayed_tracker_pending_indexes",] / 2 == 5
    assert samples["delayed_tracker_aggregated_trackers",] == 1


async def test_names_are_written_so_that_they_can_be_read_again(registry):
    """Any topic name is escaped so that it can be parsed; a name that is not Pulsar's has no namespace."""
    for key in (TrackerKey('a "topic"\\', "sub\nscription"), TrackerKey("späti://x", "{},=")):
        await registry.open(key, owner="tests", mark_delete=None)
    families = {family.name: family for family in text_string_to_metric_families(await exposition(registry))}
    found = [sample.labels for sample in families["delayed_tracker_subscription_pending_indexes"].samples]
    assert {"namespace": "", "topic": 'a "topic"\\', "subscription": "sub\nscription"} in found
    assert {"namespace": "", "topic": "späti://x", "subscription": "{},="} in found


@pytest.mark.parametrize("accept", ["", "text/plain", "application/json", "text/plain; version=x", ";,=;"])
async def test_the_text_format_is_what_everybody_gets(registry, accept):
    """The text format is the answer unless OpenMetrics is requested."""
    _, content_type = await ServiceMetrics(registry, version="1").scrape(accept)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("accept", [OPENMETRICS, PROMETHEUS, 'application/openmetrics-text; version="1.0.0"'])
async def test_openmetrics_has_an_example_of_what_was_late(registry, clock, accept):
    """The exemplar names a position, at the range of its lateness, with at most 128 characters of labels."""
    key = TrackerKey("persistent://shop/orders/" + "e" * 90, "billing")
    epoch = (await registry.open(key, owner="tests", mark_delete=None)).epoch
    registry.host(key).add(epoch, indexes(clock.now_ms(), (7, 42, 100), (7, 43, 2_000)))
    await elapse(clock, 2_070)
    await registry.host(key).poll(epoch, max_count=9, wait_ms=0, lease_ms=1_000)
    body, content_type = await ServiceMetrics(registry, version="1").scrape(accept)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in openmetrics_families(body.decode())}
    samples = {s.labels.get("le"): s for s in families["delayed_tracker_handoff_lateness_seconds"].samples}
    assert samples["2.5"].exemplar.labels == {"position": "7:42", "subscription": "billing"}
    assert samples["2.5"].exemplar.value == pytest.approx(1.970)
    assert samples["2.5"].value - samples["1.0"].value == 1 == samples["0.1"].value
    assert families["delayed_tracker_early_handoffs"].samples[0].value == 0
    assert " # {" not in await exposition(registry)


async def test_the_catalogue_is_what_is_shown(storage, clock):
    """In both formats the families and the label values are exactly those that the catalogue declares."""
    add_log = MeasuredAddLog(MemoryAddLog(), "memory", clock)
    registry = make_registry(storage, clock, limits=dataclasses.replace(TINY, max_num_buckets=1), add_log=add_log)
    await registry.start()
    await _merged(registry, clock)
    storage = MeasuredStorage(ServedStorage(), "memory", clock)
    storage.space.space = StorageSpace(used_bytes=1, free_bytes=2)
    declared = {family.name: family for family in FAMILIES}
    text = await exposition(registry, storage=storage, add_log=add_log, cluster="east")
    shown = {name: kind for name, kind in types(text).items() if not name.startswith(FROM_THE_LIBRARY)}
    assert shown == {name: family.kind.value for name, family in declared.items()}
    assert len(declared) == len(FAMILIES)
    samples = parsed(text)
    for name, family in declared.items():
        shown_as = f"{name}_count" if family.kind is Kind.HISTOGRAM and family.origin is not Origin.PULSAR else name
        found = label_values(samples, shown_as)
        assert found.keys() <= family.labels.keys()
        for label, values in family.labels.items():
            assert not values or found.get(label, set()) == set(values) or name.startswith("grpc_"), (name, label)
    body, _ = await ServiceMetrics(registry, version="1", storage=storage, add_log=add_log).scrape(OPENMETRICS)
    families = [family.name for family in openmetrics_families(body.decode())]
    ours = {name for name in families if not name.startswith(FROM_THE_LIBRARY)}
    assert ours == {
        name.removesuffix("_total") if family.kind is Kind.COUNTER and family.origin is not Origin.PULSAR else name
        for name, family in declared.items()
    }
    await registry.close()


def test_everything_that_is_counted_is_shown():
    """Every counter of the core or the service has a metric."""
    counted = {field.name for field in dataclasses.fields(Counters)} - {"tracked", "merges"}
    assert counted == set(EVENTS)
    row = [1_000_000 + number for number in range(len(COLUMNS))]
    values = parsed("".join(samples("", row, EffectAccount(ManualClock(), {})) for _, samples in OF_ALL)).values()
    shown = {value if value >= 1_000_000 else value * 1_000 for value in values}
    hidden = {name for name, value in zip(COLUMNS, row, strict=True) if value not in shown}
    assert hidden == {"next_delivery_ms"}
    # Hand-outs are counted by the lateness histogram.
    of_the_shell = {field.name for field in dataclasses.fields(EffectCounters)} - {"handed_out"}
    assert of_the_shell == {*COUNTERS.values(), *SHELL_COUNTERS}
    answers = {field.name for field in dataclasses.fields(AddOutcome)} - {"added_count"}
    assert set(OFFERS) == answers | {"added"}


def test_names_follow_the_conventions():
    """Counters end in _total, gauges and histograms do not, units are base units, meanings are sentences."""
    for family in FAMILIES:
        assert re.fullmatch(r"[A-Z].*\.", family.meaning), family.name
        assert "\n" not in family.meaning
        if family.origin is Origin.PULSAR:
            continue
        assert re.fullmatch(r"(delayed_tracker|grpc_server)_[a-z_]+", family.name)
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER), family.name
        assert not re.search(r"_(ms|millis|minutes|hours|count|sum|bucket)$", family.name.removesuffix("_total"))


async def test_the_truth_of_one_tracker(registry, clock):
    """The samples of due, leased, early and late indexes and of all events are correct at each step of a tracker."""
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    host, begin_ms = registry.host(KEY), clock.now_ms()
    offered = indexes(begin_ms, (1, 0, 100), (1, 1, 200), (1, 2, 300), (1, 2, 300), (1, 3, -5), (1, 4, 900_000))
    host.add(epoch, offered)
    samples = await scraped(registry)
    assert {result: samples["delayed_tracker_offered_indexes_total", f"result={result}"] for result in OFFERS} == {
        "added": 4, "due": 1, "duplicate": 1, "beyond_max_delay": 0, "below_mark_delete": 0,
    }  # fmt: skip
    assert samples["delayed_tracker_due_indexes",] == 0
    assert samples["delayed_tracker_earliest_deadline_timestamp_seconds",] == (begin_ms + 100) / 1_000
    assert samples["delayed_tracker_latest_deadline_timestamp_seconds",] == (begin_ms + 900_000) / 1_000
    assert samples["delayed_tracker_mutable_indexes",] == samples["delayed_tracker_loaded_indexes",] == 4

    clock.advance(250)  # no call comes: time alone makes them due
    assert (await scraped(registry))["delayed_tracker_due_indexes",] == 2
    clock.advance(50)
    assert (await scraped(registry))["delayed_tracker_due_indexes",] == 3

    delivery = await host.poll(epoch, max_count=2, wait_ms=0, lease_ms=1_000)
    samples = await scraped(registry)
    assert samples["delayed_tracker_due_indexes",] == 1
    assert samples["delayed_tracker_leased_indexes",] == 2
    assert samples["delayed_tracker_pending_indexes",] == 2
    assert samples["delayed_tracker_handoff_lateness_seconds_sum",] == pytest.approx(0.200 + 0.100)
    assert_balanced(samples)

    host.ack(epoch, delivery.lease_id, PositionColumns.of([(1, 0)]))
    await elapse(clock, 1_500)
    host.cancel(epoch, PositionColumns.of([(1, 4)]))
    assert host.reschedule(epoch, indexes(clock.now_ms(), (1, 1, 0), (1, 2, 0), (9, 9, 0))).rescheduled_count == 2
    samples = await scraped(registry)
    assert samples["delayed_tracker_rescheduled_indexes_total",] == 2
    assert samples["delayed_tracker_lease_expirations_total",] == 1
    assert samples["delayed_tracker_due_indexes",] == samples["delayed_tracker_pending_indexes",] == 2
    assert_balanced(samples)

    await host.poll(epoch, max_count=9, wait_ms=0, lease_ms=0)
    samples = await scraped(registry)
    events = {event: samples["delayed_tracker_indexes_total", f"event={event}"] for event in INDEX_EVENTS}
    assert {event: count for event, count in events.items() if count} == {
        "added": 4, "acked": 1, "cancelled": 1, "handed_off": 2,
    }  # fmt: skip
    assert ("delayed_tracker_earliest_deadline_timestamp_seconds",) not in samples
    assert_balanced(samples)


async def test_what_could_not_be_stored_is_told_until_it_is(storage, clock):
    """The gauges count indexes that stay in memory after a failed store, and buckets that wait for a failing merge."""
    registry = make_registry(storage, clock, limits=dataclasses.replace(TINY, max_num_buckets=1))
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch

    async def unavailable(*_args, **_kwargs):
        raise StorageUnavailable("gone")

    storage.before["create_bucket_snapshot"] = unavailable
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).seal(epoch)
    await elapse(clock, 400)
    samples = await scraped(registry)
    assert samples["delayed_tracker_fallback_indexes",] == 5
    assert samples["delayed_tracker_bucket_operations_total", "state=failed", "type=create"] == 1
    assert samples["delayed_tracker_effects_failed_total",] == 1
    del storage.before["create_bucket_snapshot"]
    await elapse(clock, 2_000)
    assert (await scraped(registry))["delayed_tracker_fallback_indexes",] == 0

    storage.before["get_bucket_snapshot_segments"] = unavailable
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 2))
    registry.host(KEY).seal(epoch)
    await elapse(clock, 300)
    assert (await scraped(registry))["delayed_tracker_merge_backlog_buckets",] == 1
    del storage.before["get_bucket_snapshot_segments"]
    await elapse(clock, 2_000)
    samples = await scraped(registry)
    assert samples["delayed_tracker_merge_backlog_buckets",] == 0
    assert_balanced(samples)
    await registry.close()
