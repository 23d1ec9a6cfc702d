"""The archive for ``--py-files`` has what executors import, though the packages have four roots."""

import os
import resource
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import delayed_tracker

IMPORTS = """
import sys
archive, *roots = sys.argv[1:]
sys.path[:] = [archive, *(path for path in sys.path if path not in roots and path)]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
import importlib.metadata
installed = importlib.metadata.distribution("delayed-tracker")
assert str(installed.locate_file("")).startswith(archive), installed.locate_file("")
import delayed_tracker.spark.jobs.rebuild, delayed_tracker.spark.source.ledger_reader
import delayed_tracker.cli.spark.main, delayed_tracker.storage.registry, delayed_tracker.snapshot.v1
import delayed_tracker.spark.snapshots.snapshot_reader
assert delayed_tracker.spark.jobs.rebuild.__file__.startswith(archive), delayed_tracker.spark.jobs.rebuild.__file__
assert delayed_tracker.storage.registry.storage_schemes().count("file") == 1
assert delayed_tracker.storage.registry.open_storage("file:///x")
"""


def test_the_archive_is_enough_to_import_the_job(command, tmp_path):
    """A Python without the package imports all of it from the archive, and finds the storages in it."""
    archive = tmp_path / "delayed_tracker.zip"
    ran = command("py-files", str(archive), "--json")
    assert ran.status == 0, ran.err
    # An editable install has only data files beside the libraries; those stay importable.
    roots = {str(Path(path).parent) for path in delayed_tracker.__path__} - {sysconfig.get_path("purelib")}
    result = subprocess.run(
        [sys.executable, "-c", IMPORTS, str(archive), *sorted(roots)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
    assert len(names) == len(set(names))
    assert not [name for name in names if "__pycache__" in name]
    assert ran.document["files"] == sum(not name.endswith("/") for name in names)


def test_other_endings_and_places_are_refused(command, tmp_path):
    """Spark would not add the file to the path; a directory that is not there is named."""
    ran = command("py-files", str(tmp_path / "delayed_tracker.whl"))
    assert ran.status == 2
    assert "give a name that ends in .zip" in ran.err
    ran = command("py-files", str(tmp_path / "nowhere" / "delayed_tracker.zip"))
    assert ran.status == 2
    assert "No such file or directory" in ran.err


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_archive(tmp_path):
    """Nothing is left of the new one; the error says what to do."""
    archive = tmp_path / "delayed_tracker.zip"
    archive.write_bytes(b"old")

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    ran = subprocess.run(
        [sys.executable, "-m", "delayed_tracker.cli.spark", "py-files", str(archive)],
        preexec_fn=limit_files,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 4
    assert "cannot be written: File too large; make room, and run it again" in ran.stderr
    assert archive.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [archive]
