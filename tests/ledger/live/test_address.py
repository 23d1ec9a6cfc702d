"""Tests of the URLs of running clusters."""

import pickle

import pytest

from delayed_tracker.bookkeeper.settings import REPLY_BYTES_MAX
from delayed_tracker.bookkeeper.tls import ClusterTls
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.live.address import ClusterAddress
from delayed_tracker.ledger.live.client import ClusterClient
from delayed_tracker.ledger.source_url import cluster_address, parse_source_url, require_source


def address(text: str) -> ClusterAddress:
    return cluster_address(parse_source_url(text))


def test_the_parts_of_a_url():
    """Hosts, the root, and the options; the root is that of both trees."""
    plain = address("bookkeeper+zk:zk-1.eu:2181")
    assert (plain.hosts, plain.root, plain.ledgers) == ("zk-1.eu:2181", "", "/ledgers")
    assert (plain.bytes_per_second_max, plain.frame_bytes_max) == (None, REPLY_BYTES_MAX)
    full = address("bookkeeper+zk:a:1,[::1]:65535/emea/pulsar/?maxBytesPerSecond=20000000&frameBytesMax=10485760")
    assert (full.hosts, full.root, full.ledgers) == ("a:1,[::1]:65535", "/emea/pulsar", "/emea/pulsar/ledgers")
    assert (full.bytes_per_second_max, full.frame_bytes_max) == (20_000_000, 10_485_760)


def test_the_files_of_tls():
    """They are those of the storage ``bookkeeper:``, and stay with the address that a task gets."""
    secured = address(
        "bookkeeper+zk:a:1?tls=all&tlsCa=/ca.pem&tlsCertificate=/c.pem&tlsKey=/k.pem&maxBytesPerSecond=10000"
    )
    assert secured.tls == ClusterTls("all", "/ca.pem", "/c.pem", "/k.pem", check_hostname=True)
    assert pickle.loads(pickle.dumps(secured.share(2))).tls == secured.tls
    with pytest.raises(InvalidInput, match=r"^source: .* the TLS files cannot be used"):
        ClusterClient(secured).connect()


def test_a_share_of_the_rate():
    """Each of several readers has an equal part, and at least a byte a second; without a rate there is none."""
    rate = address("bookkeeper+zk:a:1?maxBytesPerSecond=10000")
    assert rate.share(3).bytes_per_second_max == 3_333
    assert rate.share(100_000).bytes_per_second_max == 1
    unlimited = address("bookkeeper+zk:a:1")
    assert unlimited.share(3) == unlimited


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("bookkeeper+zk:host", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:host:0", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:host:65536", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:host:1,", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk://host:1/x", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:user@host:1", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:host:1/a//b", "give bookkeeper+zk:HOST:PORT"),
        ("bookkeeper+zk:host:1/a/../b", "without . and .."),
        ("bookkeeper+zk:host:1?metadata=/dump", "options of bookkeeper+zk are maxBytesPerSecond, frameBytesMax"),
        ("bookkeeper+zk:host:1?maxBytePerSecond=1", "did you mean 'maxBytesPerSecond'"),
        ("bookkeeper+zk:host:1?tls=all", "give tlsCa=FILE"),
        ("bookkeeper+zk:host:1?maxBytesPerSecond=1023", "give a number of bytes from 1024 to "),
        ("bookkeeper+zk:host:1?maxBytesPerSecond=10MB", "give a number of bytes from 1024 to "),
        ("bookkeeper+zk:host:1?frameBytesMax=2147483648", "give a number of bytes from 65536 to 2147483647"),
        ("bookkeeper+etcd:host:1", "the metadata store 'etcd' is not supported, only ZooKeeper"),
        ("bookkeeper+rocksdb:/data", "the metadata store 'rocksdb' is not supported"),
        ("bookkeeper+oxia:host:6648", "the metadata store 'oxia' is not supported"),
        ("bookkeeper+metadata-store:zk:a", "the metadata store 'metadata-store' is not supported"),
    ],
)
def test_a_wrong_url_says_what_to_write(url: str, remedy: str):
    """The error names the URL and the remedy, before anything is connected."""
    with pytest.raises(InvalidInput) as error:
        require_source(url)
    assert remedy in error.value.message
    assert url in error.value.message
