"""Tests of making files and names durable."""

import os
from pathlib import Path

import pytest

from delayed_tracker.files.syncing import sync


def test_files_and_directories_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One fsync for each, of the file or the directory itself."""
    file = tmp_path / "file"
    file.write_bytes(b"content")
    synced: list[Path] = []
    real = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    sync(file)
    sync(tmp_path)
    assert synced == [file, tmp_path]
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "nothing")
