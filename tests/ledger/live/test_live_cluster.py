"""Tests of a running cluster as a source: real bookies and a real ZooKeeper, whose nodes are as Pulsar writes them."""

import pickle
import subprocess
import sys

import pytest

from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerState
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy, MetadataUnavailable, TopicNotFound
from delayed_tracker.ledger.source_url import open_source, open_sources
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from tests.bookkeeper.servers.cluster import Cluster
from tests.ledger.harness.cluster_topic import ClusterTopic
from tests.ledger.harness.disks import DiskFiles, cursor_at
from tests.ledger.harness.log_files import TOPIC, message

pytestmark = pytest.mark.slow
LONG_IDS = b"2\norg.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory:1"


def messages(count: int, *, first: int = 0) -> list[bytes]:
    return [message(payload=b"%d" % (first + row), deliver_at_ms=1_000 + first + row) for row in range(count)]


def payloads_of(ledger) -> list[bytes]:
    """Payloads of a ledger, all of which must be readable."""
    pieces = list(ledger.scan(0, ledger.last_entry_id))
    assert [bad for piece in pieces for bad in piece.bad_entries] == []
    return [piece.entries.payload(row) for piece in pieces for row in range(len(piece.entries))]


@pytest.mark.parametrize("digest", [DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC])
def test_ledgers_are_read_as_they_were_written(topic: ClusterTopic, digest: DigestType):
    """Closed ledgers are read to their ends, whatever their digest; an empty one has no entries."""
    ids = [topic.add_ledger(messages(count), digest=digest, password=b"secret") for count in (30, 0, 7)]
    with topic.open() as source:
        assert topic.name in source.topics()
        log = source.topic_log(topic.name)
        assert [ledger.ledger_id for ledger in log.ledgers] == ids
        assert [ledger.last_entry_id for ledger in log.ledgers] == [29, -1, 6]
        assert [payloads_of(ledger) for ledger in log.ledgers] == list(topic.ledgers.values())
        assert [ledger.payload_bytes for ledger in log.ledgers] == [sum(map(len, messages(n))) for n in (30, 0, 7)]
        some = log.ledgers[0].read(3, 5)
        assert some.entries.entry_id.tolist() == [3, 4, 5]


def test_the_answers_are_those_of_the_bookies_disks(topic: ClusterTopic, tmp_path):
    """Rows and pending messages equal those of entry logs with the same entries and metadata."""
    first, second = topic.add_ledger(messages(40)), topic.add_ledger(messages(9, first=40))
    cursor = cursor_at(first, 10)
    cursor.individual_deleted_messages.add(
        lower_endpoint=pb.NestedPositionInfo(ledger_id=first, entry_id=35),
        upper_endpoint=pb.NestedPositionInfo(ledger_id=second, entry_id=2),
    )
    topic.add_cursor(cursor)
    disk = DiskFiles(tmp_path)
    disk.add_ledger(first, messages(40))
    disk.add_ledger(second, messages(9, first=40))
    disk.add_cursor(cursor)
    with disk.open() as stored, topic.open() as running:
        assert running.subscriptions(topic.name) == ["workers"]
        here, there = running.topic_log(topic.name), stored.topic_log(TOPIC)
        assert [payloads_of(ledger) for ledger in here.ledgers] == [payloads_of(ledger) for ledger in there.ledgers]
        seen = []
        mine = running.pending(topic.name, "workers", progress=lambda *counts: seen.append(counts))
        theirs = stored.pending(TOPIC, "workers")
        assert seen[-1] == (49, 49)
        assert list(mine.indexes) == list(theirs.indexes)
        assert (mine.acked_count, mine.delayed_count, mine.mark_delete) == (18, 49, (first, 10))


def test_an_open_ledger_is_read_to_the_last_confirmed_entry_beside_its_writer(topic: ClusterTopic):
    """The writer adds all the time; it is neither fenced nor recovered, and what it adds later is not read."""
    topic.add_ledger(messages(5))
    writer = topic.begin(messages(20))
    with topic.adding(writer, messages(1)[0]), topic.open() as source:
        for _ in range(3):
            ledger = source.topic_log(topic.name).ledgers[-1]
            assert ledger.ledger_id == writer.ledger_id
            assert not ledger.closed
            assert ledger.last_entry_id >= 18
            assert payloads_of(ledger)[:19] == messages(19)
    topic.add(writer, [b"last"])
    assert topic.metadata(writer.ledger_id).state is LedgerState.OPEN
    with topic.open() as source:
        earlier = source.topic_log(topic.name).ledgers[-1]
        end = writer.last_confirmed
        assert earlier.last_entry_id == end - 1
        topic.add(writer, [b"later"] * 3)
        assert len(payloads_of(earlier)) == end
        assert source.topic_log(topic.name).ledgers[-1].last_entry_id == end + 2


