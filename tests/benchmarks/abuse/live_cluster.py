"""Time to rebuild a topic's buckets from a live cluster and load them, beside a broker's replay, as a table.

python -m tests.benchmarks.abuse.live_cluster [--messages N] [--runs N] [--directory DIR]

A ZooKeeper, two bookies and a broker run beside the commands, on the same cores. Each load is checked: the subscription must have
every message.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.benchmarks.machine import timed
from tests.bookkeeper.servers.cluster import running_cluster
from tests.cluster.pulsar.commands import Ran, run_spark_rebuild
from tests.cluster.pulsar.servers.broker import HOUR_MS, ROOT, Broker, now_ms
from tests.cluster.pulsar.servers.java_clients import running_java_clients
from tests.cluster.pulsar.topics import Topic, fill, subscribed, wait_attached

_SUBSCRIPTION: Final = "worker"
# Ledgers and buckets of a size that production has.
_SETTINGS: Final = {"managedLedgerMaxEntriesPerLedger": "50000", "delayedDeliveryMinIndexCountPerBucket": "50000"}


def measure(directory: Path, messages: int, runs: int) -> None:
    """Fill a topic, and print a row for each step."""
    with ExitStack() as running:
        java = running.enter_context(running_java_clients())
        cluster = running.enter_context(running_cluster(directory, bookies=2))
        (directory / "broker").mkdir()
        broker = Broker(cluster, directory / "broker", java, _SETTINGS)
        running.callback(broker.abandon)
        broker.start()
        topic = Topic(broker.new_topic("stored"))
        fill(broker, topic, [now_ms() + 24 * HOUR_MS + number for number in range(messages)], [_SUBSCRIPTION])

        print("| step | seconds |\n| --- | --- |", flush=True)
        reading = ("--source", broker.url, "--topic", topic.name, "--broker-conf", str(broker.configuration), "--json")
        staging = ("--staging", str(directory / "staging"))
        for number in range(runs):
            broker.remove_buckets(topic.name, _SUBSCRIPTION)
            print_row("a broker replays", timed(lambda: load(broker, topic)))
            broker.remove_buckets(topic.name, _SUBSCRIPTION)
            commit = f"pulsar:zk://{broker.zookeeper.address}{ROOT}"
            print_row(
                "rebuild --commit pulsar:",
                timed(lambda c=commit: rebuild(directory, *reading, *staging, "--commit", c)),
            )
            print_row("a broker loads the buckets", timed(lambda: load(broker, topic)))
            storage = f"sqlite:{directory / f'rebuilt-{number}.db'}"
            took = timed(
                lambda s=storage: rebuild(directory, *reading, *staging, "--commit", s, "--master", "local[1]")
            )
            print_row("rebuild into a file, one core, from the bookies", took)


def load(broker: Broker, topic: Topic) -> None:
    """Load the topic, wait until its tracker has every message, and unload it."""
    with subscribed(broker, [topic], [_SUBSCRIPTION], acknowledge=False):
        wait_attached(broker, topic, _SUBSCRIPTION)


def rebuild(directory: Path, *arguments: str) -> None:
    """Run ``spark-rebuild rebuild``; its stages go to the error output."""
    ran: Ran = run_spark_rebuild(directory, "rebuild", *arguments)
    print(ran.err, file=sys.stderr)
    if ran.status:
        sys.exit(f"spark-rebuild ended with {ran.status}")


def print_row(name: str, seconds: float) -> None:
    """Print one row of the table."""
    print(f"| {name} | {seconds:,.1f} |", flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--directory", type=Path, default=None, help="place for the files; default: a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        measure(Path(directory), given.messages, given.runs)


if __name__ == "__main__":
    main()
