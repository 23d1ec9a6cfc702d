"""The guide for brokers, followed word for word: installed, configured, watched, and left again without losing a message."""

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bookkeeper.servers.cluster import Cluster
from tests.cluster.plugin.installation import Installation
from tests.cluster.plugin.plugin import plugin_jar
from tests.cluster.plugin.service import Service
from tests.cluster.pulsar.commands import run_tracker
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import HOUR_MS, SETTINGS, Broker, now_ms
from tests.cluster.pulsar.servers.java_clients import running_java_clients
from tests.repository.documents import PLUGIN_GUIDE, plugin_commands, read, section

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TOPIC = "persistent://public/default/orders"


@dataclass
class Reader:
    """A reader who types the commands of the guide, one after the other, on a machine with a broker."""

    broker: Broker
    service: Service
    commands: list[str]

    def follow(self, *expected: str) -> None:
        """Type the next commands; their beginnings are given, so that the guide does not change unnoticed."""
        for beginning in expected:
            line = self.commands.pop(0)
            assert line.startswith(beginning), line
            self._type(line)

    def _pending(self, arguments: list[str]) -> int:
        ran = run_tracker(*arguments, "--server", self.service.address, "--json")
        assert ran.status == 0, ran.err
        return ran.document["pending_count"] + ran.document["leased_count"]

    def _type(self, line: str) -> None:
        program, *arguments = shlex.split(line)
        match program, *arguments:
            case "delayed-tracker", "serve", *_:
                self.service.start()
            case "make" | "cp", *_:
                # Built already, and in front of the broker's other jars.
                assert shutil.which("make")
                assert arguments[0] == "pulsar-plugin" or arguments[0].endswith(f"/{plugin_jar().name}")
            case "bin/pulsar-admin", "topics", "update-properties", topic, "--property", setting:
                self.broker.admin.set_property(topic, *setting.split("="))
            case "bin/pulsar-admin", "topics", "unload", topic:
                self.broker.admin.unload(topic)
            case "bin/pulsar-admin", "topics", "stats", topic:
                assert self.broker.admin.stats(topic)["subscriptions"]["worker"]["msgDelayed"] == COUNT
            case "delayed-tracker", *rest:
                wait_until(lambda: self._pending(rest) == COUNT)
            case _:
                raise AssertionError(line)


COUNT = 1_000
"""Messages of the topic."""


def settings_of_the_guide() -> dict[str, str]:
    """Return the lines for broker.conf."""
    (block,) = re.findall(r"```properties\n(.*?)```", read(PLUGIN_GUIDE), re.DOTALL)
    return dict(line.split("=", 1) for line in block.splitlines())


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path, installed: Installation) -> Iterator[Reader]:
    """A broker with the settings of the guide alone, and a service that does not run yet."""
    with ExitStack() as running:
        # The bookies are shared; of two brokers either may own the topic.
        installed.broker.stop()
        running.callback(installed.broker.start)
        java = running.enter_context(running_java_clients())
        (tmp_path / "service").mkdir()
        service = Service(tmp_path / "service")
        lines = settings_of_the_guide()
        assert lines.pop("delayedTrackerServiceAddresses") == "127.0.0.1:7650"
        settings = {**SETTINGS, **lines, "delayedTrackerServiceAddresses": service.address}
        broker = Broker(cluster, tmp_path, java, settings, [plugin_jar()])
        running.callback(lambda: service.process.running and service.process.kill())
        # Its session with ZooKeeper would outlive it, and others would be sent to it for its topics.
        running.callback(lambda: broker.process.running and broker.kill())
        yield Reader(broker, service, plugin_commands())


def test_the_guide_is_followed_there_and_back(reader: Reader):
    """A topic with messages in Pulsar's buckets is taken over, is delivered from the service, and is given back."""
    broker = reader.broker
    reader.follow("delayed-tracker serve", "make", "cp")
    broker.start()
    consumer = broker.clients.subscribe(TOPIC, "worker")
    due = now_ms() + HOUR_MS
    broker.clients.produce(TOPIC, [due + number for number in range(COUNT)])
    wait_until(lambda: len(broker.buckets(TOPIC, "worker")) >= 1)

    reader.follow("bin/pulsar-admin topics update-properties", "bin/pulsar-admin topics unload")
    wait_until(lambda: broker.buckets(TOPIC, "worker") == {})
    wait_until(lambda: broker.admin.delayed(TOPIC, "worker") == COUNT)
    reader.follow("bin/pulsar-admin topics stats", "delayed-tracker stats")
    soon = broker.clients.produce(TOPIC, [now_ms() + 2_000])
    assert [message.id for message in consumer.received(1)] == soon

    reader.follow("bin/pulsar-admin topics update-properties", "bin/pulsar-admin topics unload")
    wait_until(lambda: broker.admin.delayed(TOPIC, "worker") == COUNT)
    assert reader.commands == []
    assert [message.id for message in consumer.received()] == soon


def test_every_setting_and_metric_stands_in_the_guide():
    """As they stand in the sources."""
    sources = "".join(path.read_text(encoding="utf-8") for path in Path("pulsar-plugin/src/main").rglob("*.java"))
    keys = {f"delayedTracker{name}" for name in re.findall(r'PREFIX \+ "(\w+)"', sources)}
    assert keys == set(re.findall(r"`(delayedTracker\w+)`", section(PLUGIN_GUIDE, "Settings")))
    metrics = set(re.findall(r'"(pulsar_delayed_tracker_\w+)"', sources))
    assert metrics == set(re.findall(r"`(pulsar_delayed_tracker_\w+)`", read(PLUGIN_GUIDE)))
