"""Rows of numbers packed into a few values, which Spark stores and moves without decoding them.

Spark takes rows apart one by one when they leave Python, and assembles them again when they come back. Only Python
reads most rows of a job; these travel as Arrow streams, some thousands of rows in each value.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

ROWS_AT_ONCE: Final = 1 << 15
"""Approximate number of rows in a value: together half a megabyte."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class Packer:
    """Joins batches of one schema, in order, to values of about the same size."""

    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []
        self._count = 0

    def add(self, batch: pa.RecordBatch) -> Iterator["PackedRows"]:
        """Add a batch; yield a value if enough rows are held."""
        if batch.num_rows:
            self._held.append(batch)
            self._count += batch.num_rows
        if self._count >= ROWS_AT_ONCE:
            yield from self.end()

    def end(self) -> Iterator["PackedRows"]:
        """Yield the remaining rows, if any."""
        if self._held:
            yield PackedRows(packed(pa.Table.from_batches(self._held).combine_chunks()), self._count)
            self._held, self._count = [], 0


class PackedRows(NamedTuple):
    """Many rows as one value."""

    value: bytes
    row_count: int


def packed(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Return rows as one value."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as stream:
        stream.write(rows)
    value: bytes = sink.getvalue().to_pybytes()
    return value


def unpacked(values: pa.Array) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a column of values."""
    for value in values:
        with pa.ipc.open_stream(value.as_buffer()) as stream:
            yield from stream
