"""``pulsar publish`` that is killed anywhere: the broker recovers, and repair removes what was left."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bookkeeper.servers.proxy import Proxy, running_proxy
from tests.cluster.pulsar.commands import run_tracker
from tests.cluster.pulsar.servers.broker import HOUR_MS, ROOT, Broker, now_ms
from tests.cluster.pulsar.topics import FELL_BACK, RECOVERED, Topic, fill, subscribed, wait_attached

pytestmark = [pytest.mark.deep, pytest.mark.timeout(3_600)]
NAME: Final = "worker"
KILLS: Final = 20


async def test_a_publish_that_is_killed_at_any_step(broker: Broker, tmp_path: Path):
    """After each kill the broker recovers all messages, and what inspect lists as left over is gone after a repair."""
    topic = Topic(broker.new_topic("killed"))
    fill(broker, topic, [now_ms() + 4 * HOUR_MS + number for number in range(3_000)], [NAME])
    storage = f"sqlite:{tmp_path / 'adopted.db'}"
    ran = run_tracker("pulsar", "adopt", "--from", broker.url, "--to", storage, "--topic", topic.name, "--yes")
    assert ran.status == 0, ran.err

    async with running_proxy(broker.zookeeper.port) as proxy:
        arguments = ("pulsar", "publish", "--from", storage, "--to", f"bookkeeper+zk:{proxy.address}{ROOT}",
                     "--admin", broker.admin.url, "--broker-conf", str(broker.configuration), "--yes")  # fmt: skip
        assert await published(proxy, arguments, sys.maxsize) == 0
        whole = proxy.chunks_sent
        kills, left_over = 0, set[str]()
        for number in range(KILLS):
            backup = tmp_path / f"backup{number}.jsonl"
            steps = whole * (number + 1) // KILLS
            kills += await published(proxy, (*arguments, "--backup", str(backup)), steps) != 0
            left_over |= await asyncio.to_thread(recovered_and_repaired, broker, topic)
    assert kills >= KILLS * 3 // 4
    # Kills before the switch leave new ledgers, those after it old ones.
    assert left_over == {"orphan"}


async def published(proxy: Proxy, arguments: tuple[str, ...], steps: int) -> int:
    """Run the command, kill it once it has sent so much more to ZooKeeper, and return its status."""
    sent = proxy.chunks_sent
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", *arguments, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, env=os.environ,
    )  # fmt: skip
    ended = asyncio.ensure_future(process.wait())
    reached = asyncio.ensure_future(proxy.until_sent(sent + steps))
    await asyncio.wait([ended, reached], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        process.kill()
    reached.cancel()
    return await ended


def recovered_and_repaired(broker: Broker, topic: Topic) -> set[str]:
    """Have the broker load the topic, then repair it; return the kinds of what inspect found before."""
    before = inspected(broker, topic)
    log = broker.log_size()
    with subscribed(broker, [topic], [NAME], acknowledge=False):
        wait_attached(broker, topic, NAME)
    assert len(broker.log_lines(RECOVERED, log)) == 1
    assert broker.log_lines(f"BadVersion|{FELL_BACK}", log) == []
    ran = run_tracker("pulsar", "repair", broker.url, "--topic", topic.name, "--yes")
    assert ran.status == 0, ran.err
    assert inspected(broker, topic)["sound"]
    problems = [bucket["problems"] for each in before["subscriptions"] for bucket in each["buckets"]]
    return {problem["fault"] for found in problems for problem in found} | {"orphan" for _ in before["orphans"]}


def inspected(broker: Broker, topic: Topic) -> Any:
    ran = run_tracker("pulsar", "inspect", broker.url, "--topic", topic.name, "--json")
    assert ran.status in (0, 1), ran.err
    return ran.document
