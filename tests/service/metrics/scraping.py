"""Helpers that parse expositions: values by family, under Pulsar's names as they are written."""

import re
from collections import defaultdict
from functools import cache

from prometheus_client.parser import text_string_to_metric_families

from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.instruments.tracker_families import INDEX_EVENTS

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@cache
def _labels(text):
    return sorted(f"{name}={value}" for name, value in _LABEL.findall(text))


def parsed(text):
    """Return values by name and labels, as (name, label=value, ...) in the order of label names."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        found = _SAMPLE.match(line)
        assert found, line
        key = (found["name"], *_labels(found["labels"] or ""))
        assert key not in samples, f"{key} stands twice"
        samples[key] = float(found["value"])
    return samples


async def exposition(registry, **options):
    """Scrape the text format; it must parse, and each family must be together under its own header."""
    text = (await ServiceMetrics(registry, version="1", **options).scrape())[0].decode()
    list(text_string_to_metric_families(text))
    return text


async def scraped(registry, **options):
    return parsed(await exposition(registry, **options))


def summed(samples, name, **labels):
    """Return the sum of all series of a family that have these labels."""
    wanted = {f"{label}={value}" for label, value in labels.items()}
    return sum(value for (found, *given), value in samples.items() if found == name and wanted <= set(given))


def types(text):
    """Return types by name; no name may occur twice."""
    found = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    assert len(dict(found)) == len(found)
    return dict(found)


def label_values(samples, name):
    """Return all values of each label of a family."""
    values = defaultdict(set)
    for found, *labels in samples:
        if found == name:
            for label in labels:
                values[label.partition("=")[0]].add(label.partition("=")[2])
    return dict(values)


def assert_balanced(samples):
    """Assert that added + recovered = pending + leased + all other events, for each tracker and for the sums."""
    for prefix in ("delayed_tracker_", "delayed_tracker_subscription_"):
        ours = {key: value for key, value in samples.items() if key[0].startswith(prefix) and "indexes" in key[0]}
        events = {event: summed(ours, f"{prefix}indexes_total", event=event) for event in INDEX_EVENTS}
        came = events.pop("added") + events.pop("recovered")
        here = summed(ours, f"{prefix}pending_indexes") + summed(ours, f"{prefix}leased_indexes")
        assert came == here + sum(events.values()), (prefix, came, here, events)
