"""File operations of local ledgers, one step at a time. Tests replace :class:`Disk` to cut the power or fill the disk.

After a crash, a step may be done in part: until the file is synced, a write may be on disk in part or not at all; until
the directory is synced, a new, renamed or removed name may be lost.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.syncing import sync


@dataclass(frozen=True, slots=True)
class OpenFile:
    """File that is open for reading and writing."""

    path: Path
    descriptor: int


class Disk:
    """The real file system. Every method raises ``OSError`` as the operating system does."""

    def create(self, path: Path) -> OpenFile:
        """Open an empty file; an existing file loses its content."""
        return OpenFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))

    def open(self, path: Path) -> OpenFile:
        """Open an existing file."""
        return OpenFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def write(self, file: OpenFile, content: bytes | memoryview, offset: int) -> None:
        """Write all bytes at an offset."""
        rest = memoryview(content)
        while rest:
            written = os.pwrite(file.descriptor, rest, offset)
            rest, offset = rest[written:], offset + written

    def sync(self, file: OpenFile) -> None:
        """Make the file's bytes durable."""
        os.fdatasync(file.descriptor)

    def truncate(self, file: OpenFile, size: int) -> None:
        """Cut the file off at ``size`` bytes."""
        os.ftruncate(file.descriptor, size)

    def close(self, file: OpenFile) -> None:
        """Close a file; this does not make it durable."""
        os.close(file.descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file; a file that has the target name is replaced."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file; it is no error if the file does not exist."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory, unless it exists."""
        path.mkdir(exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        sync(path)

    def replace(self, path: Path, content: bytes) -> None:
        """Replace a whole file, so that a crash leaves either the old or the new content."""
        fresh = path.with_name(path.name + ".new")
        file = self.create(fresh)
        try:
            self.write(file, content, 0)
            self.sync(file)
        finally:
            self.close(file)
        self.rename(fresh, path)
        self.sync_directory(path.parent)


def make_durably(path: Path, disk: Disk) -> None:
    """Make a directory and make its name durable, unless it exists. Its parent must exist.

    If more than one level is missing, the path is probably mistyped.

    Raises:
        InvalidInput: the parent is missing, or a file has this name.
        OSError: the directory cannot be made.
    """
    if path.is_dir():
        return
    if path.exists():
        raise InvalidInput("ledger directory", str(path), "it is a file; give another path")
    if not path.parent.is_dir():
        raise InvalidInput("ledger directory", str(path), f"create the directory {path.parent} first")
    disk.make_directory(path)
    disk.sync_directory(path.parent)
