"""Changes the bucket properties of cursors while no broker has their topics loaded: refused or harmless, never too late.

A broker keeps the version of a cursor's node while it has the topic loaded, and every write of it fails from then on if
somebody else has written the node. So a change has three steps:

1. Read the version of the topic's managed-ledger node, and make sure that nobody is loading the topic: a load creates a
   ledger, which is open, writes it to this node, and then reads the cursors. An unload closes that ledger. If the last
   ledger is open, a broker has the topic, is loading it, or has died with it: the node must then stay as it is, and all
   brokers must be without the topic, for longer than a load takes. So it is if the metadata of that ledger are damaged.
2. Ask all brokers, after that, which topics they have.
3. One ZooKeeper multi of check(managed-ledger node, that version) and set(cursor node, its version). A load that began
   since step 1 has written the first node, and the multi is refused; a load that begins later reads the new cursor.

A terminated topic is loaded without a write to its node, and is refused.

Source: Pulsar's ManagedLedgerImpl (initialize, initializeBookKeeper, asyncClose) and MetaStoreImpl.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from delayed_tracker.bookkeeper.metadata.errors import (
    LedgerMetadataInvalid,
    LedgerNotFound,
    NodeChanged,
    NodeMissing,
    ZooKeeperError,
    ZooKeeperUnavailable,
)
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.bookkeeper.metadata.zookeeper import Check, Node, SetValue
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.cursor_node import CursorNode
from delayed_tracker.cluster.errors import ClusterNodeInvalid, CursorChanged, TopicLoaded, TopicTerminated
from delayed_tracker.cluster.loaded_topics import ask_loaded_topics
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.ledger.metadata.managed_ledger import ManagedLedger, parse_managed_ledger
from delayed_tracker.ledger.topic_name import TopicName

LOAD_S: Final = 60.0
"""Longest time that a load takes from its first write: ``topicLoadTimeoutSeconds`` of broker.conf."""
_POLL_S: Final = 1.0
_RETRY_S: Final = 0.25
"""Pause between two questions while a topic is loaded: clients that are connected load it again within a second."""
_ATTEMPTS: Final = 3
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnloadedTopic:
    """A topic that no broker had loaded when its managed-ledger node had this version."""

    topic: TopicName
    version: int
    managed_ledger: ManagedLedger


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """A write of a cursor's node, planned or done."""

    topic: TopicName
    subscription: str
    path: str
    version: int
    """Version of the node that is replaced; the write makes it one more."""
    before: bytes
    after: bytes


async def require_not_loaded(
    cluster: Cluster,
    topics: Sequence[TopicName],
    *,
    load_s: float = LOAD_S,
    report: Callable[[str], None] | None = None,
) -> dict[TopicName, UnloadedTopic]:
    """Make sure that no broker has the topics loaded, and none is loading them (steps 1 and 2).

    Args:
        cluster: is connected.
        topics: any number; the brokers are asked once for all of them.
        load_s: longest time that a load takes. So long is waited if the last ledger of a topic is open, or has damaged
            metadata, and brokers run.
        report: called with a sentence before it waits.
    Returns: for each topic, what :func:`write_cursor` needs.
    Raises:
        TopicLoaded: a broker has one of them, or loaded it meanwhile.
        TopicTerminated: one of them is terminated.
        TopicNotFound: one of them does not exist.
        BrokerUnavailable: a broker does not answer.
        ClusterNodeInvalid: the node of a topic is damaged.
        ZooKeeperUnavailable: ZooKeeper does not answer.
    """
    found = {topic: await _read(cluster, topic) for topic in dict.fromkeys(topics)}
    # Before the brokers are asked: a ledger that is open now may be closed by an unload meanwhile.
    unsettled = {topic for topic, one in found.items() if await _last_ledger_is_open(cluster, one.managed_ledger)}
    brokers = await _require_unlisted(cluster, found)
    if not unsettled or not brokers:
        return found
    if report is not None:
        report(
            f"the last ledger of {len(unsettled)} topics is open, as if a broker were loading them: watching them for "
            f"{load_s:g} s"
        )
    end = time.monotonic() + load_s
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(left, _POLL_S))
        await _require_unlisted(cluster, {topic: found[topic] for topic in unsettled})
        for topic in unsettled:
            if (await _read(cluster, topic)).version != found[topic].version:
                raise TopicLoaded(str(topic), "a broker, which has written its node since")
    return found


async def wait_until_not_loaded(
    cluster: Cluster,
    topics: Sequence[TopicName],
    *,
    until: float,
    load_s: float = LOAD_S,
    report: Callable[[str], None] = lambda _: None,
) -> dict[TopicName, UnloadedTopic]:
    """Call :func:`require_not_loaded` again until no broker has the topics loaded, or it is late.

    Args:
        cluster: is connected.
        topics: any number.
        until: time of ``time.monotonic`` up to which a loaded topic is waited for.
        load_s: as of :func:`require_not_loaded`.
        report: called with a sentence for each topic that is waited for.
    Raises: as :func:`require_not_loaded`, TopicLoaded only when it is late.
    """
    said: set[str] = set()
    while True:
        try:
            return await require_not_loaded(cluster, topics, load_s=load_s, report=report)
        except TopicLoaded as error:
            if time.monotonic() >= until:
                raise
            if error.topic not in said:
                said.add(error.topic)
                report(f"waiting: {error.message}")
        await asyncio.sleep(_RETRY_S)


