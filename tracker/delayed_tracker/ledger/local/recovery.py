"""What the writer before left open: where it really ends, told from its log.

Entries that were acknowledged are durable, and either the ``confirmed`` file or a later record says so. Behind them may
lie entries whose acknowledgement nobody saw: those are kept while they are whole, up to the first that is not, where the
power was cut. What is damaged among the acknowledged ones is no torn end: nothing is cut there, it is an error.
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
    """How a ledger ended that was left open."""

    ledger_id: int
    entry_count: int
    payload_bytes: int
    end: int
    """Where its last entry ends in the log."""
    torn_bytes: int
    """Behind that: parts of entries that were never acknowledged. To be cut off."""
    bad_entries: tuple[BadEntry, ...]
    """Acknowledged entries that are not whole."""
    index: Int64Array
    """Where each entry's record ends."""


def examine_open_ledger(directory: TopicDirectory, ledger_id: int) -> RecoveredLedger:
    """Find out where an open ledger ends, changing nothing.

    Raises:
        LedgerFileInvalid: its log is not a ledger's log.
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
    # If the last acknowledged entries are gone or damaged, whatever is there is theirs.
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
    """An open ledger's last entry that is known to be durable, and the bytes of all payloads up to it.

    Raises:
        LedgerFileInvalid: the log must tell, and is not a ledger's log.
        OSError: a file cannot be read.
    Cost: O(1), or O(bytes of the ledger) when the ``confirmed`` file is gone or damaged: then all that is whole counts.
    """
    confirmed = read_confirmed(directory.confirmed)
    if confirmed is None:
        recovered = examine_open_ledger(directory, ledger_id)
        return recovered.entry_count - 1, recovered.payload_bytes
    if confirmed.ledger_id != ledger_id:
        # The ledger is so young that nothing was confirmed yet.
        return -1, 0
    return confirmed.entry_id, confirmed.payload_bytes


def cut_torn_end(directory: TopicDirectory, recovered: RecoveredLedger, disk: Disk) -> None:
    """Cut off what is torn, and write the index anew. Doing it twice does no harm.

    Raises:
        OSError: the disk does not take it.
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
    """Of the entries up to the last one that is whole, which says so itself."""
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
