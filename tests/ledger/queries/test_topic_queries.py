"""Tests of queries about topics by name, from threads and from event loops."""

import asyncio
import gc
import threading
import weakref
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.compaction.compacted_entry import encode_compacted
from delayed_tracker.ledger.entry.interceptors import (
    AppendBrokerTimestampMetadataInterceptor,
    AppendIndexMetadataInterceptor,
)
from delayed_tracker.ledger.errors import MessageNotFound, NamespaceNotFound, PartitionedTopic, TopicNotFound
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.messages import MessageId
from delayed_tracker.ledger.queries.async_queries import AsyncTopicQueries
from delayed_tracker.ledger.queries.message_index import IndexLookupMode
from delayed_tracker.ledger.queries.topic_queries import TopicQueries
from delayed_tracker.ledger.source import open_bookie_disk
from delayed_tracker.ledger.source_url import open_source
from delayed_tracker.ledger.topic.topic_log import CompactedLog
from tests.golden.pulsar_pack import BOOKIE, METADATA
from tests.ledger.compaction.compacting import compacted
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.harness.memory_ledgers import TOPIC, entry, log_of
from tests.ledger.messages.producer import batch, slot

DELAYED = "persistent://lab/main/delayed"
COMPACTED = "persistent://lab/main/compacted"
PARTITION = "persistent://lab/main/parted-partition-1"


def pack():
    return open_bookie_disk([BOOKIE], METADATA)


@pytest.fixture(scope="module")
def queries():
    with pack() as source:
        yield TopicQueries(source)


def test_every_question(queries):
    """Every query accepts a name without scheme, and ids contain the partition."""
    assert queries.get_message_id_by_index("lab/main/parted-partition-1", 0) == MessageId(84, 0, partition=1)
    assert queries.get_last_message_id(PARTITION) == MessageId(86, 16, partition=1)
    assert queries.get_last_message_id("lab/main/batched") == MessageId(32, 29, batch_index=11)
    assert queries.seek_by_time(DELAYED, 1).position == Position(88, 0)
    assert queries.oldest_message_expired(DELAYED, 1, now_ms=2**50)
    page = queries.read_entries(DELAYED, Position(88, 5), entries_max=2, bytes_max=10_000)
    assert [*page.entries.positions] == [Position(88, 5), Position(88, 6)]
    assert page.next == Position(88, 7)
    assert DELAYED in queries.topics()


def test_the_mode_is_passed_on(queries):
    """The mode is passed on: an index in the first batch gives different results."""
    batched = "persistent://lab/main/batched"
    assert queries.get_message_id_by_index(batched, 0).position == Position(30, 0)
    shipped = queries.get_message_id_by_index(batched, 0, mode=IndexLookupMode.PULSAR_COMPATIBLE)
    assert shipped == MessageId(-1, -1)


def test_topics_that_cannot_be_asked_about(queries):
    """Each refusal of a topic tells which name to use instead."""
    with pytest.raises(
        PartitionedTopic, match=r"parted is partitioned; name .*parted-partition-0, .*parted-partition-1"
    ):
        queries.topic_log("lab/main/parted")
    with pytest.raises(TopicNotFound, match="similar names") as missing:
        queries.topic_log("lab/main/delay")
    assert not isinstance(missing.value, NamespaceNotFound)
    with pytest.raises(TopicNotFound):
        queries.topic_log("lab/main/parted-partition-7")
    with pytest.raises(NamespaceNotFound):
        queries.topic_log("nobody/none/missing")
    with pytest.raises(NamespaceNotFound):
        queries.topic_log("lab/mai/delayed")
    with pytest.raises(InvalidInput, match="a transaction's state"):
        queries.topic_log("pulsar/system/__transaction_log_0")


def test_a_topic_that_somebody_writes_to(tmp_path):
    """Each query of a topic that is being written covers the entries that are durable at that time."""
    interceptors = [AppendIndexMetadataInterceptor(), AppendBrokerTimestampMetadataInterceptor()]
    with open_writer(tmp_path / "ledgers", TOPIC, now_ms=1, interceptors=interceptors) as writer:
        writer.append_many([entry(), entry(batch=3)], now_ms=10, num_messages=[1, 3])
        writer.flush()
        with open_source(f"ledger:{tmp_path / 'ledgers'}") as source:
            queries = TopicQueries(source)
            first = queries.get_message_id_by_index(TOPIC, 3)
            assert queries.get_last_message_id(TOPIC) == replace(first, batch_index=2)
            with pytest.raises(MessageNotFound):
                queries.get_message_id_by_index(TOPIC, 4)
            assert queries.seek_by_time(TOPIC, 20).behind_end
            writer.append_many([entry()], now_ms=20)
            writer.flush()
            assert queries.get_message_id_by_index(TOPIC, 4).position == writer.last
            assert queries.seek_by_time(TOPIC, 20).position == writer.last


class CompactedSource:
    """Source of ledger 3 with four entries, of which compaction processed those up to a horizon and kept some."""

    def __init__(self, horizon, kept):
        self.log = log_of([entry(publish_ms=10 * at, batch=2) for at in range(4)])
        entries = [encode_compacted(Position(3, at), -1, entry(publish_ms=10 * at)) for at in kept]
        self.compacted = CompactedLog(log_of(entries, first_ledger_id=9).ledgers[0], Position(3, horizon))

    def topics(self, beside=None):
        return [TOPIC]

    def topic_log(self, _topic):
        return self.log

    def compacted_log(self, _topic):
        return self.compacted


