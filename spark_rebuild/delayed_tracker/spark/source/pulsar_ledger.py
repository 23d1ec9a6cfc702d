"""The format ``pulsar_ledger``: entries of topics' ledgers as rows of a data frame, wherever the ledgers lie.

Every position occurs once, however many copies there are. A query's columns are those of its ``schema``; what it says
about ledgers, deadlines and publish times can be applied before rows leave Python, by the option ``pushFilters``.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from delayed_tracker.spark import schema


class PulsarLedgerSource(DataSource):
    """Registered with a session by :func:`delayed_tracker.spark.jobs.session.register_sources`."""

    @classmethod
    def name(cls) -> str:
        """What ``spark.read.format`` takes."""
        return "pulsar_ledger"

    def schema(self) -> StructType:
        """All columns; ``.schema(...)`` on the reader chooses some."""
        return schema.ENTRY_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns that are wanted.

        Raises:
            InvalidInput: an option is wrong, or there is no such column.
        """
        # Spark asks processes of their own for the schema, each of which would import all that reads ledgers.
        from delayed_tracker.spark.source.ledger_reader import make_reader  # noqa: PLC0415
        from delayed_tracker.spark.source.source_options import parse_options  # noqa: PLC0415

        return make_reader(parse_options(self.options), schema)
