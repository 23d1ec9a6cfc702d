"""Format ``delayed_snapshots``: what trackers have pending in the snapshots of a storage, as rows of a data frame.

Every position that a service would hand out from the snapshots occurs once. Tasks read the storage themselves.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from delayed_tracker.spark import schema


class DelayedSnapshotsSource(DataSource):
    """Data source; :func:`delayed_tracker.spark.jobs.session.register_sources` registers it with a session."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return "delayed_snapshots"

    def schema(self) -> StructType:
        """Return all columns; ``.schema(...)`` on the reader selects some."""
        return schema.SNAPSHOT_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the selected columns.

        Raises:
            InvalidInput: an option is wrong, or there is no such column.
            UnknownStorageScheme, StorageBackendMissing: no installed storage has this URL.
        """
        # Spark requests the schema in separate processes, each of which would import all code that reads storages.
        from delayed_tracker.spark.snapshots.snapshot_options import parse_snapshot_options  # noqa: PLC0415
        from delayed_tracker.spark.snapshots.snapshot_reader import DelayedSnapshotsReader  # noqa: PLC0415

        return DelayedSnapshotsReader(parse_snapshot_options(self.options), schema)
