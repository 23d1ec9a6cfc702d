"""Entries as Arrow batches, built from the columns of the kernels without a Python object for each row."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.spark import schema

Rows = NDArray[np.intp] | slice
"""Row numbers. A slice selects all rows without a copy."""
_Chosen = Callable[[EntryColumns, Rows], pa.Array]


def _plain(column: Callable[[EntryColumns], NDArray[np.generic]], dtype: type[np.generic]) -> _Chosen:
    """Return the builder of a column that every entry has."""
    return lambda columns, rows: pa.array(column(columns)[rows].astype(dtype, copy=False))


def _if(flag: EntryFlag, column: Callable[[EntryColumns], NDArray[np.generic]], dtype: type[np.generic]) -> _Chosen:
    """Return the builder of a column that is null unless a flag is set."""

    def chosen(columns: EntryColumns, rows: Rows) -> pa.Array:
        values, absent = column(columns)[rows].astype(dtype, copy=False), ~columns.has(flag)[rows]
        return pa.array(values, mask=absent) if absent.any() else pa.array(values)

    return chosen


_COLUMNS: Final[Mapping[str, _Chosen]] = {
    schema.LEDGER_ID: _plain(lambda columns: columns.stored.ledger_id, np.int64),
    schema.ENTRY_ID: _plain(lambda columns: columns.stored.entry_id, np.int64),
    schema.PUBLISH_TIME: _plain(lambda columns: columns.publish_time_ms, np.int64),
    schema.DELIVER_AT_MS: _if(EntryFlag.DELAYED, lambda columns: columns.deliver_at_ms, np.int64),
    schema.BROKER_TIMESTAMP: _if(EntryFlag.BROKER_TIMESTAMP, lambda columns: columns.broker_timestamp_ms, np.int64),
    schema.INDEX: _if(EntryFlag.INDEX, lambda columns: columns.index, np.int64),
    schema.NUM_MESSAGES: _plain(lambda columns: columns.num_messages, np.int32),
    schema.MARKER_TYPE: _if(EntryFlag.MARKER, lambda columns: columns.marker_type, np.int32),
    schema.TXN_ID_MOST: _if(EntryFlag.TRANSACTION, lambda columns: columns.txn_id_most.view(np.int64), np.int64),
    schema.TXN_ID_LEAST: _if(EntryFlag.TRANSACTION, lambda columns: columns.txn_id_least.view(np.int64), np.int64),
    schema.FLAGS: _plain(lambda columns: columns.flags, np.int32),
    schema.SIZE_BYTES: _plain(lambda columns: columns.stored.end - columns.stored.start, np.int32),
}


class ArrowRows:
    """Builder of batches with the columns that a query selects."""

    def __init__(self, wanted: StructType) -> None:
        """Select the columns.

        Args:
            wanted: some or all columns of :data:`schema.ENTRY_SCHEMA`, in any order.
        Raises:
            InvalidInput: a column is unknown or has another type.
        """
        require_columns(wanted, schema.ENTRY_COLUMNS)
        self._schema = to_arrow_schema(wanted, timezone="UTC")

    def entries(self, topics: Callable[[], pa.Array], columns: EntryColumns, rows: Rows) -> pa.RecordBatch:
        """Return a batch of readable entries.

        Args:
            topics: returns the topic of each of ``rows``; called only if the query selects the topic.
            columns: columns of entries.
            rows: the rows to return, in order.
        """
        arrays: list[pa.Array] = []
        count = len(columns.verdict[rows])
        for field in self._schema:
            if field.name == schema.TOPIC:
                arrays.append(topics())
            elif field.name == schema.ENTRY_COUNT:
                arrays.append(pa.array(np.ones(count, np.int64)))
            elif field.name == schema.ERROR:
                arrays.append(pa.nulls(count, field.type))
            else:
                arrays.append(_COLUMNS[field.name](columns, rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def bad_entries(self, found: Sequence[tuple[str | None, BadEntry]]) -> pa.RecordBatch:
        """Return a batch of entries that cannot be read, each with its topic if that is known."""
        known = {
            schema.TOPIC: [topic for topic, _ in found],
            schema.LEDGER_ID: [bad.ledger_id for _, bad in found],
            schema.ENTRY_ID: [bad.entry_id for _, bad in found],
            schema.ENTRY_COUNT: [bad.entry_count for _, bad in found],
            schema.ERROR: [str(bad) for _, bad in found],
        }
        arrays = [
            pa.array(known[field.name], field.type) if field.name in known else pa.nulls(len(found), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def require_columns(wanted: StructType, known: Sequence[schema.Column]) -> None:
    """Raise InvalidInput unless all selected columns are known, with their types."""
    types = {column.name: column.type for column in known}
    for field in wanted.fields:
        if types.get(field.name) != field.dataType:
            has = ", ".join(f"{name} {type_.simpleString()}" for name, type_ in types.items())
            raise InvalidInput("schema", f"{field.name} {field.dataType.simpleString()}", f"columns are {has}")


def repeated(topic: str, count: int) -> pa.Array:
    """Return an array that repeats one topic."""
    return pa.repeat(pa.scalar(topic, pa.string()), count)


def by_code(topics: Sequence[str], codes: Int64Array) -> pa.Array:
    """Return the topic of each code."""
    return pa.array(topics, pa.string()).take(pa.array(codes))
