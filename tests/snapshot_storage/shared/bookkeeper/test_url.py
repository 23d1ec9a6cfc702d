"""URLs of the storage over BookKeeper: what they mean, and that each wrong one names what is wrong."""

import pytest

from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl


def test_the_defaults_are_pulsars():
    """Two copies of each entry, both acknowledged, with CRC32C."""
    url = BookKeeperUrl.parse("zk://zk1:2181,zk2:2181/ledgers")
    assert (url.zookeeper, url.ledgers, url.root) == ("zk1:2181,zk2:2181", "/ledgers", "/delayed-tracker")
    assert (url.ensemble, url.write_quorum, url.ack_quorum) == (2, 2, 2)
    assert url.digest is DigestType.CRC32C
    assert url.tls.of_zookeeper() is None
    assert url.bookie_tls() is None


def test_each_key_counts():
    """All keys at once, with ledgers below another node."""
    url = BookKeeperUrl.parse(
        "zk://zk:2181/pulsar/ledgers/?root=/a/b&ensemble=5&writeQuorum=3&ackQuorum=2&digest=HMAC&tls=zookeeper"
        "&tlsCa=/ca.pem&tlsCertificate=/own.pem&tlsKey=/own.key&tlsHostnameVerification=false"
    )
    assert (url.ledgers, url.root) == ("/pulsar/ledgers", "/a/b")
    assert (url.ensemble, url.write_quorum, url.ack_quorum) == (5, 3, 2)
    assert url.digest is DigestType.HMAC
    tls = url.tls.of_zookeeper()
    assert tls is not None
    assert (tls.ca, tls.certificate, tls.key, tls.check_hostname) == ("/ca.pem", "/own.pem", "/own.key", False)
    assert url.bookie_tls() is None


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        ("", "bookkeeper:zk://"),
        ("zk://zk:2181", "ledgers"),
        ("http://zk:2181/ledgers", "zk://"),
        ("zk://user@zk:2181/ledgers", "without user"),
        ("zk://zk:2181/ledgers#x", "without user"),
        ("zk://zk:2181/ledgers?ensembel=3", "'ensembel' is none of root, ensemble"),
        ("zk://zk:2181/ledgers?saslMechanism=x", "saslMechanism: SASL is not supported"),
        ("zk://zk:2181/ledgers?root=/a&root=/b", "each key once"),
        ("zk://zk:2181/ledgers?root=a", "root is the path of a node"),
        ("zk://zk:2181/ledgers?root=/", "root is the path of a node"),
        ("zk://zk:2181/ledgers?root=/a//b", "root is the path of a node"),
        ("zk://zk:2181/ledgers?root=/a/../b", "root is the path of a node"),
        ("zk://zk:2181/ledgers?ensemble=0", "ensemble is a number of bookies from 1 to 100, not '0'"),
        ("zk://zk:2181/ledgers?ensemble=", "ensemble is a number"),
        ("zk://zk:2181/ledgers?ensemble=²", "ensemble is a number"),
        ("zk://zk:2181/ledgers?ensemble=2&writeQuorum=3", "must ascend"),
        ("zk://zk:2181/ledgers?ackQuorum=3", "must ascend"),
        ("zk://zk:2181/ledgers?digest=md5", "digest is one of crc32, hmac, crc32c, dummy, not 'md5'"),
        ("zk://zk:2181/ledgers?tls=yes", "tls is one of"),
        ("zk://zk:2181/ledgers?tls=all", "tlsCa=FILE"),
        ("zk://zk:2181/ledgers?tlsCa=/ca.pem", "add tls="),
        ("zk://zk:2181/ledgers?tls=all&tlsCa=/ca.pem&tlsKey=/k", "belong together"),
        ("zk://zk:2181/ledgers?tls=all&tlsCa=/ca.pem&tlsHostnameVerification=no", "one of true, false, not 'no'"),
    ],
)
def test_a_wrong_url_names_what_is_wrong(rest, named):
    """The message has the whole URL and the remedy."""
    with pytest.raises(InvalidInput, match="storage URL") as raised:
        BookKeeperUrl.parse(rest)
    assert named in raised.value.message


def test_missing_tls_files_are_named(tmp_path):
    """The error comes when the storage is made, not with the first bookie."""
    url = BookKeeperUrl.parse(f"zk://zk:2181/ledgers?tls=bookies&tlsCa={tmp_path / 'ca.pem'}")
    with pytest.raises(InvalidInput, match="TLS files cannot be used"):
        url.bookie_tls()
