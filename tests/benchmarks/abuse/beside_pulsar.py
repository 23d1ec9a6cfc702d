"""The service as a broker's tracker beside Pulsar's own: the same broker, the same traffic, one after the other, as a table.

python -m tests.benchmarks.abuse.beside_pulsar [--pending N] [--rates N,N] [--seconds N] [--directory DIR]

Each run has a topic with so many messages pending for a day, and then a flow of messages with a delay of five seconds, with 50
plain ones a second between them. A consumer acknowledges all of them; each must come, and none early. The broker, its bookies
and the service share the cores.
"""

import argparse
import json
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks.machine import ProcessMeter
from tests.bookkeeper.servers.cluster import running_cluster
from tests.cluster.plugin.installation import Installation
from tests.cluster.plugin.plugin import plugin_jar
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import HOUR_MS, now_ms
from tests.cluster.pulsar.servers.java_clients import Received, running_java_clients

_SUBSCRIPTION: Final = "worker"
_DELAY_MS: Final = 5_000
_PLAIN_PER_SECOND: Final = 50
# As a broker has them, not as small as those of the tests.
_SETTINGS: Final = {
    "managedLedgerMaxEntriesPerLedger": "50000",
    "delayedDeliveryMinIndexCountPerBucket": "50000",
    "delayedDeliveryMaxIndexesPerBucketSnapshotSegment": "5000",
    "delayedDeliveryMaxNumBuckets": "50",
}
_TRACKERS: Final = ("none", "pulsar", "service")
"""The first is the control: the same messages, without delays."""


@dataclass(frozen=True, slots=True)
class Run:
    """Measurements of one run."""

    load_s: float
    heap_mb: float
    """Heap of the broker after a garbage collection, with everything pending."""
    broker_s: float
    """Processor seconds of the broker while the flow went on."""
    service_s: float
    late_ms: list[int]
    plain_ms: list[int]
    waits_ms: float
    """Time that the broker's threads waited for monitors, all together."""
    longest_wait_ms: float


