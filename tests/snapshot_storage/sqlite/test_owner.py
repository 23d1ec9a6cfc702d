"""Tests of the owner of what root writes: the user of the service can open it."""

import os
from pathlib import Path

import pytest

from delayed_tracker.files.lock_file import LockFile
from delayed_tracker.storage.sqlite.backup import backup_storage
from delayed_tracker.storage.sqlite.lock import lock_path, lock_path_of
from delayed_tracker.storage.sqlite.restore import restore_storage
from tests.snapshot_storage.sqlite.sqlite_files import started

SERVICE = 10_001
"""User and group of a service."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def told(_done: int, _total: int) -> None:
    """Take the progress of a copy."""


def owners(directory: Path) -> set[int]:
    return {each for path in directory.iterdir() for each in (path.stat().st_uid, path.stat().st_gid)}


@pytest.fixture
async def backup(tmp_path: Path) -> Path:
    """Return a backup that only root can read."""
    async with started(tmp_path / "tracker.db"):
        pass
    copy = tmp_path / "copy"
    backup_storage(tmp_path / "tracker.db", copy, force=False, progress=told)
    copy.chmod(0o600)
    return copy


async def test_what_root_restores_belongs_to_the_owner_of_the_directory(tmp_path, backup):
    """Files and lock files of a storage that there was not are the service's, with the permissions of the backup."""
    directory = tmp_path / "data"
    directory.mkdir()
    os.chown(directory, SERVICE, SERVICE)
    restored = restore_storage(backup, directory / "tracker.db", force=False, progress=told)
    assert {*restored.paths, lock_path_of(directory / "tracker.db")} <= set(directory.iterdir())
    assert owners(directory) == {SERVICE}
    assert (directory / "tracker.db").stat().st_mode & 0o777 == 0o600


async def test_what_root_restores_belongs_to_the_owner_of_the_file_that_it_replaces(tmp_path, backup):
    """A storage that is replaced keeps its owner, whose directory may be another's."""
    directory = tmp_path / "data"
    directory.mkdir()
    target = directory / "tracker.db"
    restore_storage(backup, target, force=False, progress=told)
    os.chown(target, SERVICE, SERVICE)
    lock_path_of(target).unlink()
    restore_storage(backup, target, force=True, progress=told)
    assert {path.stat().st_uid for path in (target, lock_path_of(target))} == {SERVICE}


async def test_a_backup_of_root_belongs_to_the_owner_of_its_directory(tmp_path, backup):
    """A backup that root makes in the service's directory can be read by the service's user."""
    directory = tmp_path / "copies"
    directory.mkdir()
    os.chown(directory, SERVICE, SERVICE)
    backup_storage(tmp_path / "tracker.db", directory / "copy", force=False, progress=told)
    assert owners(directory) == {SERVICE}


def test_a_lock_file_that_root_left_is_given_back(tmp_path):
    """The next lock of root gives an existing lock file to the service, too."""
    os.chown(tmp_path, SERVICE, SERVICE)
    path = tmp_path / "tracker.db"
    lock_path_of(path).touch()
    lock = lock_path(path)
    assert isinstance(lock, LockFile)
    lock.release()
    assert lock_path_of(path).stat().st_uid == SERVICE
