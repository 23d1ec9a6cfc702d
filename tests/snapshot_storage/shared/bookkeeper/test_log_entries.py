"""Bytes of log entries: read back as written, cut to fit, and no damage passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.storage.bookkeeper.log.entries import (
    PIECE_OVERHEAD_BYTES,
    Cut,
    Defined,
    EntryCorrupt,
    Piece,
    Records,
    entries_of,
    items_of,
)

INT63 = st.integers(0, 2**63 - 1)
ORDINALS = st.integers(0, 2**32 - 1)
RECORDS = st.builds(
    Records, ORDINALS, st.integers(1, 2**62), st.lists(st.binary(max_size=300), min_size=1, max_size=8).map(tuple)
)
ITEMS = st.lists(
    st.one_of(
        st.builds(Defined, ORDINALS, st.text(max_size=20), st.text(max_size=20), INT63, INT63, st.booleans()),
        RECORDS,
        st.builds(Cut, ORDINALS, INT63),
    ),
    max_size=8,
)


@given(ITEMS)
def test_items_come_back(items):
    """In order, from one entry if they fit."""
    entries = entries_of(items, 1 << 20)
    assert [item for entry in entries for item in items_of(entry.octets)] == items
    assert [list(entry.items) for entry in entries] == [items_of(entry.octets) for entry in entries]
    assert len(entries) == bool(items)


@given(st.lists(RECORDS, max_size=5), st.integers(PIECE_OVERHEAD_BYTES + 8, 400))
def test_no_entry_is_too_large(items, bytes_max):
    """Records are spread over entries, and a large one comes in pieces that follow each other."""
    entries = entries_of(items, bytes_max)
    assert all(len(entry.octets) <= bytes_max for entry in entries)
    found, pieces = [], []
    for item in (item for entry in entries for item in items_of(entry.octets)):
        if isinstance(item, Piece):
            assert item.offset == sum(map(len, pieces))
            pieces.append(item.content)
            if item.is_last:
                found.append((item.ordinal, item.number, b"".join(pieces)))
                pieces = []
        else:
            assert not pieces
            found += [(item.ordinal, number, record) for number, record in enumerate(item.records, item.first_number)]
    assert found == [
        (item.ordinal, number, record)
        for item in items
        for number, record in enumerate(item.records, item.first_number)
    ]


def test_each_damaged_byte_is_found():
    """Flipped, or cut off anywhere, an entry is refused."""
    items = [Defined(0, "topic", "cursor", 7, 5), Records(0, 8, (b"one", b"", b"three")), Cut(0, 6)]
    (entry,) = entries_of(items, 1 << 20)
    for offset in range(len(entry.octets)):
        damaged = bytearray(entry.octets)
        damaged[offset] ^= 0x40
        with pytest.raises(EntryCorrupt):
            items_of(bytes(damaged))
    for length in range(len(entry.octets)):
        with pytest.raises(EntryCorrupt):
            items_of(entry.octets[:length])


def test_a_newer_version_is_named():
    """The message says which version this program reads."""
    (entry,) = entries_of([Cut(0, 1)], 1 << 20)
    with pytest.raises(EntryCorrupt, match="version 2; this program reads 1"):
        items_of(entry.octets[:4] + b"\x02" + entry.octets[5:])
