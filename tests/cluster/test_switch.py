"""Tests of the switch: whatever a broker does meanwhile, it is refused or harmless."""

import asyncio
import contextlib
import re
import shlex

import pytest

from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import (
    BrokerUnavailable,
    ClusterNodeInvalid,
    CursorChanged,
    TopicLoaded,
    TopicTerminated,
)
from delayed_tracker.cluster.switch import NodeWrite, require_not_loaded, write_cursor
from delayed_tracker.ledger.errors import SubscriptionNotFound, TopicNotFound
from delayed_tracker.ledger.topic_name import TopicName
from tests.cluster.brokers import told_topics
from tests.cluster.made_cluster import SUBSCRIPTION, TOPIC, MadeCluster

NEW = BucketProperty.of(1, 2, 99)
OTHER = TopicName.parse("persistent://t/ns/other")


@pytest.fixture
def told():
    with told_topics() as made:
        yield made


@pytest.fixture
async def topic(made: MadeCluster, told) -> MadeCluster:
    """A cluster with a running broker, and an unloaded topic whose last ledger is closed."""
    await made.set(f"{made.address.brokers}/127.0.0.1:8080", told.registration)
    await made.topic(TOPIC, {await closed_ledger(made): 5})
    await made.cursor([BucketProperty.of(1, 1, 50)])
    return made


async def closed_ledger(made: MadeCluster) -> int:
    writer = await made.cluster.client.create(ensemble=1, write_quorum=1, ack_quorum=1)
    await writer.add(b"x")
    await writer.close()
    return writer.ledger_id


async def open_ledger(made: MadeCluster) -> int:
    writer = await made.cluster.client.create(ensemble=1, write_quorum=1, ack_quorum=1)
    await writer.abandon()
    return writer.ledger_id


async def load(made: MadeCluster) -> None:
    """Write the topic's node, as every load does before it reads cursors."""
    await made.topic(TOPIC, {await open_ledger(made): 0})


def replaced(node: CursorNode) -> CursorNode:
    return node.with_buckets([NEW])


async def buckets(made: MadeCluster) -> tuple[BucketProperty, ...]:
    return CursorNode.decode((await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)).value).buckets


async def switch(made: MadeCluster, change=replaced, **options) -> NodeWrite | None:
    found = await require_not_loaded(made.cluster, [TOPIC], load_s=0.2)
    return await write_cursor(made.cluster, found[TOPIC], SUBSCRIPTION, change, **options)


async def test_an_unloaded_topic_is_switched(topic, caplog):
    """The write has the node's version, is announced before it is made, and stands in the log."""
    caplog.set_level("INFO")
    before = await topic.cluster.cursor_node(TOPIC, SUBSCRIPTION)
    announced = []
    write = await switch(topic, before=announced.append)
    assert announced == [write]
    path = topic.address.cursor_node(TOPIC, SUBSCRIPTION)
    node = await topic.cluster.cursor_node(TOPIC, SUBSCRIPTION)
    assert write == NodeWrite(TOPIC, SUBSCRIPTION, path, before.version, before.value, node.value)
    assert node.version == before.version + 1
    assert await buckets(topic) == (NEW,)
    assert f"{path}: version {before.version} is now {node.version}" in caplog.text
    assert await switch(topic) is None
    assert (await topic.cluster.cursor_node(TOPIC, SUBSCRIPTION)).version == node.version


async def test_a_loaded_topic_is_refused_with_the_command_that_unloads_it(topic, told):
    """The broker and the remedy stand in the message, and nothing is written."""
    told.loaded.add(TOPIC)
    with pytest.raises(TopicLoaded, match=f"is loaded by {told.url}; .* `pulsar-admin topics unload {TOPIC}`"):
        await switch(topic)
    assert await buckets(topic) == (BucketProperty.of(1, 1, 50),)


def test_the_command_that_unloads_takes_any_name():
    """A name with spaces and quotes is one word to a shell."""
    command = re.search("`(.*)`", TopicLoaded("persistent://t/ns/it's two words", "http://b").message)
    assert command is not None
    assert shlex.split(command[1])[-1] == "persistent://t/ns/it's two words"


async def test_a_load_between_check_and_write_is_refused(topic):
    """The load has written the topic's node, whose version the write names."""
    found = await require_not_loaded(topic.cluster, [TOPIC])
    await load(topic)
    announced, refused = [], []
    with pytest.raises(TopicLoaded, match="has written its node since"):
        await write_cursor(
            topic.cluster, found[TOPIC], SUBSCRIPTION, replaced, before=announced.append, refused=refused.append
        )
    assert len(announced) == 1
    assert refused == announced
    assert await buckets(topic) == (BucketProperty.of(1, 1, 50),)


async def test_a_load_right_before_the_write_is_refused_or_reads_it(topic):
    """A load that writes its node while the switch is on its way: one of them is first, and both are right."""
    loads = []

    def before(_write: NodeWrite) -> None:
        loads.append(asyncio.get_running_loop().create_task(load(topic)))

    found = await require_not_loaded(topic.cluster, [TOPIC])
    written = None
    with contextlib.suppress(TopicLoaded):
        written = await write_cursor(topic.cluster, found[TOPIC], SUBSCRIPTION, replaced, before=before)
    await loads[0]
    assert (await buckets(topic) == (NEW,)) == (written is not None)


