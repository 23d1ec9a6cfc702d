"""Tests of the real servers that other tests use: BookKeeper's own client works on them, and they survive a kill."""

import pytest

from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.java_ledgers import JavaFailed, JavaLedgers

pytestmark = pytest.mark.long


@pytest.mark.parametrize("digest", ["CRC32", "CRC32C", "MAC", "DUMMY"])
def test_java_writes_and_reads_a_ledger(cluster: Cluster, java_ledgers: JavaLedgers, digest: str):
    """A ledger of Java's client is created, filled, closed, read and deleted."""
    cluster.require(1)
    ledger_id = java_ledgers.create(cluster.uri, digest=digest, password=b"secret", custom={"key": b"\x00value"})
    assert java_ledgers.add(cluster.uri, ledger_id, [b"one", b"", b"three"]) == 2
    assert java_ledgers.close(cluster.uri, ledger_id) == {"last": 2, "length": 8, "closed": True}

    assert java_ledgers.open(cluster.uri, ledger_id, digest=digest, password=b"secret")["last"] == 2
    assert java_ledgers.read(cluster.uri, ledger_id, 0, 2) == [b"one", b"", b"three"]
    with pytest.raises(JavaFailed, match="BKUnauthorizedAccessException"):
        java_ledgers.open(cluster.uri, ledger_id, digest=digest, password=b"other")
    java_ledgers.delete(cluster.uri, ledger_id)
    with pytest.raises(JavaFailed, match="BKNoSuchLedgerExists"):
        java_ledgers.open(cluster.uri, ledger_id, digest=digest, password=b"secret")


def test_a_recovery_fences_the_writer(cluster: Cluster, java_ledgers: JavaLedgers):
    """Opening with recovery closes an open ledger at its last entry."""
    cluster.require(1)
    ledger_id = java_ledgers.create(cluster.uri)
    java_ledgers.add(cluster.uri, ledger_id, [b"one", b"two"])
    assert java_ledgers.open(cluster.uri, ledger_id, recover=True) == {"last": 1, "length": 6, "closed": True}


def test_a_killed_bookie_comes_back_with_its_entries(cluster: Cluster, java_ledgers: JavaLedgers):
    """A bookie that is killed with -9 and started again has what it acknowledged, under the same id."""
    (bookie,) = cluster.require(1)
    ledger_id = java_ledgers.create(cluster.uri, **on_all(cluster))
    java_ledgers.add(cluster.uri, ledger_id, [b"kept"])
    bookie.process.kill()
    assert not bookie.process.running
    cluster.require(1)
    assert java_ledgers.open(cluster.uri, ledger_id, recover=True)["last"] == 0
    assert java_ledgers.read(cluster.uri, ledger_id, 0, 0) == [b"kept"]


def test_a_bookie_that_is_just_back_takes_a_new_ledger(cluster: Cluster, java_ledgers: JavaLedgers):
    """Java's client may not have seen it yet, and is asked again."""
    (bookie,) = cluster.require(1)
    java_ledgers.create(cluster.uri, **on_all(cluster))
    bookie.process.kill()
    cluster.require(1)
    java_ledgers.create(cluster.uri, **on_all(cluster))


def test_a_read_only_bookie_takes_no_new_ledger(cluster: Cluster, java_ledgers: JavaLedgers):
    """A bookie that is started read-only registers as such, and answers reads alone."""
    (bookie,) = cluster.require(1)
    ledger_id = java_ledgers.create(cluster.uri, **on_all(cluster))
    java_ledgers.add(cluster.uri, ledger_id, [b"kept"])
    java_ledgers.close(cluster.uri, ledger_id)
    bookie.process.stop()
    bookie.start(read_only=True)
    try:
        assert java_ledgers.open(cluster.uri, ledger_id)["last"] == 0
        assert java_ledgers.read(cluster.uri, ledger_id, 0, 0) == [b"kept"]
        with pytest.raises(JavaFailed, match="BKNotEnoughBookiesException"):
            java_ledgers.create(cluster.uri, **on_all(cluster), seen_within_s=0)
    finally:
        bookie.process.stop()
        cluster.require(1)


def on_all(cluster: Cluster) -> dict[str, int]:
    """Return the sizes of a ledger that needs every bookie: other tests may have started more than one."""
    count = len(cluster.bookies)
    return {"ensemble": count, "write_quorum": count, "ack_quorum": count}
