"""Varints and bitmaps in columns agree with their one-at-a-time counterparts."""

from array import array
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from snapshot_storage.roaring_columns import serialize_bitmaps
from snapshot_storage.varint_columns import CellTable, VarintReader, spans, varint_widths

values = st.lists(st.integers(0, 300) | st.integers(0, 2**63 - 1), min_size=1, max_size=40)


def _varint(value: int) -> bytes:
    octets = []
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*octets, value])


@given(values)
def test_varints_are_written_and_read_back(numbers):
    """Any mixture of widths from one to nine bytes."""
    column = np.array(numbers, np.int64)
    table = CellTable(len(column), 10)
    table.put(0x2A)
    table.put_varint(column, varint_widths(column))
    encoded = table.flat().tobytes()
    assert encoded == b"".join(b"\x2a" + _varint(number) for number in numbers)
    starts = np.cumsum(table.widths) - table.widths
    assert VarintReader(encoded).read(starts + 1, table.widths - 1).tolist() == numbers


def test_spans_are_the_ranges_they_say():
    """Ranges of zero length are nothing."""
    assert spans(np.array([5, 9, 20]), np.array([2, 0, 3])).tolist() == [5, 6, 20, 21, 22]
    assert spans(np.array([], np.int64), np.array([], np.int64)).tolist() == []


def _library(groups: list[list[int]]) -> list[bytes]:
    encoded = []
    for group in groups:
        bitmap = BitMap(array("I", group))
        bitmap.run_optimize()
        encoded.append(bitmap.serialize())
    return encoded


def _ours(groups: list[list[int]]) -> list[bytes]:
    sizes = np.array([len(group) for group in groups], np.int64)
    column = np.array([value for group in groups for value in group], np.int64)
    bitmaps = serialize_bitmaps(column, np.cumsum(sizes) - sizes)
    encoded, ends = bitmaps.flat.tobytes(), np.cumsum(bitmaps.widths).tolist()
    return [encoded[start:end] for start, end in pairwise([0, *ends])]


runs = st.builds(lambda start, size: range(start, start + size), st.integers(0, 400_000), st.integers(1, 9))
bitmap_values = st.lists(
    st.integers(0, 30) | st.integers(65_530, 65_545) | st.integers(0, 2**32 - 1), min_size=1, max_size=40
) | st.lists(runs, min_size=1, max_size=12).map(lambda several: [value for one in several for value in one])
groups = st.lists(bitmap_values.map(lambda group: sorted(set(group))), max_size=8)


@given(groups)
def test_bitmaps_are_what_the_library_writes(several):
    """Arrays, runs, several containers, with offsets and without."""
    assert _ours(several) == _library(several)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_large_containers_among_small_ones(step):
    """More than 4,096 values in a container: a bitset, unless they are a run."""
    several = [[1, 5], list(range(0, 70_000, step)), [2**32 - 1], list(range(100, 4_196)), list(range(0, 8_192, 2))]
    assert _ours(several) == _library(several)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_a_run_wins_only_if_it_is_smaller(size):
    """Three in a row take six bytes either way and stay an array."""
    several = [list(range(size)), [*range(size), *range(100, 100 + size)]]
    assert _ours(several) == _library(several)
