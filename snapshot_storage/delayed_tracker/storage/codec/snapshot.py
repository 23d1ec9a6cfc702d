"""A bucket's snapshot before and after its bytes, whatever the codec."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.core.values.position_bitmap import PositionBitmap

_COPIED_BYTES: Final = 512 * 2**10
"""Bytes to copy in one call; a copy of a million indexes would stop all other Python threads for 10 ms."""


@dataclass(frozen=True, slots=True)
class EncodedSnapshot:
    """A bucket in encoded form."""

    metadata: bytes
    segments: Sequence[bytes]
    """One entry for each segment, in time order."""
    length: int
    """Bytes of metadata and segments together."""

    @property
    def largest_entry(self) -> int:
        """Bytes of the largest entry. O(segments)."""
        return max(len(self.metadata), max(map(len, self.segments), default=0))


@dataclass(frozen=True, slots=True)
class SnapshotMetadata:
    """Content of entry 0 of a snapshot: its segments without their rows, and their positions in one of two forms."""

    bounds: SegmentBounds
    segment_bits: list[PositionBitmap] | None = None
    """Positions of each segment, owned by the caller; None if the codec stores them for all segments together."""
    union: PositionBitmap | None = None
    """Positions of all segments, owned by the caller; None if ``segment_bits`` has them."""

    def positions(self) -> PositionBitmap:
        """Return the positions of all segments, owned by the caller. O(bitmaps)."""
        if self.union is not None:
            return self.union.copy()
        bits = PositionBitmap()
        for segment in self.segment_bits or ():
            bits.update(segment)
        return bits


def cut(octets: NDArray[np.uint8], offsets: Int64Array) -> list[bytes]:
    """Return the bytes between each two of the offsets, which ascend."""
    places = offsets.tolist()
    parts: list[bytes] = []
    while len(parts) < len(places) - 1:
        first, begin = len(parts), places[len(parts)]
        end = max(first + 1, bisect_right(places, begin + _COPIED_BYTES) - 1)
        copied = octets[begin : places[end]].tobytes()
        parts += [copied[start - begin : stop - begin] for start, stop in pairwise(places[first : end + 1])]
    return parts
