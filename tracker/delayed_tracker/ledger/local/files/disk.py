"""What local ledgers do to files, one step at a time: the seam at which tests cut the power or fill the disk.

A step is what a crash cannot divide, or may: a write may reach the disk in part or not at all until the file is synced,
a new, renamed or removed name may be lost until its directory is synced.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from delayed_tracker.core.values.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is open for reading and writing."""

    path: Path
    descriptor: int


class Disk:
    """The file system. Every method raises ``OSError`` as the system does."""

    def create(self, path: Path) -> OpenFile:
        """Open a file, empty; one that is there loses what it had."""
        return OpenFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))

    def open(self, path: Path) -> OpenFile:
        """Open a file that is there."""
        return OpenFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def write(self, file: OpenFile, content: bytes | memoryview, offset: int) -> None:
        """Put bytes at an offset, all of them."""
        rest = memoryview(content)
        while rest:
            written = os.pwrite(file.descriptor, rest, offset)
            rest, offset = rest[written:], offset + written

    def sync(self, file: OpenFile) -> None:
        """Make the file's bytes durable."""
        os.fdatasync(file.descriptor)

    def truncate(self, file: OpenFile, size: int) -> None:
        """Cut off what is behind ``size``."""
        os.ftruncate(file.descriptor, size)

    def close(self, file: OpenFile) -> None:
        """Close a file; says nothing about durability."""
        os.close(file.descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file the name of another, which is gone then."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file; no error if it is gone."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory, unless it is there."""
        path.mkdir(exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, path: Path, content: bytes) -> None:
        """Put a whole file in place of another, so that a crash leaves one or the other."""
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
    """Make a directory, and its name durable, if it alone is missing: more than one missing level is a mistyped path.

    Raises:
        InvalidInput: the directory above is missing, or a file has the name.
        OSError: it cannot be made.
    """
    if path.is_dir():
        return
    if path.exists():
        raise InvalidInput("ledger directory", str(path), "it is a file; give another path")
    if not path.parent.is_dir():
        raise InvalidInput("ledger directory", str(path), f"create the directory {path.parent} first")
    disk.make_directory(path)
    disk.sync_directory(path.parent)
