"""Tests of topics, subscriptions and ledgers in the metadata store."""

import struct

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.compression import Codec
from delayed_tracker.ledger.errors import MetadataInvalid, SubscriptionNotFound, TopicNotFound
from delayed_tracker.ledger.metadata.ledger_metadata import ledger_paths
from delayed_tracker.ledger.metadata.managed_ledger import (
    TopicCatalogue,
    TopicLedger,
    parse_cursor,
    parse_managed_ledger,
)
from delayed_tracker.ledger.metadata.metadata_dump import MetadataDump
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from tests.ledger.harness.log_files import cursor_path, ledger_path, ledger_value, topic_path, topic_value
from tests.ledger.test_compression import compress

WORKED_EXAMPLE = bytes.fromhex("0a0d08051003186c20a0dd9bffbc310a04080920001a0b0a05696e64657812023431")
NO_CURSOR_LEDGER = bytes.fromhex("08ffffffffffffffffff0110051800")


def compressed(codec: Codec, plain: bytes) -> bytes:
    meta = pb.ManagedLedgerInfoMetadata(compression_type=int(codec), uncompressed_size=len(plain)).SerializeToString()
    return b"\x47\x78" + struct.pack(">i", len(meta)) + meta + compress(codec, plain)


def test_worked_example_of_a_topic():
    """Worked example I has one closed ledger, one that is written to, and one property."""
    managed = parse_managed_ledger(WORKED_EXAMPLE)

    assert managed.ledgers == (
        TopicLedger(5, 3, 108, 1_700_000_100_000, offloaded=False, bookkeeper_deleted=False),
        TopicLedger(9, None, None, 0, offloaded=False, bookkeeper_deleted=False),
    )
    assert managed.properties == {"index": "41"}
    assert managed.terminated_at is None


def test_worked_example_of_a_compressed_topic():
    """Worked example I has the header of an LZ4 value."""
    stored = compressed(Codec.LZ4, WORKED_EXAMPLE)

    assert stored.startswith(bytes.fromhex("47780000000408011022f0130a0d"))
    assert len(stored) == 10 + 36
    assert parse_managed_ledger(stored) == parse_managed_ledger(WORKED_EXAMPLE)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_of_values(codec):
    """Values of topics and cursors are read with every codec."""
    assert parse_managed_ledger(compressed(codec, WORKED_EXAMPLE)) == parse_managed_ledger(WORKED_EXAMPLE)
    assert parse_cursor(compressed(codec, NO_CURSOR_LEDGER)).cursors_ledger_id == -1


def test_compressed_value_cut_at_every_byte_is_refused():
    """A compressed value that is cut at any byte is refused."""
    stored = compressed(Codec.LZ4, WORKED_EXAMPLE)
    for length in range(1, len(stored)):
        with pytest.raises(MetadataInvalid, match="take the dump again"):
            parse_managed_ledger(stored[:length])


def test_ledgers_are_sorted_whatever_their_stored_order():
    """Ledgers are sorted by id, because offloading reorders the stored list."""
    managed = parse_managed_ledger(topic_value({160: 100, 164: 100, 166: None, 159: 100}))

    assert [ledger.ledger_id for ledger in managed.ledgers] == [159, 160, 164, 166]


def test_new_topic_has_an_empty_value():
    """A new topic has a node with an empty value."""
    assert parse_managed_ledger(b"").ledgers == ()


def test_offloaded_and_terminated():
    """Offload and termination of a topic are read from its node."""
    info = pb.ManagedLedgerInfo(terminated_position=pb.NestedPositionInfo(ledger_id=5, entry_id=2))
    ledger = info.ledger_info.add(ledger_id=5, entries=3, size=108, timestamp=1)
    ledger.offload_context.complete = True
    ledger.offload_context.bookkeeper_deleted = True

    managed = parse_managed_ledger(info.SerializeToString())

    assert managed.terminated_at == Position(5, 2)
    assert managed.ledgers == (TopicLedger(5, 3, 108, 1, offloaded=True, bookkeeper_deleted=True),)


@pytest.mark.parametrize("entries", [-1, 2**32 + 1, 2**40])
def test_more_entries_than_a_ledger_can_have(entries):
    """A count of entries that no ledger can have is damage; that of an open ledger does not count."""
    info = pb.ManagedLedgerInfo()
    ledger = info.ledger_info.add(ledger_id=5, entries=entries, size=1, timestamp=1)
    with pytest.raises(MetadataInvalid, match=rf"ledger 5 claims {entries} entries, .* 0 to 4294967296"):
        parse_managed_ledger(info.SerializeToString())
    ledger.timestamp = 0
    assert parse_managed_ledger(info.SerializeToString()).ledgers[0].entry_count is None


@pytest.fixture
def catalogue():
    long_name = "persistent://lab/main/" + "x" * 200
    return TopicCatalogue(
        MetadataDump(
            {
                topic_path(): WORKED_EXAMPLE,
                topic_path("persistent://lab/main/orders-py"): b"",
                topic_path("persistent://lab/main/bills-partition-0"): b"",
                topic_path("persistent://lab/main/bills-partition-1"): b"",
                topic_path("persistent://lab/cluster/main/old"): b"",
                topic_path("persistent://lab/main/two words"): b"",
                topic_path(long_name): b"",
                cursor_path("sub", long_name): NO_CURSOR_LEDGER,
                "/managed-ledgers/pulsar/system/persistent/__transaction_log_0": b"",
                "/managed-ledgers/lab/main/persistent/orders-workers__transaction_pending_ack": b"",
                cursor_path("workers"): NO_CURSOR_LEDGER,
                cursor_path("night shift/50%"): NO_CURSOR_LEDGER,
                cursor_path("broken"): b"\xff\xff",
                ledger_path(5): ledger_value(last_entry_id=2),
                ledger_path(9): b"BookieMetadataFormatVersion\t7\n",
                list(ledger_paths(11))[1]: ledger_value(last_entry_id=0),
            },
            "dump.jsonl",
        )
    )


