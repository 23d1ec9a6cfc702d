"""A broker that speaks to its service over TLS, shows a certificate, and sends a token that may be replaced."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.plugin.installation import Installation
from tests.cluster.plugin.service import Service
from tests.cluster.plugin.test_delivery import assert_delivered
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import now_ms
from tests.service.security.certificates import Authority
from tests.service.security.tokens import OTHER_SECRET, SECRET, data_url, token

# The broker starts twice.
pytestmark = [pytest.mark.deep, pytest.mark.timeout(600)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service that demands a certificate of our authority, and a token."""
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    for name in ("tracker", "broker"):
        own = authority.issue(name)
        (tmp_path / f"{name}.pem").write_bytes(own.certificate)
        (tmp_path / f"{name}-key.pem").write_bytes(own.key)
    (tmp_path / "service").mkdir()
    running = Service(
        tmp_path / "service",
        f"tlsCertificateFilePath={tmp_path / 'tracker.pem'}",
        f"tlsKeyFilePath={tmp_path / 'tracker-key.pem'}",
        f"tlsTrustCertsFilePath={tmp_path / 'ca.pem'}",
        "authenticationEnabled=true",
        "authenticationProviders=token",
        f"tokenSecretKey={data_url(SECRET)}",
        scheme="mtls://",
    )
    running.start()
    yield running
    running.process.kill()


def test_a_token_that_is_refused_and_then_replaced(installed: Installation, service: Service, tmp_path: Path):
    """Refused, the broker keeps its messages and says why; with a good token it goes on by itself, and loses nothing."""
    broker, shown = installed.broker, tmp_path / "token"
    shown.write_text(token("broker", key=OTHER_SECRET))
    settings = {
        "delayedTrackerServiceAddresses": service.address,
        "delayedTrackerTlsEnabled": "true",
        "delayedTrackerTlsTrustCertsFilePath": str(tmp_path / "ca.pem"),
        "delayedTrackerTlsCertificateFilePath": str(tmp_path / "broker.pem"),
        "delayedTrackerTlsKeyFilePath": str(tmp_path / "broker-key.pem"),
        "delayedTrackerTokenFile": str(shown),
    }
    broker.stop()
    broker.start(settings)
    try:
        topic, since = broker.new_topic("secured"), broker.log_size()
        consumer = broker.clients.subscribe(topic, "worker")
        ids = broker.clients.produce(topic, [now_ms() + 8_000 + number for number in range(500)])
        wait_until(lambda: broker.log_lines("Failed to open .*UNAUTHENTICATED", since) != [])
        assert consumer.received() == []
        shown.write_text(token("broker"))
        # The broker has a sample for the topic, too.
        labels = {"topic": topic, "subscription": "worker"}
        wait_until(lambda: broker.admin.metric("pulsar_delayed_tracker_connected", **labels) == 1)
        assert_delivered([consumer], ids)
    finally:
        broker.stop()
        broker.start()
