"""The reader of portable Roaring bitmaps against pyroaring."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.wire.roaring_bitmap import entries_of

SETS = {
    "empty": BitMap(),
    "both ends": BitMap([0, 2**32 - 1]),
    "a list, full": BitMap(range(0, 2 * 4_096, 2)),
    "a bitset": BitMap(range(0, 3 * 4_097, 3)),
    "a run": BitMap(range(70_000, 300_000)),
    "a few runs": BitMap([*range(10), *range(20, 5_000), 65_535, 65_536]),
    "many containers": BitMap(random.Random(3).sample(range(2**32), 3_000)),
    "all kinds": BitMap([*range(0, 60_000, 3), *range(70_000, 131_072), 200_000, 300_000, 2**31]),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("optimised", [False, True])
def test_each_kind_of_container_is_read(name, optimised):
    """Lists, bitsets and runs are read, with and without the table of offsets."""
    bitmap = SETS[name].copy()
    if optimised:
        bitmap.run_optimize()
    assert entries_of(bitmap.serialize()).tolist() == list(bitmap)


@given(st.sampled_from(sorted(SETS)), st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_damaged_bytes_are_refused_or_read(name, place, octet, is_cut):
    """Bytes that are cut or changed raise InvalidInput or are another set, and nothing else happens."""
    encoded = bytearray(SETS[name].serialize())
    place %= len(encoded)
    if is_cut:
        del encoded[place:]
    else:
        encoded[place] = octet
    try:
        entries = entries_of(bytes(encoded))
    except InvalidInput:
        return
    assert not is_cut
    assert all(0 <= entry < 2**33 for entry in entries)
