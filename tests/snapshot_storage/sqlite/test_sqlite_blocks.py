"""Entries are put together in rows and separated again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.sqlite.blocks import LastPage, entries_of, rows_of
from delayed_tracker.storage.sqlite.schema import ENTRY_BITS

BASE = 7 << ENTRY_BITS
ENTRIES = [b"metadata", b"a" * 10, b"b" * 10, b"", b"c" * 30, b"d"]

sizes = st.lists(st.integers(0, 40), min_size=1, max_size=30)


def row_for(rows, key):
    """Return the rows that a storage reads for a range that begins with this key."""
    start = max(row[0] for row in rows if row[0] <= key)
    return [row for row in rows if row[0] >= start]


@given(sizes, st.integers(1, 100), st.data())
def test_every_range_comes_back(lengths, block_bytes, data):
    """Any range is returned for any sizes; entry 0 has its own row, and no row of several entries exceeds the limit."""
    entries = [bytes([number]) * length for number, length in enumerate(lengths)]
    rows = list(rows_of(entries, BASE, block_bytes))
    assert rows[0][0] == BASE
    assert rows[0][3] is None
    assert all(len(payload) + len(lengths) <= block_bytes for _, _, payload, lengths in rows if lengths is not None)
    first = data.draw(st.integers(0, len(entries) - 1))
    last = data.draw(st.integers(first, len(entries) - 1))
    wanted = [row for row in row_for(rows, BASE + first) if row[0] <= BASE + last]
    assert entries_of(wanted, BASE + first, BASE + last) == entries[first : last + 1]


def test_a_snapshot_that_is_written_in_pieces_begins_rows_anew():
    """Later entries do not join a row that is committed."""
    rows = [*rows_of(ENTRIES[:3], BASE, 100), *rows_of(ENTRIES[3:], BASE + 3, 100)]
    assert [row[0] - BASE for row in rows] == [0, 1, 3]
    assert entries_of(rows, BASE, BASE + 5) == ENTRIES


@pytest.mark.parametrize(
    "damage",
    [
        lambda key, crc, payload, lengths: (key, crc + 1, payload, lengths),
        lambda key, crc, payload, lengths: (key, crc, payload[:-1] + b"x", lengths),
        lambda key, crc, payload, lengths: (key, crc, payload, lengths[:-4] + b"\x02\0\0\0"),
        lambda key, crc, payload, lengths: (key, crc, payload, lengths[:-1]),
        lambda key, crc, payload, lengths: (key, crc, payload, None),
        lambda key, crc, payload, lengths: (key, crc, payload, "text"),
        lambda key, crc, payload, lengths: (key, crc, "text", lengths),
        lambda key, crc, payload, lengths: (key + 1, crc, payload, lengths),
        lambda key, crc, payload, lengths: (None, crc, payload, lengths),
    ],
)
def test_a_damaged_row_is_corrupt(damage):
    """The checksum covers every part of a row, or its type is tested."""
    metadata, block = rows_of(ENTRIES, BASE, 1_000)
    with pytest.raises(SnapshotCorrupt, match="bucket 7, entry 1"):
        entries_of([metadata, damage(*block)], BASE, BASE + 5)


@pytest.mark.parametrize("kept", [[], [0], [0, 1], [0, 2], [1, 2]])
def test_a_missing_row_is_corrupt(kept):
    """A missing row is detected at the front, in the middle, at the end, and if all are missing."""
    rows = list(rows_of(ENTRIES, BASE, 40))
    assert len(rows) == 3
    with pytest.raises(SnapshotCorrupt, match="bucket 7"):
        entries_of([rows[number] for number in kept], BASE, BASE + 5)
    with pytest.raises(SnapshotCorrupt, match="bucket 7"):
        entries_of(rows[:2], BASE + 4, BASE + 5)


@given(st.lists(sizes, min_size=1, max_size=4), st.integers(1, 100), st.integers(1, 200))
def test_rows_that_fill_the_last_page_come_back(snapshots, block_bytes, page_bytes):
    """Whatever the estimate of the last page, blocks keep to their limit and every snapshot comes back."""
    last_page = LastPage(page_bytes)
    for number, lengths in enumerate(snapshots):
        base = (number + 1) << ENTRY_BITS
        entries = [bytes([number]) * length for length in lengths]
        rows = list(rows_of(entries, base, block_bytes, last_page))
        assert entries_of(rows, base, base + len(entries) - 1) == entries
        assert all(len(row[2]) + len(row[3]) <= block_bytes for row in rows if row[3] is not None)


def test_the_first_block_takes_what_the_page_has_left():
    """Metadata and the first block share a page, and so does the end of a snapshot with the next one."""
    last_page = LastPage(1_000)
    entries = [b"m" * 300, *[b"s" * 56] * 20]
    first = [row[0] - BASE for row in rows_of(entries, BASE, 1_000, last_page)]
    # 300 and 40 bytes leave 660: eleven entries of 60. The other nine take 540 and 40 of the next page.
    assert first == [0, 1, 12]
    following = BASE + (1 << ENTRY_BITS)
    # Metadata and 40 bytes of its row leave 80 bytes of that page: one entry.
    assert [row[0] - following for row in rows_of(entries, following, 1_000, last_page)] == [0, 1, 2, 18]
