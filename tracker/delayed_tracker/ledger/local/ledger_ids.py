"""Assigns ledger ids: unique in their directory, ascending, and never assigned twice, whichever process takes them."""

import struct
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.lock_file import waiting_lock
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.ledger.local.files import checked_file
from delayed_tracker.ledger.local.files.disk import Disk
from delayed_tracker.ledger.local.files.layout import LedgerDirectory

_MAGIC: Final = b"DTLI"
_NEXT_ID: Final = struct.Struct(">q")


def take_ledger_id(directory: LedgerDirectory, disk: Disk) -> int:
    """Return an id that no ledger of the directory has or had.

    Raises:
        OSError: the next id cannot be stored; the id is then not taken.
    """
    with waiting_lock(directory.ids_lock):
        taken = _next_id(directory)
        _store(directory.ids, taken + 1, disk)
        return taken


def reserve_ledger_ids(directory: LedgerDirectory, ledger_ids: list[int], disk: Disk) -> None:
    """Reserve the ids of imported ledgers, so that no new ledger gets one of them.

    Raises:
        InvalidInput: an id is outside the range of ledger ids.
        OSError: the next id cannot be stored.
    """
    if not ledger_ids:
        return
    for ledger_id in (min(ledger_ids), max(ledger_ids)):
        if not 0 <= ledger_id < INT63_MAX:
            raise InvalidInput("ledger_id", ledger_id, f"ids of ledgers are 0 to {INT63_MAX - 1}")
    with waiting_lock(directory.ids_lock):
        if max(ledger_ids) >= _next_id(directory):
            _store(directory.ids, max(ledger_ids) + 1, disk)


def _next_id(directory: LedgerDirectory) -> int:
    try:
        body = checked_file.decode(_MAGIC, directory.ids.read_bytes(), directory.ids)
    except (FileNotFoundError, MetadataInvalid):
        # The existing ledgers give the same answer as the file, except for ids of ledgers that were removed.
        present = [
            ledger_id
            for topic in directory.topic_directories()
            for files in (topic, topic.compacted)
            for ledger_id in files.ledger_ids()
        ]
        return max(present, default=-1) + 1
    return int(_NEXT_ID.unpack(body)[0])


def _store(path: Path, next_id: int, disk: Disk) -> None:
    disk.replace(path, checked_file.encode(_MAGIC, _NEXT_ID.pack(next_id)))
