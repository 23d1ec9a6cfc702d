"""The data source without Spark: does the work of its workers in this process."""

from collections.abc import Mapping
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import Filter
from pyspark.sql.types import StructType

from delayed_tracker.spark import schema
from delayed_tracker.spark.source.ledger_reader import FilteringReader, make_reader
from delayed_tracker.spark.source.source_options import parse_options

Row = Mapping[str, Any]


def read_rows(
    *conditions: Filter, wanted: StructType = schema.ENTRY_SCHEMA, **options: str
) -> tuple[list[Row], list[Filter]]:
    """Return all rows, and the conditions that are left to Spark. Parts are pickled as between processes."""
    reader = make_reader(parse_options({**options, "pushFilters": "yes" if conditions else "no"}), wanted)
    left = list(reader.pushFilters(list(conditions))) if isinstance(reader, FilteringReader) else []
    parts = reader.partitions()
    reader = cloudpickle.loads(cloudpickle.dumps(reader))
    rows: list[Row] = []
    for part in parts:
        for batch in reader.read(cloudpickle.loads(cloudpickle.dumps(part))):
            rows += batch.to_pylist()
    return rows, left


def parts_of(**options: str) -> int:
    """Return the number of tasks of a read."""
    return len(make_reader(parse_options(options), schema.ENTRY_SCHEMA).partitions())


def positions(rows: list[Row]) -> list[tuple[int, int]]:
    """Return the positions of whole entries, ascending."""
    return sorted((row[schema.LEDGER_ID], row[schema.ENTRY_ID]) for row in rows if row[schema.ERROR] is None)


def bad_rows(rows: list[Row]) -> list[Row]:
    """Return the rows of entries that could not be read."""
    return [row for row in rows if row[schema.ERROR] is not None]