@pytest.mark.parametrize(
    ("horizon", "kept", "last"),
    [(2, [0, 1], MessageId(3, 3, batch_index=1)), (3, [0, 1], MessageId(3, 1)), (3, [], MessageId(-1, -1))],
)
def test_the_last_message_of_a_compacted_topic(horizon, kept, last):
    """The last message is the topic's own, unless compaction processed it and the reader reads compacted."""
    queries = TopicQueries(CompactedSource(horizon, kept))
    assert queries.get_last_message_id(TOPIC, read_compacted=True) == last
    assert queries.get_last_message_id(TOPIC) == MessageId(3, 3, batch_index=1)


def test_the_last_message_of_a_topic_that_is_gone():
    """The last message of a trimmed topic is the one that compaction kept: here of a batch in a partition."""
    kept = topic_of({3: [batch([slot(0, b"a", partition_key="a"), slot(1, b"", partition_key="b")])]}, topic=PARTITION)
    source = CompactedSource(3, [])
    source.log, source.compacted = topic_of({5: []}, topic=PARTITION), compacted(kept)
    found = TopicQueries(source).get_last_message_id(PARTITION, read_compacted=True)
    assert found == MessageId(3, 0, 1, batch_index=0)


@pytest.mark.parametrize(("time_ms", "entry_id", "raw"), [(5, 1, 1), (11, 3, 2), (25, 3, 3), (31, 4, 4)])
def test_seeks_in_a_compacted_topic(time_ms, entry_id, raw):
    """A seek in a compacted topic searches the kept messages first; other readers search only the topic's entries."""
    queries = TopicQueries(CompactedSource(2, [0, 1]))
    assert queries.seek_by_time(TOPIC, time_ms).position == Position(3, raw)
    kept_all = TopicQueries(CompactedSource(3, [1, 3]))
    assert kept_all.seek_by_time(TOPIC, time_ms, read_compacted=True).position == Position(3, entry_id)
    assert queries.seek_by_time(TOPIC, 25, read_compacted=True).position == Position(3, 3)


async def test_the_same_from_an_event_loop():
    """Every query gives the same result from an event loop."""
    async with await AsyncTopicQueries.open(pack) as queries:
        assert await queries.get_message_id_by_index(PARTITION, 0) == MessageId(84, 0, partition=1)
        assert await queries.get_last_message_id(PARTITION) == MessageId(86, 16, partition=1)
        assert (await queries.seek_by_time(DELAYED, 1)).position == Position(88, 0)
        assert (await queries.seek_by_time(COMPACTED, 1, read_compacted=True)).position == Position(45, 28)
        assert await queries.oldest_message_expired(DELAYED, 1, now_ms=2**50)
        page = await queries.read_entries(DELAYED, None, entries_max=2, bytes_max=10_000)
        assert page.next == Position(88, 2)
        with pytest.raises(TopicNotFound):
            await queries.seek_by_time("lab/main/missing", 1)


class SlowSource:
    """Source whose topic is available when the test releases it. It records the threads that use it."""

    def __init__(self):
        self.ready = threading.Event()
        self.asked = threading.Event()
        self.threads = {threading.get_ident()}
        self.closed = False

    def topics(self, beside=None):
        return [TOPIC]

    def topic_log(self, _topic):
        self.threads.add(threading.get_ident())
        self.asked.set()
        self.ready.wait()
        return log_of([entry(index=0)])

    def close(self):
        self.threads.add(threading.get_ident())
        self.closed = True


async def test_the_event_loop_goes_on_while_a_source_reads():
    """One thread opens, reads and closes a source, and the event loop never waits for it."""
    opened = []

    def opener():
        opened.append(SlowSource())
        return opened[0]

    queries = await AsyncTopicQueries.open(opener)
    asked = [asyncio.create_task(queries.get_message_id_by_index(TOPIC, 0)) for _ in range(3)]
    await asyncio.get_running_loop().run_in_executor(None, opened[0].asked.wait)
    assert not any(task.done() for task in asked)
    asked[2].cancel()
    closing = asyncio.create_task(queries.close())
    await asyncio.sleep(0)
    assert not opened[0].closed
    opened[0].ready.set()
    assert await asyncio.gather(*asked[:2]) == [MessageId(3, 0), MessageId(3, 0)]
    await closing
    assert opened[0].closed
    assert len(opened[0].threads) == 1
    assert threading.get_ident() not in opened[0].threads


class Topic(str):
    """Name that tells whether a query still has it."""

    __slots__ = ("__weakref__",)


async def test_queries_whose_callers_have_gone_leave_nothing():
    """While one query hangs, also if its own caller has gone, the others that are cancelled are not kept for the thread."""
    source = SlowSource()
    queries = await AsyncTopicQueries.open(lambda: source)
    kept = []
    for number in range(3):
        topic = Topic(TOPIC)
        task = asyncio.create_task(queries.get_message_id_by_index(topic, number))
        if number:
            kept.append(weakref.ref(topic))
            await asyncio.sleep(0)
        else:
            await asyncio.get_running_loop().run_in_executor(None, source.asked.wait)
        task.cancel()
        await asyncio.wait([task])
        del task, topic
    gc.collect()
    alive = [ref() for ref in kept if ref() is not None]
    source.ready.set()
    assert not alive
    assert await queries.get_message_id_by_index(TOPIC, 0) == MessageId(3, 0)
    await queries.close()


async def test_a_source_that_cannot_be_opened():
    """The opener's error is raised, and no thread remains."""
    with pytest.raises(InvalidInput, match="give another"):
        await AsyncTopicQueries.open(refuse)
    for thread in threading.enumerate():
        if thread.name.startswith("ledgers"):
            await asyncio.get_running_loop().run_in_executor(None, thread.join)


def refuse():
    raise InvalidInput("source", "x:", "give another")