async def write_cursor(
    cluster: Cluster,
    unloaded: UnloadedTopic,
    subscription: str,
    change: Callable[[CursorNode], CursorNode],
    *,
    before: Callable[[NodeWrite], None] = lambda _: None,
    refused: Callable[[NodeWrite], None] = lambda _: None,
    also: Sequence[Check] = (),
) -> NodeWrite | None:
    """Change one cursor's node (step 3), and log node and version.

    Args:
        cluster: is connected.
        unloaded: of :func:`require_not_loaded`. Many cursors of the topic may be written with it.
        subscription: of the cursor, decoded.
        change: returns the changed node; called again if the node was changed meanwhile.
        before: called with the write right before it is sent, to record it; again for another attempt.
        refused: called with that write if it certainly was not made; not if ZooKeeper does not answer.
        also: ledgers that must be as they were: those that the new properties name.
    Returns: the write, or None if the change leaves the node as it is.
    Raises:
        TopicLoaded: the managed-ledger node was written since; nothing was changed.
        CursorChanged: the cursor's node keeps changing, or a ledger of ``also`` was deleted; nothing was changed.
        SubscriptionNotFound: there is no such cursor.
        ClusterNodeInvalid: the node is damaged.
        RequestTooLarge: the node would be above 900 KiB; nothing was changed.
        ZooKeeperUnavailable: ZooKeeper does not answer, and the write may have happened: look at the cursor again.
    """
    topic_path = cluster.address.topic_node(unloaded.topic)
    path = cluster.address.cursor_node(unloaded.topic, subscription)
    for _ in range(_ATTEMPTS):
        node = await cluster.cursor_node(unloaded.topic, subscription)
        after = change(CursorNode.decode(node.value, f"cursor {subscription!r} of {unloaded.topic}")).encode()
        if after == node.value:
            return None
        write = NodeWrite(unloaded.topic, subscription, path, node.version, node.value, after)
        before(write)
        try:
            await cluster.client.zookeeper.multi(
                [Check(topic_path, unloaded.version), SetValue(path, after, node.version), *also]
            )
        except ZooKeeperUnavailable:
            if not await _was_written(cluster, write):
                raise
        except ZooKeeperError as error:
            refused(write)
            if not isinstance(error, (NodeChanged, NodeMissing)):
                raise
            if error.path == topic_path:
                raise TopicLoaded(str(unloaded.topic), "a broker, which has written its node since") from error
            if error.path != path:
                raise CursorChanged(
                    f"a new bucket ledger of cursor {subscription!r} of {unloaded.topic} was deleted ({error.path}); end the "
                    "repair that runs beside this, and run the command again"
                ) from error
            continue
        _LOG.info("%s: version %d is now %d", path, write.version, write.version + 1)
        return write
    raise CursorChanged(
        f"cursor {subscription!r} of {unloaded.topic} keeps changing although no broker has the topic loaded; end what else "
        "writes it, and run the command again"
    )


async def _was_written(cluster: Cluster, write: NodeWrite) -> bool:
    """Return True if a write without an answer has happened."""
    await cluster.client.zookeeper.until_connected()
    node: Node = await cluster.cursor_node(write.topic, write.subscription)
    return (node.value, node.version) == (write.after, write.version + 1)


async def _read(cluster: Cluster, topic: TopicName) -> UnloadedTopic:
    node = await cluster.topic_node(topic)
    try:
        managed_ledger = parse_managed_ledger(node.value)
    except MetadataInvalid as error:
        raise ClusterNodeInvalid(f"the node of {topic} does not decode: {error.message}") from error
    if managed_ledger.terminated_at is not None:
        raise TopicTerminated(str(topic))
    return UnloadedTopic(topic, node.version, managed_ledger)


async def last_ledger(cluster: Cluster, managed_ledger: ManagedLedger) -> LedgerMetadata | None:
    """Return the metadata of a topic's last ledger; None if it has none, or the ledger was deleted.

    Raises:
        LedgerMetadataInvalid: they are damaged.
        ZooKeeperUnavailable: ZooKeeper does not answer.
    """
    if not managed_ledger.ledgers:
        return None
    try:
        return await cluster.client.metadata(managed_ledger.ledgers[-1].ledger_id)
    except LedgerNotFound:
        return None


async def _last_ledger_is_open(cluster: Cluster, managed_ledger: ManagedLedger) -> bool:
    """Return True also if damaged metadata do not say whether it is."""
    try:
        found = await last_ledger(cluster, managed_ledger)
    except LedgerMetadataInvalid:
        return True
    return found is not None and not found.closed


async def _require_unlisted(cluster: Cluster, topics: dict[TopicName, UnloadedTopic]) -> tuple[str, ...]:
    """Raise TopicLoaded if a broker has one of the topics; return the brokers that run."""
    loaded = await ask_loaded_topics(cluster)
    for topic in topics:
        broker = loaded.broker_of.get(str(topic))
        if broker is not None:
            raise TopicLoaded(str(topic), broker)
    return loaded.brokers
