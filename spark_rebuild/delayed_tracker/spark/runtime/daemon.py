"""Runs PySpark's daemon, the process that starts the Python workers, from unpacked files.

    python -m delayed_tracker.spark.runtime.daemon pyspark.worker

Spark puts the archive ``pyspark.zip`` in front of the import path of its Python processes. The archive has no compiled
files, so the daemon compiles PySpark at each start of a session: 1.0 s instead of 0.2 s, before the first task. Where the
same PySpark is installed beside the archive, this program imports that one.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from delayed_tracker.spark.runtime.python_worker import keep_freed_memory, suppress_disconnect_traceback

MODULE: Final = "delayed_tracker.spark.runtime.daemon"
"""Value of ``spark.python.daemon.module``."""
_ARCHIVES: Final = {"pyspark.zip": "pyspark", "py4j-": "py4j"}
"""Beginnings of archive names, and the packages in them."""
_PLACE: Final = ("pyspark", "python", "lib")


def without_archives(path: Sequence[str]) -> list[str]:
    """Return an import path without archives of packages that lie unpacked beside them, in a directory of the path.

    An archive of another installation, such as that of a SPARK_HOME, stays: it may be of another version.
    """
    return [place for place in path if not _is_unpacked(Path(place), path)]


def _is_unpacked(archive: Path, path: Sequence[str]) -> bool:
    package = next((name for start, name in _ARCHIVES.items() if archive.name.startswith(start)), None)
    if package is None or archive.parent.parts[-len(_PLACE) :] != _PLACE:
        return False
    installed = archive.parents[len(_PLACE)]
    return str(installed) in path and (installed / package / "__init__.py").is_file()


def main() -> None:
    """Run the daemon until Spark closes its standard input."""
    sys.path[:] = without_archives(sys.path)
    from pyspark import daemon  # noqa: PLC0415  # after the path has changed

    suppress_disconnect_traceback(daemon)
    keep_freed_memory()  # workers have the settings of the process that starts them
    daemon.manager()


if __name__ == "__main__":
    main()
