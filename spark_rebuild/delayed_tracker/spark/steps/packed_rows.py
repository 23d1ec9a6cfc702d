"""Rows of numbers packed into a few values: what Spark keeps, moves and hands to Python as it is.

Spark takes rows apart one by one wherever they leave Python, and puts them together again where they come back. Most
rows of a job are looked at by Python alone; those travel as Arrow streams, some thousands to a value.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

ROWS_AT_ONCE: Final = 1 << 15
"""Rows in a value, about: together half a megabyte."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class Packer:
    """Joins batches of one schema to values of about one size, in their order."""

    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []
        self._count = 0

    def add(self, batch: pa.RecordBatch) -> Iterator["PackedRows"]:
        """Take a batch; give a value if there is enough for one."""
        if batch.num_rows:
            self._held.append(batch)
            self._count += batch.num_rows
        if self._count >= ROWS_AT_ONCE:
            yield from self.end()

    def end(self) -> Iterator["PackedRows"]:
        """What is left, if anything is."""
        if self._held:
            yield PackedRows(packed(pa.Table.from_batches(self._held).combine_chunks()), self._count)
            self._held, self._count = [], 0


class PackedRows(NamedTuple):
    """Rows as one value."""

    value: bytes
    row_count: int


def packed(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Rows as one value."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as stream:
        stream.write(rows)
    value: bytes = sink.getvalue().to_pybytes()
    return value


def unpacked(values: pa.Array) -> Iterator[pa.RecordBatch]:
    """The batches of a column of values."""
    for value in values:
        with pa.ipc.open_stream(value.as_buffer()) as stream:
            yield from stream
