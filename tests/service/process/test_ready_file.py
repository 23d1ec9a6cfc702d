"""The ready file: unusable paths are refused before anything is opened, a leftover is removed, another's is not."""

import os

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.process.ready_file import ReadyFile


def test_it_appears_whole_and_disappears(tmp_path):
    """The file leaves no other file beside it, and a stale one is removed when the service begins to start."""
    path = tmp_path / "ready.json"
    path.write_text("stale")
    ready = ReadyFile(path)
    ready.prepare()
    assert list(tmp_path.iterdir()) == []
    ready.write("{}\n")
    assert [(found, found.read_text()) for found in tmp_path.iterdir()] == [(path, "{}\n")]
    ready.remove()
    ready.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_running_service_stays(tmp_path):
    """A start that never gets to serve takes nothing from the service that runs."""
    path = tmp_path / "ready.json"
    running, failing = ReadyFile(path), ReadyFile(path)
    running.prepare()
    running.write("running\n")
    failing.prepare()
    failing.remove()
    assert [(found, found.read_text()) for found in tmp_path.iterdir()] == [(path, "running\n")]
    running.remove()
    assert not path.exists()


def test_a_file_that_another_service_has_replaced_stays(tmp_path):
    """Two services with the same path: the file is of the later one until that stops."""
    path = tmp_path / "ready.json"
    earlier, later = ReadyFile(path), ReadyFile(path)
    earlier.write("earlier\n")
    later.prepare()
    later.write("later\n")
    earlier.remove()
    assert path.read_text() == "later\n"
    later.remove()
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a" * 300, "File name too long"),
        ("a" * 252, "File name too long"),
        ("directory", "Is a directory"),
        ("file/ready", "Not a directory"),
        ("missing/ready", "No such file or directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path, name, said):
    """The error has the option, the path and the remedy."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match=f"--ready-file: .*{said}: name a file in a directory that"):
        ReadyFile(tmp_path / name).prepare()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_refused_at_once(tmp_path):
    """The refusal comes before anything is opened."""
    tmp_path.chmod(0o555)
    with pytest.raises(InvalidInput, match="Permission denied"):
        ReadyFile(tmp_path / "ready").prepare()


def test_a_failed_removal_does_not_prevent_closing(tmp_path, written_log):
    """A failed removal is a warning, so the storage is still closed."""
    log = written_log("json", "info")
    directory = tmp_path / "run"
    directory.mkdir()
    ready = ReadyFile(directory / "ready")
    ready.prepare()
    ready.write("{}\n")
    directory.rename(tmp_path / "elsewhere")
    directory.touch()
    ready.remove()
    assert "ready file not removed" in log.getvalue()


def test_without_a_file_nothing_is_done():
    """The option may be omitted."""
    ready = ReadyFile(None)
    ready.prepare()
    ready.write("{}")
    ready.remove()