class Bench:
    """A broker with both trackers, and its clients."""

    def __init__(self, installed: Installation, directory: Path) -> None:
        self._installed = installed
        self._broker = installed.broker
        self._directory = directory
        self._number = 0

    def run(self, tracker: str, pending: int, rate: int, seconds: int) -> Run:
        """Measure one tracker at one rate."""
        broker, self._number = self._broker, self._number + 1
        topic = broker.new_topic(f"{tracker}-{rate}")
        delayed = tracker != "none"
        broker.admin.create(topic, {"delayedTracker": tracker if delayed else "memory"})
        broker.clients.subscribe(topic, _SUBSCRIPTION)
        due = now_ms() + 24 * HOUR_MS
        broker.clients.produce(topic, [due + number if delayed else 0 for number in range(pending)])
        broker.clients.disconnect()
        broker.admin.unload(topic)
        begun_s = time.perf_counter()
        consumer = broker.clients.subscribe(topic, _SUBSCRIPTION)
        wait_until(lambda: broker.admin.delayed(topic, _SUBSCRIPTION) >= (pending if delayed else 0))
        load_s = time.perf_counter() - begun_s
        heap = self._heap_mb()

        recording = self._directory / f"{self._number}.jfr"
        self._jcmd("JFR.start", "name=bench", "settings=profile")
        meters = [ProcessMeter(broker.process.pid), ProcessMeter(self._installed.service.process.pid)]
        before = [meter.cpu_ns / 1e9 for meter in meters]
        flow = broker.clients.steady(topic, [_DELAY_MS if delayed else 0], rate)
        plain = broker.clients.steady(topic, [0], _PLAIN_PER_SECOND)
        threading.Event().wait(seconds)
        sent = {*flow.settle().ids}
        plain_ids = {*plain.settle().ids}
        wait_until(lambda: {*sent, *plain_ids} <= {message.id for message in consumer.received()})
        broker_s, service_s = (meter.cpu_ns / 1e9 - start for meter, start in zip(meters, before, strict=True))
        self._jcmd("JFR.dump", "name=bench", f"filename={recording}")
        self._jcmd("JFR.stop", "name=bench")
        received = {message.id: message for message in consumer.received()}
        late = sorted(received[each].late_ms for each in sent) if delayed else []
        latency = sorted(latency_ms(received[each]) for each in plain_ids)
        waits = monitor_waits_ms(recording)
        broker.clients.disconnect()
        broker.admin.unload(topic)
        return Run(load_s, heap, broker_s, service_s, late, latency, sum(waits), max(waits, default=0.0))

    def _heap_mb(self) -> float:
        self._jcmd("GC.run")
        said = self._jcmd("GC.heap_info")
        used = [int(word.removesuffix("K")) for line in said.splitlines() if "used" in line and "total" in line
                for word in [line.split("used ")[1].split(",")[0].split()[0]]]  # fmt: skip
        return sum(used) / 1_000

    def _jcmd(self, *words: str) -> str:
        command = ["jcmd", str(self._broker.process.pid), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def latency_ms(message: Received) -> int:
    """Return how long a plain message was on its way."""
    return message.received_ms - message.published_ms


def monitor_waits_ms(recording: Path) -> list[float]:
    """Return the times that threads waited for monitors, of those that the recorder notes (10 ms and more)."""
    command = ["jfr", "print", "--json", "--events", "jdk.JavaMonitorEnter", str(recording)]
    events = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [float(event["values"]["duration"].removeprefix("PT").removesuffix("S")) * 1_000
            for event in events["recording"]["events"]]  # fmt: skip


def at(values: list[int], share: float) -> str:
    """Return a quantile of sorted values."""
    return f"{values[min(len(values) - 1, int(len(values) * share))]:,}" if values else ""


def print_row(tracker: str, rate: int, run: Run) -> None:
    """Print one row of the table."""
    cells = [
        tracker, f"{rate:,}", f"{run.load_s:.1f}", f"{run.heap_mb:,.0f}", f"{run.broker_s:.1f}", f"{run.service_s:.1f}",
        at(run.late_ms, 0.5), at(run.late_ms, 0.99), at(run.plain_ms, 0.5), at(run.plain_ms, 1), f"{run.waits_ms:,.0f}",
        f"{run.longest_wait_ms:,.0f}",
    ]  # fmt: skip
    print(f"| {' | '.join(cells)} |", flush=True)


def measure(directory: Path, pending: int, rates: list[int], seconds: int) -> None:
    """Print a row for each tracker and rate."""
    with ExitStack() as running:
        java = running.enter_context(running_java_clients())
        cluster = running.enter_context(running_cluster(directory, bookies=2))
        installed = Installation(cluster, directory / "plugin", java, plugin_jar(), _SETTINGS)
        running.callback(installed.abandon)
        installed.start()
        bench = Bench(installed, directory)
        print(f"{pending:,} messages pending, {seconds} s at each rate\n")
        print("| tracker | messages/s | load s | heap MB | broker CPU s | service CPU s | late p50 ms | late p99 ms "
              "| plain p50 ms | plain longest ms | monitor waits ms | longest wait ms |")  # fmt: skip
        print("| --- " * 12 + "|", flush=True)
        bench.run("none", 1_000, 200, 5)  # warms up
        for rate in rates:
            for tracker in _TRACKERS:
                print_row(tracker, rate, bench.run(tracker, pending, rate, seconds))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pending", type=int, default=50_000)
    parser.add_argument("--rates", default="1000", help="messages a second, separated by commas")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--directory", type=Path, default=None, help="place for the files; default: a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        measure(Path(directory), given.pending, [int(rate) for rate in given.rates.split(",")], given.seconds)


if __name__ == "__main__":
    main()
