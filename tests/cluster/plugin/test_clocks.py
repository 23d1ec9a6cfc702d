"""A service whose clock differs from the broker's: no message is early by the broker's clock, none is lost or sent round in circles."""

import pytest

from tests.bookkeeper.servers.fixtures import without
from tests.cluster.plugin.installation import Installation
from tests.cluster.plugin.test_delivery import assert_delivered, settle
from tests.cluster.pulsar.servers.broker import now_ms
from tests.integration.crashes.tracing import debian_tools

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def clock(skew: str) -> dict[str, str]:
    """Return the variables of a process whose wall clock differs; its monotonic clock does not."""
    library = debian_tools() / "faketime" / "libfaketime.so.1"
    if not library.exists():
        without("there is no libfaketime: run .ci/debian-tools")
    return {"LD_PRELOAD": str(library), "FAKETIME": skew, "DONT_FAKE_MONOTONIC": "1"}


@pytest.mark.parametrize("ahead_s", [5, -5])
def test_clocks_that_differ_by_five_seconds(installed: Installation, ahead_s: int):
    """Ahead, the service hands out early, and the plugin waits; behind, messages come later by the difference at most."""
    broker, service, topic = installed.broker, installed.service, installed.broker.new_topic("skewed")
    variables = clock(f"{ahead_s:+d}s")
    service.process.stop()
    service.start(variables)
    try:
        consumers = [broker.clients.subscribe(topic, "worker") for _ in range(2)]
        now = now_ms()
        # Some are due by one clock and not by the other when they are added.
        times = [now + 500 + number * 20 for number in range(1_500)]
        ids = broker.clients.produce(topic, times)
        late = sorted(message.late_ms for message in assert_delivered(consumers, ids))
        settle(installed, topic, tracked=0)
        # The broker has a sample for the topic, too.
        labels = {"topic": topic, "subscription": "worker"}
        calls = broker.admin.metric("pulsar_delayed_tracker_round_trips_total", **labels)
    finally:
        service.process.stop()
        service.start()
    print(f"late p50 {late[len(late) // 2]} ms, longest {late[-1]} ms; {calls:.0f} calls")
    assert late[len(late) // 2] < max(0, -ahead_s) * 1_000 + 2_000
    assert 0 < calls < len(ids)
