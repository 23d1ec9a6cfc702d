"""The file with the end of the open ledger's durable part, for readers. It is overwritten after every sync.

The file is not synced: as long as the machine runs, all processes see what was written. After a power failure the log
has the same information, and at worst the file is out of date.
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
    """The ``confirmed`` file, open for writing."""

    file: OpenFile
    disk: Disk

    @classmethod
    def open(cls, directory: TopicDirectory, disk: Disk) -> "ConfirmedFile":
        """Open the file, or create it with the size that it keeps.

        Raises:
            OSError: the file cannot be created.
        """
        if directory.confirmed.exists():
            return cls(disk.open(directory.confirmed), disk)
        nothing = Confirmed(*_NO_LEDGER, HEADER_BYTES, 0)
        disk.replace(directory.confirmed, nothing.encode())
        return cls(disk.open(directory.confirmed), disk)

    def write(self, confirmed: Confirmed) -> None:
        """Write the end of a ledger's durable part.

        Raises:
            OSError: the file cannot be written.
        """
        self.disk.write(self.file, confirmed.encode(), 0)

    def close(self) -> None:
        """Close the file."""
        self.disk.close(self.file)
