"""Opens a topic for writing: takes the lock, closes the ledger that was left open, restores the message index."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from delayed_tracker.files.lock_file import LockFile
from delayed_tracker.ledger.entry.interceptors import (
    BROKER_MAGIC,
    INDEX_PROPERTY,
    BrokerEntryMetadataInterceptor,
    broker_metadata_of,
)
from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from delayed_tracker.ledger.errors import BadEntry, ErrorPolicy, MetadataInvalid
from delayed_tracker.ledger.local.errors import LedgerDamaged, LedgerInUse
from delayed_tracker.ledger.local.files.disk import Disk, make_durably
from delayed_tracker.ledger.local.files.layout import LedgerDirectory, TopicDirectory
from delayed_tracker.ledger.local.files.records import INDEX_ROW_BYTES
from delayed_tracker.ledger.local.found_records import find_records
from delayed_tracker.ledger.local.ledger import LocalLedger
from delayed_tracker.ledger.local.metadata import TopicMetadata, read_metadata
from delayed_tracker.ledger.local.recovery import RecoveredLedger, cut_torn_end, examine_open_ledger
from delayed_tracker.ledger.local.rollover import RolloverLimits
from delayed_tracker.ledger.local.writer import TopicWriter
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata

_ENTRIES_AT_ONCE: Final = 4_096
"""Entries of one read in the search for the newest message index."""


def open_writer(
    directory: str | Path,
    topic: str,
    *,
    now_ms: int,
    interceptors: Sequence[BrokerEntryMetadataInterceptor] = (),
    limits: RolloverLimits | None = None,
    on_error: ErrorPolicy = ErrorPolicy.FAIL,
    disk: Disk | None = None,
) -> TopicWriter:
    """Open a topic for writing; a topic that does not exist is created empty.

    Args:
        directory: the directory of local ledgers; it is created if its parent exists.
        topic: any name of a persistent topic.
        now_ms: the time, milliseconds since 1970-01-01 UTC.
        interceptors: new objects for this topic; they put broker metadata in front of entries. Empty: no broker
            metadata.
        limits: the limits at which a ledger is full.
        on_error: what to do if acknowledged entries are damaged. SKIP leaves them unchanged and continues behind them.
            The message index then continues from the last entry that can be read, and may repeat.
        disk: performs the file operations; tests replace it.
    Raises:
        LedgerInUse: another writer has the topic open.
        LedgerDamaged: acknowledged entries of the ledger that was left open are damaged, or the topic's last entry is.
        LedgerFileInvalid, MetadataInvalid: a file does not have the expected content.
        InvalidInput: ``topic`` is not a topic name, or ``directory`` is not a directory.
        OSError: a file cannot be read or written.
    Cost: O(bytes of the ledger that was left open); O(ledgers).
    """
    place = LedgerDirectory(Path(directory))
    name = TopicName.parse(topic)
    disk = disk or Disk()
    files = place.topic(name)
    for path in (place.root, place.topics_path, files.path):
        make_durably(path, disk)
    lock = LockFile.acquire(files.lock, lambda holder: LedgerInUse.by(holder, f"{name} in {directory}"))
    try:
        metadata = load_or_create(files, name, disk)
        recovered = _recovered(files, metadata, on_error)
        if recovered is not None:
            metadata = metadata.with_closed(
                recovered.ledger_id,
                entry_count=recovered.entry_count,
                payload_bytes=recovered.payload_bytes,
                now_ms=now_ms,
            )
        last_entry = _last_index(files, metadata, recovered, on_error)
        metadata = _with_index(metadata, last_entry)
        for interceptor in interceptors:
            interceptor.recover(metadata.properties, last_entry)
        if recovered is not None:
            cut_torn_end(files, recovered, disk)
            disk.replace(files.metadata, metadata.encode())
        sweep(files, metadata, disk)
        return TopicWriter(
            place,
            metadata,
            lock=lock,
            interceptors=interceptors,
            limits=limits or RolloverLimits(),
            recovered=recovered,
            disk=disk,
        )
    except BaseException:
        lock.release()
        raise


def load_or_create(files: TopicDirectory, name: TopicName, disk: Disk) -> TopicMetadata:
    """Read a topic's metadata; create it for a new topic. The lock must be held.

    Raises:
        MetadataInvalid: the metadata is damaged, belongs to another topic, or is missing although ledgers exist.
        OSError: the metadata cannot be read or created.
    """
    metadata = read_metadata(files.metadata)
    if metadata is None:
        if files.ledger_ids():
            raise MetadataInvalid(f"{files.metadata} is missing, though there are ledgers; restore it from a copy")
        metadata = TopicMetadata(name)
        disk.replace(files.metadata, metadata.encode())
    if metadata.topic != name:
        raise MetadataInvalid(f"{files.metadata} is that of {metadata.topic}, not of {name}; restore the right one")
    return metadata


def sweep(files: TopicDirectory, metadata: TopicMetadata, disk: Disk) -> None:
    """Remove the files of ledgers that the metadata does not name; a crash leaves them when a ledger has just begun.

    Indexes that are missing or too short are created again. The lock must be held.

    Raises:
        OSError: a file cannot be read, removed or written.
    """
    named = {ledger.ledger_id: ledger.entry_count for ledger in metadata.ledgers}
    for ledger_id in files.ledger_ids():
        if ledger_id not in named:
            disk.remove(files.log(ledger_id))
            disk.remove(files.index(ledger_id))
            continue
        index, entry_count = files.index(ledger_id), named[ledger_id] or 0
        if not index.exists() or index.stat().st_size < INDEX_ROW_BYTES * entry_count:
            found = find_records(files.log(ledger_id), index, ledger_id)
            disk.replace(index, found.ends(entry_count).astype("<i8").tobytes())


def _recovered(files: TopicDirectory, metadata: TopicMetadata, on_error: ErrorPolicy) -> RecoveredLedger | None:
    if metadata.open_ledger is None:
        return None
    recovered = examine_open_ledger(files, metadata.open_ledger.ledger_id)
    if recovered.bad_entries and on_error is ErrorPolicy.FAIL:
        raise _damaged(recovered.bad_entries)
    return recovered


def _last_index(
    files: TopicDirectory, metadata: TopicMetadata, recovered: RecoveredLedger | None, on_error: ErrorPolicy
) -> BrokerEntryMetadata | None:
    if not metadata.ledgers:
        return None
    ledger = metadata.ledgers[-1]
    assert ledger.entry_count, "empty ledgers are not kept"
    opened = LocalLedger(
        files.log(ledger.ledger_id),
        files.index(ledger.ledger_id),
        ledger.ledger_id,
        ledger.entry_count - 1,
        ledger.payload_bytes,
        closed=True,
    )
    look_back = recovered is not None and recovered.ledger_id == ledger.ledger_id
    found, bad_entries = last_index(opened, look_back=look_back)
    if bad_entries and on_error is ErrorPolicy.FAIL:
        raise _damaged(bad_entries)
    return found


def _with_index(metadata: TopicMetadata, last_entry: BrokerEntryMetadata | None) -> TopicMetadata:
    """Return the metadata with the message index of the last entry; the property is too low once a ledger has entries.

    The property is kept up to date even without interceptors: if they are turned on later, they count from it.
    """
    if last_entry is None or not last_entry.HasField("index"):
        return metadata
    stored = metadata.properties.get(INDEX_PROPERTY, "-1")
    if stored.removeprefix("-").isdecimal() and int(stored) >= last_entry.index:
        return metadata
    return replace(metadata, properties={**metadata.properties, INDEX_PROPERTY: str(last_entry.index)})


def _damaged(bad_entries: Sequence[BadEntry]) -> LedgerDamaged:
    more = f" (and {len(bad_entries) - 1} more)" if len(bad_entries) > 1 else ""
    return LedgerDamaged(
        f"{bad_entries[0]}{more}; restore the file from a copy, or open the topic with on_error=skip",
        metadata={"bad_entry_count": str(len(bad_entries))},
    )


def last_index(ledger: LocalLedger, *, look_back: bool) -> tuple[BrokerEntryMetadata | None, tuple[BadEntry, ...]]:
    """Return the broker metadata of the newest entry that has an index, and the unreadable entries found on the way.

    The managed ledger's property may be out of date. A broker reads only the last entry, which is enough for a ledger that
    was closed properly, because the property was written then. In a ledger that a crash left open, the last entries may
    have no index: they count as no message, or the interceptors were off. Then all entries are searched for the newest one
    with an index.

    Args:
        ledger: the topic's last ledger, not empty.
        look_back: search all entries; otherwise only the last one, and others only if that is bad.
    Raises:
        LedgerFileInvalid: the file cannot be a ledger's log.
        OSError: the file cannot be read.
    Cost: O(bytes read).
    """
    bad: list[BadEntry] = []
    last = ledger.last_entry_id
    first = last
    while last >= 0:
        read = ledger.read(first, last)
        bad += read.bad_entries
        found = _newest(read.entries)
        if found is not None or not (look_back or bad):
            return found, tuple(bad)
        last = first - 1
        first = max(0, last - _ENTRIES_AT_ONCE + 1)
    return None, tuple(bad)


def _newest(entries: StoredEntries) -> BrokerEntryMetadata | None:
    framed = entries.end - entries.start >= len(BROKER_MAGIC)
    octets = np.frombuffer(entries.buffer, np.uint8)
    for place, octet in enumerate(BROKER_MAGIC):
        framed[framed] = octets[entries.start[framed] + place] == octet
    for row in reversed(np.flatnonzero(framed).tolist()):
        metadata = broker_metadata_of(entries.payload(row))
        if metadata is not None and metadata.HasField("index"):
            return metadata
    return None
