"""The plugin in a broker of Pulsar's long-term release, for which it is built from sources of its own."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.bookkeeper.servers.cluster import running_cluster
from tests.bookkeeper.servers.fixtures import without
from tests.cluster.plugin.installation import Installation
from tests.cluster.plugin.plugin import plugin_jar
from tests.cluster.plugin.test_delivery import assert_delivered, settle
from tests.cluster.pulsar.servers.broker import HOUR_MS, now_ms
from tests.cluster.pulsar.servers.java_clients import running_java_clients
from tests.jvm.pulsar_classes import BROKER_POM, NoPulsarClasses

# It fetches 120 MB the first time.
pytestmark = [pytest.mark.deep, pytest.mark.timeout(1_200)]

LINE: Final = "4.0"
RELEASE: Final = "4.0.7"


@pytest.fixture
def older(tmp_path: Path) -> Iterator[Installation]:
    """A cluster of its own, because brokers of two releases would share the topics of one."""
    pom = tmp_path / "pom.xml"
    told = BROKER_POM.read_text(encoding="utf-8")
    pom.write_text(re.sub("<pulsar.version>.*</pulsar.version>", f"<pulsar.version>{RELEASE}</pulsar.version>", told))
    (tmp_path / "cluster").mkdir()
    try:
        with running_java_clients() as java, running_cluster(tmp_path / "cluster", 2) as cluster:
            installed = Installation(cluster, tmp_path / "plugin", java, plugin_jar(LINE), pom=pom)
            try:
                installed.start()
                yield installed
            finally:
                installed.abandon()
    except NoPulsarClasses as missing:
        without(missing)


def test_messages_come_once_and_in_time_and_survive_a_restart(older: Installation):
    broker, topic = older.broker, older.broker.new_topic("older")
    consumer = broker.clients.subscribe(topic, "worker")
    soon = broker.clients.produce(topic, [now_ms() + 3_000 + number for number in range(1_000)])
    assert_delivered([consumer], soon)
    late = broker.clients.produce(topic, [now_ms() + HOUR_MS] * 500)
    settle(older, topic, tracked=len(late))
    broker.kill()
    broker.start()
    settle(older, topic, tracked=len(late))
    assert older.stats(topic, "worker").pending_count + older.stats(topic, "worker").leased_count == len(late)
