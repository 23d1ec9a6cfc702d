"""The codec's kernels write the same bitmaps as the library. test_codec.py tests rows and messages."""

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from delayed_tracker.snapshot.v1 import snapshot_pb2
from delayed_tracker.storage.codec.kernels import encode_segment_metadata


def _library(groups: list[list[int]]) -> list[bytes]:
    encoded = []
    for group in groups:
        bitmap = BitMap(array("I", group))
        bitmap.run_optimize()
        encoded.append(bitmap.serialize())
    return encoded


def _ours(groups: list[list[int]]) -> list[bytes]:
    """Return the bitmaps of the kernel, one segment for each group."""
    starts = np.cumsum([0, *map(len, groups)])
    column = np.array([value for group in groups for value in group], np.int64)
    nothing = np.zeros(len(groups), np.int64)
    octets, repeat = encode_segment_metadata(np.zeros(len(column), np.int64), column, starts, nothing, nothing)
    assert repeat == -1
    message = snapshot_pb2.SnapshotMetadata.FromString(octets.tobytes())
    return [segment.delayed_index_bit_map[0] for segment in message.metadata_list]


runs = st.builds(lambda start, size: range(start, start + size), st.integers(0, 400_000), st.integers(1, 9))
bitmap_values = st.lists(
    st.integers(0, 30) | st.integers(65_530, 65_545) | st.integers(0, 2**32 - 1), min_size=1, max_size=40
) | st.lists(runs, min_size=1, max_size=12).map(lambda several: [value for one in several for value in one])
groups = st.lists(bitmap_values.map(lambda group: sorted(set(group))), max_size=8)


@given(groups)
def test_bitmaps_are_what_the_library_writes(several):
    """Arrays, runs and several containers, with offsets and without, are as the library writes them."""
    assert _ours(several) == _library(several)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_large_containers_among_small_ones(step):
    """More than 4,096 values in a container become a bitset, unless they are a run."""
    several = [[1, 5], list(range(0, 70_000, step)), [2**32 - 1], list(range(100, 4_196)), list(range(0, 8_192, 2))]
    assert _ours(several) == _library(several)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_a_run_wins_only_if_it_is_smaller(size):
    """Three consecutive values take six bytes in either form and stay an array."""
    several = [list(range(size)), [*range(size), *range(100, 100 + size)]]
    assert _ours(several) == _library(several)


def test_the_row_that_repeats_a_position_is_named():
    """A position repeated in its own segment is returned; the same position in the next segment is not."""
    starts, nothing = np.array([0, 2, 5]), np.zeros(2, np.int64)
    ledger_id, entry_id = np.full(5, 7), np.array([1, 2, 2, 3, 3])
    octets, repeat = encode_segment_metadata(ledger_id, entry_id, starts, nothing, nothing)
    assert (len(octets), repeat) == (0, 4)