def test_a_pinned_source_sees_a_topic_as_of_its_first_look(topic: ClusterTopic):
    """A job looks several times; meanwhile the topic rolls over and gets more messages."""
    topic.add_ledger(messages(5))
    writer = topic.begin(messages(4))
    with topic.open(pinned=True) as source:
        before = source.topic_log(topic.name)
        topic.add(writer, messages(6))
        topic.add_ledger(messages(3))
        again = source.topic_log(topic.name)
        assert [(one.ledger_id, one.last_entry_id) for one in again.ledgers] == [
            (one.ledger_id, one.last_entry_id) for one in before.ledgers
        ]
        assert before.ledgers[-1].last_entry_id == 2
    with topic.open() as source:
        assert len(source.topic_log(topic.name).ledgers) == 3


def test_a_cursor_is_read_from_its_last_stored_entry(topic: ClusterTopic):
    """Its writer has sent one state, which no later entry confirms; the acknowledgements in it count all the same."""
    first = topic.add_ledger(messages(10))
    states = [pb.PositionInfo(ledger_id=first, entry_id=entry_id).SerializeToString() for entry_id in (2, 6)]
    for count in (1, 2):
        writer = topic.begin(states[:count], of_topic=False)
        topic.add_cursor(pb.ManagedCursorInfo(cursors_ledger_id=writer.ledger_id))
        with topic.open() as source:
            assert source.pending(topic.name, "workers").mark_delete == (first, (2, 6)[count - 1])
        topic.add(writer, states)
        assert topic.metadata(writer.ledger_id).state is LedgerState.OPEN


def test_a_cursor_without_its_ledger_is_bad(topic: ClusterTopic):
    """The policy decides: fail, or take the position in the metadata and say what is lacking."""
    first = topic.add_ledger(messages(10))
    lost = topic.add_ledger([pb.PositionInfo(ledger_id=first, entry_id=6).SerializeToString()], of_topic=False)
    topic.delete_ledger(lost)
    info = cursor_at(first, 1)
    info.cursors_ledger_id = lost
    topic.add_cursor(info)
    with topic.open() as source:
        with pytest.raises(EntriesUnreadable, match=f"ledger {lost}: it holds a cursor's state"):
            source.pending(topic.name, "workers")
        report = source.pending(topic.name, "workers", on_error=ErrorPolicy.SKIP)
    assert report.mark_delete == (first, 1)
    assert [bad.ledger_id for bad in report.bad_entries] == [lost]


def test_snapshots_of_buckets_are_read(topic: ClusterTopic):
    """A bucket is a ledger that a property of the cursor names."""
    first = topic.add_ledger(messages(3))
    bucket = topic.add_ledger([b"metadata", b"segment"], of_topic=False)
    info = cursor_at(first, -1)
    info.cursor_properties.add(name=f"#pulsar.internal.delayed.bucket_{first}_{first}", value=str(bucket))
    topic.add_cursor(info)
    with topic.open() as source:
        (found,) = source.stored_snapshots(topic.name, "workers")
    assert (found.bucket_id, found.metadata, found.segments) == (bucket, b"metadata", (b"segment",))


def test_the_compacted_ledger_is_found(topic: ClusterTopic):
    """The compaction cursor names it in its properties."""
    first = topic.add_ledger(messages(8))
    with topic.open() as source:
        assert source.compacted_log(topic.name) is None
    kept = topic.add_ledger([b"kept"], of_topic=False)
    info = cursor_at(first, 7)
    info.properties.add(name="CompactedTopicLedger", value=kept)
    topic.add_cursor(info, "__compaction")
    with topic.open() as source:
        compacted = source.compacted_log(topic.name)
        assert compacted is not None
        assert compacted.horizon == (first, 7)
        assert payloads_of(compacted.ledger) == [b"kept"]