async def watched(topic, told):
    """Write while nobody loads the topic, and be refused when a broker does; return what is said before the wait."""
    said = []
    found = await require_not_loaded(topic.cluster, [TOPIC], load_s=0.3, report=said.append)
    # Its broker had died: nobody loaded it.
    assert await write_cursor(topic.cluster, found[TOPIC], SUBSCRIPTION, replaced) is not None
    told.on_ask = lambda: told.loaded.add(TOPIC) if told.asked_count > 3 else None
    told.asked_count = 0
    with pytest.raises(TopicLoaded, match=f"is loaded by {told.url}"):
        await require_not_loaded(topic.cluster, [TOPIC], load_s=30)
    return said[0]


async def test_a_topic_that_is_being_loaded_is_watched(topic, told):
    """Its new ledger is open while no broker lists it: for the time of a load nothing is written."""
    await load(topic)
    assert "last ledger of 1 topics is open" in await watched(topic, told)


async def test_a_topic_whose_last_ledger_is_damaged_is_watched(topic, told):
    """Its metadata do not say whether it is open: that is no reason to refuse it, nor to write at once."""
    last = await closed_ledger(topic)
    await topic.topic(TOPIC, {last: 5})
    await topic.set(topic.ledger_node(last), b"torn")
    assert "watching them" in await watched(topic, told)


async def test_without_brokers_nobody_loads(made):
    """With all brokers stopped, an open ledger is one that a broker left, and nothing is waited for."""
    await made.topic(TOPIC, {await open_ledger(made): 0})
    await made.cursor([])
    found = await require_not_loaded(made.cluster, [TOPIC], load_s=3_600, report=pytest.fail)
    assert await write_cursor(made.cluster, found[TOPIC], SUBSCRIPTION, replaced) is not None


async def test_a_cursor_that_changes_is_read_again(topic):
    """A broker that closes the topic writes its cursors: the change is made of the newest node."""
    changed = []

    def change(node: CursorNode) -> CursorNode:
        changed.append(node.info.mark_delete_entry_id)
        return node.with_buckets([NEW])

    async def close() -> None:
        node = await topic.cluster.cursor_node(TOPIC, SUBSCRIPTION)
        info = CursorNode.decode(node.value).info
        info.mark_delete_entry_id = 4
        await topic.set(topic.address.cursor_node(TOPIC, SUBSCRIPTION), info.SerializeToString())

    found = await require_not_loaded(topic.cluster, [TOPIC])
    stale = await topic.cluster.cursor_node(TOPIC, SUBSCRIPTION)
    await close()
    first = [stale]
    read = topic.cluster.cursor_node
    answers = Answers(topic.cluster, first)
    announced, refused = [], []
    write = await write_cursor(
        answers, found[TOPIC], SUBSCRIPTION, change, before=announced.append, refused=refused.append
    )
    assert write is not None
    assert [*refused, write] == announced
    assert changed == [-1, 4]
    assert CursorNode.decode((await read(TOPIC, SUBSCRIPTION)).value).info.mark_delete_entry_id == 4

    endless = Answers(topic.cluster, [stale] * 3)
    with pytest.raises(CursorChanged, match="keeps changing although no broker has the topic loaded"):
        await write_cursor(endless, found[TOPIC], SUBSCRIPTION, replaced)


class Answers:
    """A cluster whose ZooKeeper server is behind: the first reads of the cursor return what it was."""

    def __init__(self, cluster, stale) -> None:
        self.address = cluster.address
        self.client = cluster.client
        self._cluster = cluster
        self._stale = stale

    async def cursor_node(self, topic, subscription):
        return self._stale.pop(0) if self._stale else await self._cluster.cursor_node(topic, subscription)


async def test_topics_that_are_refused(topic, told):
    """Terminated, missing and damaged topics are errors; nothing is asked of brokers for them."""
    await topic.topic(OTHER, terminated=True)
    with pytest.raises(TopicTerminated, match="persistent://t/ns/other is terminated"):
        await require_not_loaded(topic.cluster, [TOPIC, OTHER])
    await topic.set(topic.address.topic_node(OTHER), b"\xff")
    with pytest.raises(ClusterNodeInvalid, match="the node of persistent://t/ns/other does not decode"):
        await require_not_loaded(topic.cluster, [OTHER])
    with pytest.raises(TopicNotFound):
        await require_not_loaded(topic.cluster, [TopicName.parse("persistent://t/ns/none")])
    found = await require_not_loaded(topic.cluster, [TOPIC])
    with pytest.raises(SubscriptionNotFound, match="'none'"):
        await write_cursor(topic.cluster, found[TOPIC], "none", replaced)
    told.status = 503
    with pytest.raises(BrokerUnavailable):
        await require_not_loaded(topic.cluster, [TOPIC])
