"""Many small RoaringBitmaps serialized at once, byte-equal to building, run-optimising and serializing each.

A bucket of 50,000 indexes over a week has about 2,000 segments and as many bitmaps of 27 entries: objects for each cost
more than everything else in its encoding. The portable format is simple enough to be laid out with columns::

    no run container   3A 30 00 00 | count u32 |             key u16, size-1 u16 ... | offset u32 ... | containers
    any run container  3B 30 count-1 u16 | flags, one bit each | key u16, size-1 u16 ... | offset u32 ... | containers
    array container    values u16 ...                         when not larger than as runs
    run container      run count u16 | first u16, length-1 u16 ...

With run containers the offsets are there only from four containers on. A bitmap with a container of more than 4,096
values is left to the library; such a bitmap is large enough to pay for its object.

Source: RoaringFormatSpec; ``RoaringBitmap.runOptimize`` (runs win only if strictly smaller).
"""

from array import array
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from snapshot_storage.varint_columns import UInt8Array, spans
from tracker.core.columns import BoolArray, Int64Array

_ARRAY_VALUES_MAX: Final = 4_096
_COOKIE: Final = 12_346
_COOKIE_RUNS: Final = 12_347
_OFFSETS_FROM: Final = 4


@dataclass(frozen=True, slots=True)
class BitmapBytes:
    """Serialized bitmaps, one after the other."""

    flat: UInt8Array
    widths: Int64Array


@dataclass(frozen=True, slots=True)
class _Containers:
    """One row for each container: the values of a bitmap that share their upper 16 bits."""

    bitmap: Int64Array
    key: Int64Array
    first_row: Int64Array
    size: Int64Array
    run_count: Int64Array
    as_runs: BoolArray
    body_bytes: Int64Array


def serialize_bitmaps(values: Int64Array, starts: Int64Array) -> BitmapBytes:
    """The bytes of one run-optimised bitmap for each group of values.

    Args:
        values: 0 to 2^32-1, strictly ascending within each group.
        starts: the row at which each group begins, ascending; no group is empty.
    Cost: O(n), and an object for each bitmap with a container of more than 4,096 values.
    """
    count = len(starts)
    if not count:
        return BitmapBytes(np.empty(0, np.uint8), np.empty(0, np.int64))
    bitmap_of_row = np.zeros(len(values), np.int64)
    bitmap_of_row[starts[1:]] = 1
    np.cumsum(bitmap_of_row, out=bitmap_of_row)
    key = values >> 16
    opens = np.ones(len(values), np.bool_)
    opens[1:] = (bitmap_of_row[1:] != bitmap_of_row[:-1]) | (key[1:] != key[:-1])
    opens_run = opens.copy()
    opens_run[1:] |= values[1:] != values[:-1] + 1

    containers = _containers(bitmap_of_row, key, np.flatnonzero(opens), opens_run)
    large = np.zeros(count, np.bool_)
    large[containers.bitmap[containers.size > _ARRAY_VALUES_MAX]] = True
    if not large.any():
        return _lay_out(values, opens_run, containers, count)
    return _with_large(values, starts, large)


def _containers(bitmap_of_row: Int64Array, key: Int64Array, first_row: Int64Array, opens_run: BoolArray) -> _Containers:
    size = np.diff(first_row, append=len(key))
    run_count = np.add.reduceat(opens_run, first_row, dtype=np.int64)
    run_bytes, array_bytes = 2 + 4 * run_count, 2 * size
    as_runs = run_bytes < array_bytes
    return _Containers(
        bitmap=bitmap_of_row[first_row],
        key=key[first_row],
        first_row=first_row,
        size=size,
        run_count=run_count,
        as_runs=as_runs,
        body_bytes=np.where(as_runs, run_bytes, array_bytes),
    )


