"""Reads the format ``pulsar_ledger``: planned once for a query, then read part by part in tasks."""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from delayed_tracker.ledger import checksum_kernels, kernels
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag, scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import BadEntry, EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.topic.entry_location import unreadable_entry
from delayed_tracker.spark.runtime.python_worker import freeze_heap
from delayed_tracker.spark.source.arrow_rows import ArrowRows, Rows, by_code, repeated
from delayed_tracker.spark.source.entry_filter import EntryFilter
from delayed_tracker.spark.source.ledger_plan import BadPart, BadRow, LedgerPart, plan_parts
from delayed_tracker.spark.source.ledger_splits import LedgerRange
from delayed_tracker.spark.source.log_reading import LogEntries, LogReader
from delayed_tracker.spark.source.log_splits import LogPart
from delayed_tracker.spark.source.source_options import KeptEntries, PushFilters, SourceOptions


class PulsarLedgerReader(DataSourceReader):
    """Reader that plans on the driver and reads in the workers."""

    def __init__(self, options: SourceOptions, wanted: StructType) -> None:
        self._options = options
        self._wanted = wanted
        self._filter = EntryFilter()
        ArrowRows(wanted)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts to read."""
        return plan_parts(self._options, self._filter.ledgers)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part."""
        _load_kernels()
        freeze_heap()
        rows = ArrowRows(self._wanted)
        match partition:
            case BadPart():
                yield from self._bad_rows(rows, partition.bad)
            case LogPart():
                reader = LogReader(partition)
                for found in reader.read():
                    yield from self._logged(rows, reader, found)
            case LedgerPart():
                for entries in partition.ranges:
                    for piece in entries.ledger.scan(entries.first, entries.last):
                        yield from self._scanned(rows, entries, piece)

    def _scanned(self, rows: ArrowRows, entries: LedgerRange, piece: LedgerEntries) -> Iterator[pa.RecordBatch]:
        columns = scan_entries(piece.entries)
        bad: list[BadRow] = [(entries.topic, found) for found in piece.bad_entries]
        for row, reason in columns.unreadable():
            entry_id = int(columns.stored.entry_id[row])
            bad.append((entries.topic, unreadable_entry(entries.ledger, entry_id, reason)))
        yield from self._bad_rows(rows, bad)
        kept = self._kept(columns)
        count = len(columns.verdict[kept])
        if count:
            yield rows.entries(lambda: repeated(entries.topic, count), columns, kept)

    def _logged(self, rows: ArrowRows, reader: LogReader, found: LogEntries) -> Iterator[pa.RecordBatch]:
        columns = scan_entries(found.entries)
        bad: list[BadRow] = [(reader.topic_of(bad.ledger_id), bad) for bad in found.bad_entries]
        for row, reason in columns.unreadable():
            ledger_id, entry_id = (int(ids[row]) for ids in (columns.stored.ledger_id, columns.stored.entry_id))
            damaged = BadEntry(ledger_id, entry_id, str(reader.part.file), int(found.record[row]), reason)
            bad.append((reader.topic_of(ledger_id), damaged))
        yield from self._bad_rows(rows, bad)
        kept = self._kept(columns)
        if len(columns.verdict[kept]):
            yield rows.entries(lambda: by_code(reader.topics, found.topic_no[kept]), columns, kept)

    def _kept(self, columns: EntryColumns) -> Rows:
        kept = columns.readable & self._filter.keeps(columns)
        if self._options.kept is KeptEntries.DELAYED:
            markers = columns.has(EntryFlag.MARKER | EntryFlag.TRANSACTION)
            kept &= markers | (columns.has(EntryFlag.DELAYED) & ~columns.has(EntryFlag.MARKER))
        return slice(None) if kept.all() else np.flatnonzero(kept)

    def _bad_rows(self, rows: ArrowRows, bad: Sequence[BadRow]) -> Iterator[pa.RecordBatch]:
        if bad and self._options.on_error is ErrorPolicy.FAIL:
            raise EntriesUnreadable([found for _, found in bad])
        kept = [(topic, found) for topic, found in bad if self._filter.keeps_bad(found.ledger_id)]
        if kept:
            yield rows.bad_entries(kept)


class FilteringReader(PulsarLedgerReader):
    """Reader that applies conditions of the query."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  Spark's name
        """Store the conditions that the reader can apply, and return the others."""
        self._filter, rest = EntryFilter.of(filters)
        return rest


def make_reader(options: SourceOptions, wanted: StructType) -> PulsarLedgerReader:
    """Return a reader of the selected columns."""
    kind = FilteringReader if options.push_filters is PushFilters.YES else PulsarLedgerReader
    return kind(options, wanted)


@cache
def _load_kernels() -> None:
    for module in (kernels, checksum_kernels):
        module.KERNELS.load()