def test_a_trimmed_ledger_is_listed(topic: ClusterTopic):
    """It is absent if it is gone at the first look, and its entries are bad if it goes later and bookies drop them."""
    first, gone = topic.add_ledger(messages(5)), topic.add_ledger(messages(4))
    topic.delete_ledger(gone)
    with topic.open() as source:
        log = source.topic_log(topic.name)
        (bad,) = log.ledgers[1].read(0, 3).bad_entries
        assert (bad.ledger_id, bad.entry_id, bad.entry_count) == (gone, 0, 4)
        assert "there are no BookKeeper metadata of it" in bad.reason
        assert source.topic_parts(topic.name).absent.keys() == {gone}
        with pytest.raises(EntriesUnreadable, match=str(gone)):
            source.pending(topic.name, "workers", ignore_acks=True)
        report = source.pending(topic.name, "workers", ignore_acks=True, on_error=ErrorPolicy.SKIP)
        assert len(report.indexes) == 5
        assert [bad.entry_count for bad in report.bad_entries] == [4]
    assert first in topic.ledgers


def test_another_source_has_what_bookies_have_no_more(topic: ClusterTopic, tmp_path):
    """A ledger that was deleted from the bookies is read from the next source."""
    first, moved = topic.add_ledger(messages(5)), topic.add_ledger(messages(4))
    topic.delete_ledger(moved)
    disk = DiskFiles(tmp_path)
    disk.add_ledger(moved, messages(4))
    disk.metadata = {
        path.replace("lab/main", "/".join(topic.name.split("/")[2:4])): value for path, value in disk.metadata.items()
    }
    disk.open().close()
    place = f"bookkeeper+file:{tmp_path}/ledgers?metadata={tmp_path}/dump.jsonl.gz"
    with open_sources([topic.url, place]) as source:
        log = source.topic_log(topic.name)
        assert [ledger.ledger_id for ledger in log.ledgers] == [first, moved]
        assert payloads_of(log.ledgers[1]) == messages(4)


def test_a_cluster_below_a_root(cluster: Cluster):
    """Topics and BookKeeper's ledgers are below the root that the URL ends with."""
    bookies = cluster.require(2)
    cluster.zookeeper.make_tree("/emea/pulsar/ledgers", LONG_IDS, [bookie.bookie_id for bookie in bookies])
    with cluster.zookeeper.connected() as client:
        # Ids of this tree are long from the first, so that no bookie sees an id of another tree.
        client.create("/emea/pulsar/ledgers/idgen-long")
    with ClusterTopic(cluster.zookeeper, "/emea/pulsar") as topic:
        ledger_id = topic.add_ledger(messages(3))
        with open_source(topic.url) as source:
            assert source.topics() == [topic.name]
            assert payloads_of(source.topic_log(topic.name).ledger(ledger_id)) == messages(3)
    with open_source(topic.url.removesuffix("/emea/pulsar")) as source, pytest.raises(TopicNotFound):
        source.topic_log(topic.name)


@pytest.mark.long
def test_an_address_without_a_cluster_is_refused(cluster: Cluster):
    """The error names the URL, and says what is missing."""
    with pytest.raises(InvalidInput, match="/nowhere/ledgers/LAYOUT does not exist"):
        open_source(f"bookkeeper+zk:{cluster.zookeeper.address}/nowhere")
    with pytest.raises(MetadataUnavailable, match="does not answer within 10 s"):
        open_source("bookkeeper+zk:127.0.0.1:1")


def test_a_closed_source_reads_no_more(topic: ClusterTopic):
    """Results stay valid; reading says that the source was closed."""
    topic.add_ledger(messages(3))
    with topic.open() as source:
        log = source.topic_log(topic.name)
    assert log.entry_count == 3
    with pytest.raises(MetadataUnavailable, match="was closed"):
        log.ledgers[0].read(0, 2)


def test_a_ledger_is_read_in_another_process(topic: ClusterTopic):
    """A pickled ledger has the address and its metadata, and needs nothing else: no list of the topic, no open source."""
    topic.add_ledger(messages(50))
    with topic.open(options="?maxBytesPerSecond=1000000") as source:
        ledger = source.topic_log(topic.name).ledgers[0]
        sent = pickle.dumps(ledger.for_one_of(4))
    program = (
        "import pickle, sys\n"
        "ledger = pickle.loads(sys.stdin.buffer.read())\n"
        "again = pickle.loads(pickle.dumps(ledger))\n"
        "assert again.client is ledger.client\n"
        "found = again.read(0, ledger.last_entry_id)\n"
        "print(len(found.entries), len(found.bad_entries), ledger.client.throttle.bytes_per_second_max)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=True, timeout=60)
    assert ran.stdout.split() == [b"50", b"0", b"250000"]
    assert ran.stderr == b""
