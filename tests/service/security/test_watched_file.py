"""A file that is read again when it changes, and what is in force while it cannot be read."""

import os
from pathlib import Path

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.security.file_watch import FileWatch
from delayed_tracker.service.security.watched_file import WatchedFile


def watched(path: Path) -> WatchedFile[bytes]:
    return WatchedFile("rulesFile", path, bytes_max=100, parse=bytes)


def replaced(path: Path, content: bytes, mode: int) -> None:
    """Move another file into the place of one."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.chmod(mode)
    new.replace(path)


def test_a_file_is_read_once_for_each_change(tmp_path: Path):
    path = tmp_path / "rules"
    path.write_bytes(b"old")
    file = watched(path)
    assert not file.refresh()
    replaced(path, b"new", 0o600)
    assert (file.refresh(), file.value, file.refresh()) == (True, b"new", False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_whose_mode_is_repaired_is_read(tmp_path: Path):
    """Its content and its time stay as they were when it could not be read."""
    path = tmp_path / "rules"
    path.write_bytes(b"old")
    file = watched(path)
    replaced(path, b"new", 0)
    with pytest.raises(InvalidInput, match="Permission denied"):
        file.refresh()
    assert (file.value, file.refresh()) == (b"old", False)
    path.chmod(0o600)
    assert (file.refresh(), file.value) == (True, b"new")


def test_a_change_of_mode_is_a_change(tmp_path: Path):
    """A reader of the file looks again."""
    path = tmp_path / "keys"
    path.write_bytes(b"key")
    watch = FileWatch((path,))
    assert (watch.changed(), watch.changed()) == (True, False)
    path.chmod(0o640)
    assert (watch.changed(), watch.changed()) == (True, False)
