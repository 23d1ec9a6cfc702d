"""Tests of the URLs of running clusters."""

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.live.address import FRAME_BYTES_MAX, ClusterAddress
from delayed_tracker.ledger.source_url import cluster_address, parse_source_url, require_source


def address(text: str) -> ClusterAddress:
    return cluster_address(parse_source_url(text))


def test_the_parts_of_a_url():
    """Hosts, the root, and the options; the root is that of both trees."""
    plain = address("bookkeeper+zk:zk-1.eu:2181")
    assert (plain.hosts, plain.root, plain.ledgers) == ("zk-1.eu:2181", "", "/ledgers")
    assert (plain.bytes_per_second_max, plain.frame_bytes_max) == (None, FRAME_BYTES_MAX)
    full = address("bookkeeper+zk:a:1,[::1]:65535/emea/pulsar/?maxBytesPerSecond=20000000&frameBytesMax=10485760")
    assert (full.hosts, full.root, full.ledgers) == ("a:1,[::1]:65535", "/emea/pulsar", "/emea/pulsar/ledgers")
    assert (full.bytes_per_second_max, full.frame_bytes_max) == (20_000_000, 10_485_760)


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
        ("bookkeeper+zk:host:1?maxBytesPerSecond=1023", "give a number of bytes from 1024 to "),
        ("bookkeeper+zk:host:1?maxBytesPerSecond=10MB", "give a number of bytes from 1024 to "),
        ("bookkeeper+zk:host:1?frameBytesMax=2147483648", "give a number of bytes from 65536 to 2147483647"),
        ("bookkeeper+etcd:host:1", "whose metadata store is etcd cannot be read; only ZooKeeper can"),
        ("bookkeeper+rocksdb:/data", "whose metadata store is rocksdb cannot be read"),
        ("bookkeeper+oxia:host:6648", "whose metadata store is oxia cannot be read"),
        ("bookkeeper+metadata-store:zk:a", "whose metadata store is metadata-store cannot be read"),
    ],
)
def test_a_wrong_url_says_what_to_write(url: str, remedy: str):
    """The error names the URL and the remedy, before anything is connected."""
    with pytest.raises(InvalidInput) as error:
        require_source(url)
    assert remedy in error.value.message
    assert url in error.value.message
