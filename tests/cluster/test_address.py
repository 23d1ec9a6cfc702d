"""Tests of the addresses of live clusters."""

import pytest

from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.cluster.address import ADMINS_MAX, ClusterAddress, connected
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.topic_name import TopicName

TOPIC = TopicName.parse("persistent://t/ns/a b%c")


@pytest.mark.parametrize(
    ("text", "hosts", "root"),
    [
        ("bookkeeper+zk:zk1:2181", "zk1:2181", ""),
        ("bookkeeper+zk:zk1:2181/", "zk1:2181", ""),
        ("bookkeeper+zk:zk1:2181,zk2:2181/pulsar/one/", "zk1:2181,zk2:2181", "/pulsar/one"),
        ("pulsar:zk://zk1:2181/pulsar", "zk1:2181", "/pulsar"),
    ],
)
def test_servers_and_chroot(text, hosts, root):
    """Topics, ledgers and brokers are below the chroot; names are encoded as Pulsar does."""
    address = ClusterAddress.parse(text)
    assert (address.zookeeper, address.root) == (hosts, root)
    assert address.connection.ledgers == f"{root}/ledgers"
    assert address.brokers == f"{root}/loadbalance/brokers"
    assert address.cursor_node(TOPIC, "a/ b") == f"{root}/managed-ledgers/t/ns/persistent/a+b%25c/a%2F+b"
    assert not address.has_quorums
    assert not address.has_digest


def test_options():
    """Quorums and digest count only if they are given; brokers are a list without repeats."""
    address = ClusterAddress.parse(
        "bookkeeper+zk:zk:1?ensemble=3&writeQuorum=3&ackQuorum=2&digest=crc32&admin=http://a:8080/,https://b,http://a:8080"
    )
    connection = address.connection
    assert (connection.ensemble, connection.write_quorum, connection.ack_quorum) == (3, 3, 2)
    assert connection.digest is DigestType.CRC32
    assert (address.has_quorums, address.has_digest) == (True, True)
    assert address.admin == ("http://a:8080", "https://b")
    assert address.with_admin("http://c:1").admin == ("http://c:1",)
    assert address.with_admin(None) is address
    assert address.bytes_per_second_max is None
    assert ClusterAddress.parse("bookkeeper+zk:zk:1?maxBytesPerSecond=1024").bytes_per_second_max == 1_024
    # Pulsar's own bookies take entries of 5 MiB and 10 KiB.
    assert address.frame_bytes_max > 5_253_120
    assert ClusterAddress.parse("bookkeeper+zk:zk:1?frameBytesMax=20000000").frame_bytes_max == 20_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bookkeeper+etcd:host:2379", "the metadata store 'etcd' is not supported, only ZooKeeper"),
        ("bookkeeper+oxia:host:6648/ns", "the metadata store 'oxia' is not supported"),
        ("pulsar:rocksdb://data", "the metadata store 'rocksdb' is not supported"),
        ("bookkeeper+file:disk", "write the address of a live cluster"),
        ("sqlite:file", "write the address of a live cluster"),
        ("", "write the address of a live cluster"),
        ("bookkeeper+zk:", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:/root", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:zk:1/a//b", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:zk:1/a/../b", "without . and .."),
        ("bookkeeper+zk:me@zk:1", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:zk:1?root=/x", "'root' is none of"),
        ("bookkeeper+zk:zk:1?digest=crc32&digest=crc32", "give each option once"),
        ("bookkeeper+zk:zk:1?digest=", "give each option once"),
        ("bookkeeper+zk:zk:1?ensemble=3", "give ensemble, writeQuorum, ackQuorum together"),
        ("bookkeeper+zk:zk:1?ensemble=1&writeQuorum=2&ackQuorum=2", "must ascend"),
        ("bookkeeper+zk:zk:1?digest=md5", "digest is one of"),
        ("bookkeeper+zk:zk:1?maxBytesPerSecond=1023", "from 1024 to 1099511627776"),
        ("bookkeeper+zk:zk:1?maxBytesPerSecond=1e9", "from 1024 to 1099511627776"),
        ("bookkeeper+zk:zk:1?tls=all", "give tlsCa=FILE"),
        ("bookkeeper+zk:zk:1?admin=localhost:8080", "'localhost:8080' is no http://HOST:PORT"),
        ("bookkeeper+zk:zk:1?admin=http://a/admin", "is no http://HOST:PORT"),
        ("bookkeeper+zk:zk:1?admin=" + ",".join(f"http://b{n}" for n in range(ADMINS_MAX + 1)), "at most"),
    ],
)
def test_addresses_that_are_refused(text, said):
    """The message names option, value and remedy."""
    with pytest.raises(InvalidInput, match=r"^--to: ") as refused:
        ClusterAddress.parse(text, "--to")
    assert said in refused.value.message


async def test_another_root_is_refused_by_name(made):
    """A chroot without a cluster is an error that says which node is missing."""
    text = made.address.text
    wrong = text.replace(made.address.root, "/nothing")
    with pytest.raises(LedgerMetadataInvalid, match="/nothing/ledgers/LAYOUT does not exist"):
        async with connected(ClusterAddress.parse(wrong)):
            pass


async def test_bookkeeper_without_pulsar_is_refused(made):
    """A BookKeeper cluster that has no topics is another one."""
    await made.cluster.client.zookeeper.delete(made.address.managed_ledgers)
    with pytest.raises(InvalidInput, match=r"--to: .* ZooKeeper has no node /pulsar-[0-9a-f]+/managed-ledgers"):
        async with connected(made.address, "--to"):
            pass
