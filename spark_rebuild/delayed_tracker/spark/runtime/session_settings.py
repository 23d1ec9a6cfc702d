"""Settings of a Spark session. Apart from the session, because they are needed before its imports, to start Java."""

import os
import sys
from collections.abc import Mapping
from typing import Final

from delayed_tracker.spark.runtime import daemon

_ALWAYS: Final = {
    # The data source skips rows that a pushed filter excludes.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows in a batch between Spark and Python: some hundred kilobytes in each direction.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.session.timeZone": "UTC",
    # Spark divides a partition that has most of the rows, and joins small ones.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    # A worker needs a second to import the libraries and to load the kernels.
    "spark.python.worker.reuse": "true",
    # Over TCP, each task that reads waits for a delayed acknowledgement: a fifth of its time.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL: Final = {
    # The web pages of a job take 0.8 s of a start.
    "spark.ui.enabled": "false",
}
"""Settings of a session on this machine alone."""
_UNDER_SPARK_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"


def session_settings(
    master: str | None = None, *, name: str = "spark-rebuild", options: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the settings of a session that :func:`build_session` builds with the same arguments."""
    chosen: dict[str, str] = {}
    if not is_submitted():
        chosen["spark.master"] = master or "local[*]"
    elif master is not None:
        chosen["spark.master"] = master
    settings = {"spark.app.name": name, **_ALWAYS, **chosen}
    if not is_submitted() and is_local(chosen):
        settings |= _LOCAL
        if os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable:
            settings["spark.python.daemon.module"] = daemon.MODULE
    return {**settings, **(options or {}), **chosen}


def is_submitted() -> bool:
    """Return True if spark-submit started this process."""
    return _UNDER_SPARK_SUBMIT in os.environ


def is_local(settings: Mapping[str, str]) -> bool:
    """Return True if driver and tasks run in one Java on this machine."""
    return settings.get("spark.master", "").partition("[")[0] == "local"
