"""Daemon of Python workers: it imports PySpark's files and not the archive of the same."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from delayed_tracker.spark.runtime import daemon
from delayed_tracker.spark.runtime.daemon import without_archives

PACKAGE = Path(pyspark.__file__).parent
ARCHIVES = [str(archive) for archive in sorted((PACKAGE / "python" / "lib").glob("*.zip"))]


def test_archives_of_what_is_installed_are_left_out():
    """The other places keep their order."""
    path = ["", *ARCHIVES, "/mine.zip", str(PACKAGE.parent)]
    assert len(ARCHIVES) == 2
    assert without_archives(path) == ["", "/mine.zip", str(PACKAGE.parent)]


@pytest.mark.parametrize("place", ["/opt/spark/python/lib/pyspark.zip", "/data/pyspark.zip", "pyspark.zip"])
def test_archives_of_others_stay(place):
    """Another installation may be of another version; an archive elsewhere is a user's."""
    path = [place, str(PACKAGE.parent)]
    assert without_archives(path) == path


def test_archives_stay_where_the_files_are_not_importable():
    """Without the directory on the path, the archive is the only PySpark there is."""
    assert without_archives(ARCHIVES) == ARCHIVES


def test_the_daemon_ends_with_its_standard_input():
    """It says where it listens; nothing was imported from an archive."""
    program = (
        "import sys, runpy; sys.argv[1:] = ['pyspark.worker']\n"
        f"try: runpy.run_module({daemon.MODULE!r}, run_name='__main__')\n"
        "except SystemExit: sys.stderr.write(f'{sys.modules[\"pyspark\"].__file__}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(ARCHIVES)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert len(done.stdout) == 4
    assert done.stderr.decode() == str(PACKAGE / "__init__.py")