def _lay_out(values: Int64Array, opens_run: BoolArray, containers: _Containers, count: int) -> BitmapBytes:
    """Serialize bitmaps none of whose containers is large."""
    first_container = np.searchsorted(containers.bitmap, np.arange(count))
    container_count = np.diff(first_container, append=len(containers.bitmap))
    number = np.arange(len(containers.bitmap)) - first_container[containers.bitmap]
    has_runs = np.logical_or.reduceat(containers.as_runs, first_container)
    flag_bytes = (container_count + 7) // 8
    keys_at = np.where(has_runs, 4 + flag_bytes, 8)
    has_offsets = ~has_runs | (container_count >= _OFFSETS_FROM)
    offsets_at = keys_at + 4 * container_count
    bodies_at = offsets_at + np.where(has_offsets, 4 * container_count, 0)
    body_end = np.cumsum(containers.body_bytes)
    body_start = body_end - containers.body_bytes
    body_at = body_start - body_start[first_container][containers.bitmap] + bodies_at[containers.bitmap]
    widths = bodies_at + np.add.reduceat(containers.body_bytes, first_container)
    base = np.cumsum(widths) - widths
    flat = np.zeros(int(base[-1] + widths[-1]), np.uint8)

    cookie = np.where(has_runs, _COOKIE_RUNS | ((container_count - 1) << 16), _COOKIE)
    _put(flat, base, cookie, 4)
    plain = np.flatnonzero(~has_runs)
    _put(flat, base[plain] + 4, container_count[plain], 4)
    runs = np.flatnonzero(containers.as_runs)
    np.bitwise_or.at(
        flat,
        base[containers.bitmap[runs]] + 4 + number[runs] // 8,
        np.left_shift(1, number[runs] % 8).astype(np.uint8),
    )
    container_base = base[containers.bitmap]
    _put(
        flat,
        container_base + keys_at[containers.bitmap] + 4 * number,
        containers.key | ((containers.size - 1) << 16),
        4,
    )
    located = np.flatnonzero(has_offsets[containers.bitmap])
    _put(
        flat,
        (container_base + offsets_at[containers.bitmap] + 4 * number)[located],
        body_at[located],
        4,
    )
    _put_bodies(flat, values, opens_run, containers, container_base + body_at)
    return BitmapBytes(flat, widths)


def _put_bodies(
    flat: UInt8Array, values: Int64Array, opens_run: BoolArray, containers: _Containers, body_at: Int64Array
) -> None:
    low = values & 0xFFFF
    arrays = np.flatnonzero(~containers.as_runs)
    if len(arrays):
        sizes = containers.size[arrays]
        rows = low[spans(containers.first_row[arrays], sizes)] if len(arrays) < len(body_at) else low
        places = np.repeat(body_at[arrays] - 2 * (np.cumsum(sizes) - sizes), sizes) + 2 * np.arange(len(rows))
        _put(flat, places, rows, 2)
    runs = np.flatnonzero(containers.as_runs)
    if len(runs):
        counts = containers.run_count[runs]
        _put(flat, body_at[runs], counts, 2)
        run_rows = np.flatnonzero(opens_run)
        run_sizes = np.diff(run_rows, append=len(values))
        first_run = np.searchsorted(run_rows, containers.first_row[runs])
        chosen = spans(first_run, counts)
        places = np.repeat(body_at[runs] + 2 - 4 * (np.cumsum(counts) - counts), counts) + 4 * np.arange(len(chosen))
        _put(flat, places, low[run_rows[chosen]] | ((run_sizes[chosen] - 1) << 16), 4)


def _put(flat: UInt8Array, places: Int64Array, values: Int64Array, size: int) -> None:
    """Write little-endian integers of 2 or 4 bytes at any places."""
    word: NDArray[np.uint16] | NDArray[np.uint32]
    if not len(places):
        return
    dtype = "<u2" if size == 2 else "<u4"
    word = np.ndarray((len(flat) - size + 1,), dtype, buffer=flat, strides=(1,))
    word[places] = values.astype(dtype)


def _with_large(values: Int64Array, starts: Int64Array, large: BoolArray) -> BitmapBytes:
    """Serialize a mixture: the large ones by the library, the others together."""
    ends = np.append(starts[1:], len(values))
    small = np.flatnonzero(~large)
    sizes = (ends - starts)[small]
    together = serialize_bitmaps(values[spans(starts[small], sizes)], np.cumsum(sizes) - sizes)
    widths = np.zeros(len(starts), np.int64)
    widths[small] = together.widths
    alone: dict[int, bytes] = {}
    for number in np.flatnonzero(large).tolist():
        bitmap = BitMap(array("I", values[starts[number] : ends[number]].astype(np.uint32).tobytes()))
        bitmap.run_optimize()
        alone[number] = bitmap.serialize()
        widths[number] = len(alone[number])
    base = np.cumsum(widths) - widths
    flat = np.empty(int(widths.sum()), np.uint8)
    flat[spans(base[small], together.widths)] = together.flat
    for number, encoded in alone.items():
        flat[base[number] : base[number] + len(encoded)] = np.frombuffer(encoded, np.uint8)
    return BitmapBytes(flat, widths)
