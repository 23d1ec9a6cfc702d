"""Format ``pulsar_ledger``: entries of topics' ledgers as rows of a data frame, from every kind of source.

Every position occurs once, however many copies there are. The columns of a query are those of its ``schema``. With the
option ``pushFilters``, conditions on ledgers, deadlines and publish times are applied before rows leave Python.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from delayed_tracker.spark import schema


class PulsarLedgerSource(DataSource):
    """Data source; :func:`delayed_tracker.spark.jobs.session.register_sources` registers it with a session."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return "pulsar_ledger"

    def schema(self) -> StructType:
        """Return all columns; ``.schema(...)`` on the reader selects some."""
        return schema.ENTRY_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the selected columns.

        Raises:
            InvalidInput: an option is wrong, or there is no such column.
        """
        # Spark requests the schema in separate processes, each of which would import all code that reads ledgers.
        from delayed_tracker.spark.source.ledger_reader import make_reader  # noqa: PLC0415
        from delayed_tracker.spark.source.source_options import parse_options  # noqa: PLC0415

        return make_reader(parse_options(self.options), schema)
