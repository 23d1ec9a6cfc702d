"""The file that tells readers how far the open ledger is durable, written over after every sync.

It is not synced: while the machine runs, everybody sees what was written; after a power cut the log tells as much, and at
worst the file is behind.
"""

from dataclasses import dataclass

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.bookkeeper.entry_log import HEADER_BYTES
from delayed_tracker.ledger.local.files.disk import Disk, OpenFile
from delayed_tracker.ledger.local.files.layout import TopicDirectory
from delayed_tracker.ledger.local.metadata import Confirmed

_NO_LEDGER = Position(-1, -1)


@dataclass(frozen=True, slots=True)
class ConfirmedFile:
    """The file, open for writing."""

    file: OpenFile
    disk: Disk

    @classmethod
    def open(cls, directory: TopicDirectory, disk: Disk) -> "ConfirmedFile":
        """Open it, or make it, with space on disk for what will be written.

        Raises:
            OSError: it cannot be made.
        """
        if directory.confirmed.exists():
            return cls(disk.open(directory.confirmed), disk)
        nothing = Confirmed(*_NO_LEDGER, HEADER_BYTES, 0)
        disk.replace(directory.confirmed, nothing.encode())
        return cls(disk.open(directory.confirmed), disk)

    def write(self, confirmed: Confirmed) -> None:
        """Say how far a ledger is durable.

        Raises:
            OSError: it cannot be written.
        """
        self.disk.write(self.file, confirmed.encode(), 0)

    def close(self) -> None:
        """Close the file."""
        self.disk.close(self.file)
