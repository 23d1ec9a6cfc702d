"""Registrations: names are read back as they were written, and nothing else is taken for one, nor for a whole ledger."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.storage.bookkeeper.ledgers import TrackerLedgers
from delayed_tracker.storage.bookkeeper.registrations import (
    BLOB,
    REGISTRATION_KEY,
    ROOT_KEY,
    SNAPSHOT,
    Registration,
    folder_of,
)
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import StorageUnavailable
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
ENTRIES = [b"segment %d" % number for number in range(200)]
INT63 = st.integers(0, 2**63 - 1)
REGISTRATIONS = st.builds(
    Registration,
    st.builds(folder_of, st.text(max_size=300), st.text(max_size=20)),
    INT63,
    INT63,
    st.sampled_from([SNAPSHOT, BLOB]),
    st.integers(0, 2**64 - 1),
)


@given(REGISTRATIONS)
def test_names_are_read_back(made):
    """From the node's name, and from the ledger's custom metadata."""
    folder, _, name = made.closed_node("/root").removeprefix("/root/").rpartition("/")
    closed = Registration.parse(folder, name)
    assert closed is not None
    assert closed.closed
    assert closed.open_node("/root") == made.open_node("/root")
    assert Registration.parse(folder, made.open_node("/root").rpartition("/")[2]) == made
    assert Registration.of_ledger("/root", made.ledger_id, made.custom("/root")) == made


@given(REGISTRATIONS)
def test_a_ledger_of_another_root_is_not_ours(made):
    """Nor is one that has our root and no registration, or a damaged one."""
    custom = made.custom("/root")
    assert Registration.of_ledger("/other", 1, custom) is None
    assert Registration.of_ledger("/root", 1, {ROOT_KEY: b"/root"}) is None
    assert Registration.of_ledger("/root", 1, custom | {REGISTRATION_KEY: b"\xff"}) is None
    assert Registration.of_ledger("/root", 1, {}) is None


@pytest.mark.parametrize(
    "name",
    ["", "1.2.s.0.c", f"1.2.x.{'0' * 16}.c", f"1.2.s.{'0' * 16}.d", f"-1.2.s.{'0' * 16}.o", f"\u0663.2.s.{'0' * 16}.c"],
)
def test_other_nodes_are_no_registrations(name):
    """They are passed over."""
    assert Registration.parse("t/aa/name", name) is None


async def entries():
    for entry in ENTRIES:
        yield entry


async def test_a_ledger_that_was_created_has_all_its_entries():
    """Bookies fail in the middle, ZooKeeper answers: a ledger that ends there is no success."""
    stored = 0
    for seed in range(100):
        async with MemoryBookKeeper(MemoryCluster(), random.Random(seed), failing=0.005) as client:
            ledgers = TrackerLedgers(client, URL, 1)
            try:
                made = await ledgers.create(folder_of("topic", "cursor"), 1, SNAPSHOT, {}, entries())
            except StorageUnavailable:
                continue
            client.failing = 0
            assert await ledgers.read_all(made.ledger_id) == ENTRIES
            stored += 1
    assert 10 < stored < 90
