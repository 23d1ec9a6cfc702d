"""The compiled kernel of compacted ledgers; :mod:`delayed_tracker.core.kernels.jit` has the rules for kernels.

It decodes the form that compactors write. Entries of any other form are left to the caller's parser.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.kernels.jit import COLUMN, OCTETS, Kernels, jitable

Int64Array = NDArray[np.int64]
Octets = NDArray[np.uint8]
Int = int | np.int64

KERNELS: Final = Kernels()


@jitable(forceinline=True)
def _size(octets: Octets, at: Int) -> Int:
    """Read a size i32; a negative size becomes too large for any entry, so it needs no check of its own."""
    high = np.int64(octets[np.uintp(at)]) << 24 | np.int64(octets[np.uintp(at + 1)]) << 16
    return high | np.int64(octets[np.uintp(at + 2)]) << 8 | np.int64(octets[np.uintp(at + 3)])


@KERNELS.add(OCTETS, COLUMN, COLUMN)
def original_positions(octets: Octets, start: Int64Array, end: Int64Array) -> tuple[Int64Array, NDArray[np.bool_]]:
    """Decode the original positions of a compacted ledger's entries.

    Returns: a table with the rows ledger, entry, and start of the entry within ``octets``, one column for each entry;
        and a mask of the entries that were decoded. Columns of other entries have no meaning.
    """
    found = np.zeros((3, len(start)), np.int64)
    decided = np.zeros(len(start), np.bool_)
    for row in range(len(start)):
        at = start[row]
        if end[row] - at < 8:
            continue
        id_end = at + 4 + _size(octets, at)
        if id_end + 4 > end[row] or id_end + 4 + _size(octets, id_end) != end[row]:
            continue
        at += 4
        # Ledger and entry, each a one-byte tag and a varint, in this order. The fields that follow are varints, too.
        seen = 0
        while at < id_end:
            tag = np.int64(octets[np.uintp(at)])
            at += 1
            value = np.int64(0)
            shift = 0
            octet = np.int64(0x80)
            while octet >= 0x80 and at < id_end and shift < 70:
                octet = np.int64(octets[np.uintp(at)])
                at += 1
                value |= (octet & 0x7F) << shift
                shift += 7
            is_known = (tag == 0x08 and seen == 0) or (tag == 0x10 and seen == 1) or (tag == 0x18 and seen == 2)
            if octet >= 0x80 or not is_known or (seen < 2 and value < 0):
                seen = -1
                break
            if seen < 2:
                found[seen, row] = value
            seen += 1
        if seen >= 2:
            found[2, row] = id_end + 4
            decided[row] = True
    return found, decided
