"""What ``/metrics`` shows. Scraping reads plain counters: it takes no lock and computes nothing.

The process basics come from the client library's own collectors; the rest reads the tracker registry.
"""

from prometheus_client import CollectorRegistry, Gauge, GCCollector, Info, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from tracker.service.registry import TrackerRegistry

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def build_metrics(trackers: TrackerRegistry, *, version: str) -> CollectorRegistry:
    """Every metric of one service, in a registry of its own.

    Args:
        trackers: read at each scrape.
        version: this distribution's version, for ``delayed_tracker_build_info``.
    """
    metrics = CollectorRegistry()
    ProcessCollector(registry=metrics)
    PlatformCollector(registry=metrics)
    GCCollector(registry=metrics)
    build = Info("delayed_tracker_build", "The running version.", registry=metrics)
    build.info({"version": version})
    open_trackers = Gauge("delayed_tracker_open_trackers", "Trackers open now.", registry=metrics)
    open_trackers.set_function(lambda: trackers.tracker_count)
    waiting_polls = Gauge("delayed_tracker_waiting_polls", "Polls waiting for a message now.", registry=metrics)
    waiting_polls.set_function(lambda: trackers.waiting_poll_count)
    return metrics


def render_metrics(metrics: CollectorRegistry) -> bytes:
    """The exposition in text format 0.0.4."""
    return generate_latest(metrics)