def test_topics_are_listed(catalogue):
    """Topics are listed by full name, without ledgers of transaction state."""
    assert [str(topic) for topic in catalogue.topics()] == [
        "persistent://lab/cluster/main/old",
        "persistent://lab/main/bills-partition-0",
        "persistent://lab/main/bills-partition-1",
        "persistent://lab/main/orders",
        "persistent://lab/main/orders-py",
        "persistent://lab/main/two words",
        "persistent://lab/main/" + "x" * 200,
    ]


@pytest.mark.parametrize(
    "name", ["persistent://lab/main/two words", "lab/main/orders", "persistent://lab/main/" + "x" * 200]
)
def test_topics_are_found_by_name(catalogue, name):
    """Topics are found by any name, also with spaces or 200 characters."""
    assert catalogue.topic(name) == TopicName.parse(name)


def test_unknown_topic_names_near_ones(catalogue):
    """The error for an unknown topic names the source, the topic and similar names."""
    with pytest.raises(TopicNotFound) as caught:
        catalogue.topic("persistent://lab/main/ordres")

    assert str(caught.value).startswith(
        "dump.jsonl has no topic persistent://lab/main/ordres; similar names: persistent://lab/main/orders, "
    )
    assert caught.value.metadata == {"topic": "persistent://lab/main/ordres"}


def test_partitioned_topic_names_its_partitions(catalogue):
    """The error for a partitioned topic, which has no ledgers of its own, names its partitions."""
    with pytest.raises(TopicNotFound, match=r"similar names: persistent://lab/main/bills-partition-0, .*-partition-1"):
        catalogue.topic("persistent://lab/main/bills")


def test_unknown_topic_without_near_names_lists_what_there_is():
    """The error for an unknown topic without similar names lists the existing topics, also in an empty dump."""
    catalogue = TopicCatalogue(MetadataDump({topic_path(): b""}))

    with pytest.raises(TopicNotFound, match="its namespace has 1 topics: persistent://lab/main/orders"):
        catalogue.topic("persistent://lab/main/" + "q" * 99)
    with pytest.raises(TopicNotFound, match="its namespace has 0 topics: none"):
        catalogue.topic("persistent://zzz/yyy/qqq")
    with pytest.raises(TopicNotFound, match="its namespace has 0 topics: none"):
        TopicCatalogue(MetadataDump({})).topic("persistent://lab/main/orders")


def test_an_unknown_topic_lists_its_namespace_alone():
    """A misspelt name costs the listing of its namespace and a few comparisons, however many topics there are."""
    asked = []

    class Counted(MetadataDump):
        def children(self, path):
            asked.append(path)
            return super().children(path)

    others = {topic_path(f"persistent://lab/other/t{number}"): b"" for number in range(100)}
    many = {topic_path(f"persistent://lab/main/orders-{number}"): b"" for number in range(20_000)}
    catalogue = TopicCatalogue(Counted(others | many))
    with pytest.raises(TopicNotFound, match=r"similar names: .*orders-7"):
        catalogue.topic("persistent://lab/main/orders-7x")
    assert asked == ["/managed-ledgers/lab/main/persistent"]
    assert catalogue.topics(TopicName.parse("persistent://lab/main/new")) == catalogue.topics()[: len(many)]


def test_ledgers_of_transaction_state_are_refused(catalogue):
    """Ledgers of transaction state are refused, because their entries are not messages."""
    with pytest.raises(InvalidInput, match="state of transactions"):
        catalogue.topic("persistent://pulsar/system/__transaction_log_0")


def test_subscriptions_are_listed_and_found(catalogue):
    """Subscriptions are listed and found with spaces, slashes and percent signs, which are encoded only in the path."""
    topic = catalogue.topic("lab/main/orders")

    assert catalogue.subscriptions(topic) == ["broken", "night shift/50%", "workers"]
    assert catalogue.cursor(topic, "night shift/50%").cursors_ledger_id == -1


def test_unknown_subscription_lists_those_there_are(catalogue):
    """The error for an unknown subscription names the topic and its subscriptions."""
    with pytest.raises(
        SubscriptionNotFound, match="orders has no subscription 'wrkers'; it has broken, night"
    ) as caught:
        catalogue.cursor(catalogue.topic("lab/main/orders"), "wrkers")
    assert caught.value.metadata["subscription"] == "wrkers"


def test_damaged_values_are_named(catalogue):
    """The error for a damaged value names its cursor, topic or ledger."""
    topic = catalogue.topic("lab/main/orders")

    with pytest.raises(MetadataInvalid, match="cursor 'broken' of persistent://lab/main/orders: "):
        catalogue.cursor(topic, "broken")
    with pytest.raises(MetadataInvalid, match="ledger 9 has format version '7'"):
        catalogue.ledger(9)
    with pytest.raises(MetadataInvalid, match="metadata of persistent://lab/main/orders: "):
        TopicCatalogue(MetadataDump({topic_path(): b"\xff"})).managed_ledger(topic)


def test_ledgers_are_found_in_any_layout(catalogue):
    """Ledgers are found in any layout, and a deleted ledger is None."""
    known = catalogue.ledger(5), catalogue.ledger(11)

    assert [metadata and metadata.last_entry_id for metadata in known] == [2, 0]
    assert catalogue.ledger(6) is None
