"""Tests of the places of ledgers in ZooKeeper."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid
from delayed_tracker.bookkeeper.metadata.layout import LONG_IDS_END, SHORT_IDS_END, Layout

FACTORY = b"org.apache.bookkeeper.meta."


@pytest.mark.parametrize(
    ("value", "layout"),
    [
        (b"2\n" + FACTORY + b"HierarchicalLedgerManagerFactory:1", Layout.HIERARCHICAL),
        (b"2\n" + FACTORY + b"LongHierarchicalLedgerManagerFactory:1", Layout.LONG_HIERARCHICAL),
        (b"2\n" + FACTORY + b"LegacyHierarchicalLedgerManagerFactory:1\n", Layout.LEGACY_HIERARCHICAL),
        (b"2\n" + FACTORY + b"FlatLedgerManagerFactory:1", Layout.FLAT),
        (b"1\nhierarchical:1", Layout.HIERARCHICAL),
        (b"1\nflat:1", Layout.FLAT),
    ],
)
def test_layouts_are_known_by_their_class(value: bytes, layout: Layout):
    assert Layout.parse(value) is layout


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"3\n" + FACTORY + b"HierarchicalLedgerManagerFactory:1",
        b"2\n" + FACTORY + b"HierarchicalLedgerManagerFactory:2",
        b"2\n" + FACTORY + b"MSLedgerManagerFactory:1",
        b"2\nhierarchical:1",
        b"1\nlonghierarchical:1",
    ],
)
def test_unknown_layouts_are_refused(value: bytes):
    """An unknown layout is refused with its value and the known layouts."""
    with pytest.raises(LedgerMetadataInvalid, match=r"LAYOUT: b'.*' is no ledger layout .* LongHierarchical"):
        Layout.parse(value)


@pytest.mark.parametrize(
    ("layout", "ledger_id", "path"),
    [
        (Layout.HIERARCHICAL, 0, "00/0000/L0000"),
        (Layout.HIERARCHICAL, 12345678, "00/1234/L5678"),
        (Layout.HIERARCHICAL, 2147483646, "21/4748/L3646"),
        (Layout.HIERARCHICAL, 2147483647, "000/0000/0021/4748/L3647"),
        (Layout.HIERARCHICAL, LONG_IDS_END - 1, "922/3372/0368/5477/L5807"),
        (Layout.LONG_HIERARCHICAL, 77, "000/0000/0000/0000/L0077"),
        (Layout.LEGACY_HIERARCHICAL, 12345678, "00/1234/L5678"),
        (Layout.FLAT, 77, "L0000000077"),
    ],
)
def test_paths_by_id(layout: Layout, ledger_id: int, path: str):
    assert layout.path_of(ledger_id) == path
    assert layout.id_of(path) == ledger_id


@given(st.sampled_from(Layout), st.integers(0, LONG_IDS_END - 1) | st.integers(0, SHORT_IDS_END - 1))
def test_each_path_has_one_id(layout: Layout, ledger_id: int):
    """The id is found again from the path, and no layout takes another's path for a ledger with another id."""
    if not layout.takes_long_ids:
        ledger_id %= SHORT_IDS_END
    path = layout.path_of(ledger_id)
    assert layout.id_of(path) == ledger_id
    assert {other.id_of(path) for other in Layout} <= {ledger_id, None}


@pytest.mark.parametrize(
    "path", ["", "available", "idgen/ID-0000000001", "00/0000", "00/0000/0000", "L77", "99/9999/L9999"]
)
def test_other_nodes_are_no_ledgers(path: str):
    assert [layout.id_of(path) for layout in Layout] == [None] * 4


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("ledger_id", [-1, LONG_IDS_END])
def test_ids_without_a_place_are_refused(layout: Layout, ledger_id: int):
    with pytest.raises(LedgerMetadataInvalid, match=f"ledger: {ledger_id} has no place in the layout {layout.value}"):
        layout.path_of(ledger_id)


@pytest.mark.parametrize("layout", [Layout.FLAT, Layout.LEGACY_HIERARCHICAL])
def test_old_layouts_take_no_long_ids(layout: Layout):
    with pytest.raises(LedgerMetadataInvalid, match="give another id"):
        layout.path_of(SHORT_IDS_END)
