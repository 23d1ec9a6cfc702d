"""Finds the end of a ledger that the previous writer did not close, from the ledger's log.

Acknowledged entries are durable: the ``confirmed`` file or a later record states this. Entries behind them were
written, but their acknowledgement may not have arrived. These are kept up to the first that is not whole, because
writing was interrupted there. A damaged entry among the acknowledged ones is not a torn end: it is an error, and the
log is not cut there.
"""

import os
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.bookkeeper.entry_log import HEADER_BYTES
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.local.files.disk import Disk
from delayed_tracker.ledger.local.files.layout import TopicDirectory
from delayed_tracker.ledger.local.files.records import RecordNumbers
from delayed_tracker.ledger.local.found_records import find_records
from delayed_tracker.ledger.local.metadata import Confirmed, read_confirmed


@dataclass(frozen=True, slots=True)
class RecoveredLedger:
    """End of a ledger that was left open, and the state of its entries."""

    ledger_id: int
    entry_count: int
    payload_bytes: int
    end: int
    """Offset in the log at which the last entry ends."""
    torn_bytes: int
    """Bytes behind ``end``: parts of entries that were never acknowledged, to be cut off."""
    bad_entries: tuple[BadEntry, ...]
    """Acknowledged entries that are not whole."""
    index: Int64Array
    """Offset at which each entry's record ends."""


def examine_open_ledger(directory: TopicDirectory, ledger_id: int) -> RecoveredLedger:
    """Find the end of an open ledger without changing a file.

    Raises:
        LedgerFileInvalid: the file is not a ledger's log.
        OSError: a file cannot be read.
    Cost: O(bytes of the ledger).
    """
    confirmed = read_confirmed(directory.confirmed)
    if confirmed is None or confirmed.ledger_id != ledger_id:
        confirmed = Confirmed(ledger_id, -1, HEADER_BYTES, 0)
    log = directory.log(ledger_id)
    found = find_records(log, directory.index(ledger_id), ledger_id)
    acknowledged = max(confirmed.entry_id, found.last_add_confirmed) + 1
    not_whole = np.flatnonzero(~found.whole)
    torn_at = not_whole[not_whole >= acknowledged]
    whole_count = int(torn_at[0]) if len(torn_at) else len(found.whole)
    entry_count = max(whole_count, acknowledged)
    bad = [*not_whole[not_whole < acknowledged].tolist(), *range(len(found.whole), acknowledged)]
    # If the last acknowledged entries are missing or damaged, all bytes up to the end of the file belong to them.
    end = found.file_bytes if len(found.whole) < acknowledged else found.start_of(entry_count)
    index = found.ends(entry_count)
    return RecoveredLedger(
        ledger_id,
        entry_count,
        _payload_bytes(directory, found.end, found.whole[:entry_count], confirmed),
        end,
        found.file_bytes - end,
        tuple(
            BadEntry(ledger_id, entry_id, str(log), _start(index, entry_id), "acknowledged, but not whole")
            for entry_id in bad
        ),
        index,
    )


def confirmed_last_entry(directory: TopicDirectory, ledger_id: int) -> tuple[int, int]:
    """Return the last entry of an open ledger that is known to be durable, and the bytes of all payloads up to it.

    Raises:
        LedgerFileInvalid: the log must be read, and it is not a ledger's log.
        OSError: a file cannot be read.
    Cost: O(1). If the ``confirmed`` file is missing or damaged, O(bytes of the ledger): then all whole entries count.
    """
    confirmed = read_confirmed(directory.confirmed)
    if confirmed is None:
        recovered = examine_open_ledger(directory, ledger_id)
        return recovered.entry_count - 1, recovered.payload_bytes
    if confirmed.ledger_id != ledger_id:
        # The ledger is new, and nothing is confirmed yet.
        return -1, 0
    return confirmed.entry_id, confirmed.payload_bytes


def cut_torn_end(directory: TopicDirectory, recovered: RecoveredLedger, disk: Disk) -> None:
    """Cut off the torn end and rewrite the index. The call can be repeated safely.

    Raises:
        OSError: the disk rejects a change.
    """
    if recovered.torn_bytes:
        file = disk.open(directory.log(recovered.ledger_id))
        try:
            disk.truncate(file, recovered.end)
            disk.sync(file)
        finally:
            disk.close(file)
    disk.replace(directory.index(recovered.ledger_id), recovered.index.astype("<i8").tobytes())


def _payload_bytes(
    directory: TopicDirectory, ends: Int64Array, whole: np.typing.NDArray[np.bool_], confirmed: Confirmed
) -> int:
    """Return the bytes of all payloads up to the last whole entry, whose record contains this number."""
    rows = np.flatnonzero(whole)
    if not len(rows):
        return confirmed.payload_bytes
    descriptor = os.open(directory.log(confirmed.ledger_id), os.O_RDONLY | os.O_CLOEXEC)
    try:
        numbers = RecordNumbers.read(descriptor, _start(ends, int(rows[-1])))
    finally:
        os.close(descriptor)
    assert numbers is not None
    return max(numbers.length, confirmed.payload_bytes)


def _start(ends: Int64Array, entry_id: int) -> int:
    return int(ends[entry_id - 1]) if entry_id else HEADER_BYTES
