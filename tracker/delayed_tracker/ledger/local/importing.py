"""Copies topics from any source into local ledgers, entry by entry; payloads and positions do not change."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.entry.entry_columns import scan_entries
from delayed_tracker.ledger.entry.interceptors import INDEX_PROPERTY
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import ANOTHER_COPY, BadEntry, EntriesUnreadable, ErrorPolicy, LedgerFileInvalid
from delayed_tracker.ledger.local.files.disk import Disk
from delayed_tracker.ledger.local.files.layout import LedgerDirectory, TopicDirectory
from delayed_tracker.ledger.local.files.records import LEFT_OUT_MAX, Frames, Payloads
from delayed_tracker.ledger.local.ledger_ids import reserve_ledger_ids
from delayed_tracker.ledger.local.metadata import TopicMetadata
from delayed_tracker.ledger.local.open_ledger import OpenLedger
from delayed_tracker.ledger.local.opening import open_writer, sweep
from delayed_tracker.ledger.local.writer import TopicWriter
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.entry_location import unreadable_entry
from delayed_tracker.ledger.topic.topic_log import Ledger, TopicLog
from delayed_tracker.ledger.topic_name import TopicName


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Result of an import. Empty ledgers, and ledgers of unknown length, are neither copied nor present."""

    copied: tuple[int, ...]
    present: tuple[int, ...]
    """Ledgers that an earlier import has copied."""
    entry_count: int
    """Number of entries copied by this import."""
    bad_entries: tuple[BadEntry, ...]
    """Entries that could not be read. Their ids stay unused, so that all other entries keep theirs."""


def import_topic(
    log: TopicLog,
    directory: str | Path,
    *,
    now_ms: int,
    on_error: ErrorPolicy = ErrorPolicy.FAIL,
    progress: Progress | None = None,
    disk: Disk | None = None,
) -> ImportReport:
    """Copy a topic into a directory of local ledgers; its name, ledger ids and entry ids stay the same.

    Each ledger is copied completely or not at all. An interrupted import can be repeated: it continues behind the
    ledgers that are present. An open ledger is copied up to its current last entry, and is closed in the copy. If an
    entry's storage keeps no digest, its frame and the producer's CRC32C are checked, and a wrong entry counts as
    unreadable.

    Args:
        log: the topic, from any source.
        directory: the directory of local ledgers; it is created if its parent exists. Entries that are appended to the
            topic later get higher ledger ids.
        now_ms: the time, milliseconds since 1970-01-01 UTC.
        on_error: SKIP leaves out entries that cannot be read, and lists them. It also continues behind entries that an
            earlier import left out.
        progress: called after each piece, with the number of entries copied or passed over and the total number.
        disk: performs the file operations; tests replace it.
    Raises:
        InvalidInput: a ledger id is used by another topic of the directory, or by a ledger of this topic with another
            number of entries; nothing is copied.
        EntriesUnreadable: an entry cannot be read, and the policy is FAIL. The topic in the directory is then as it was
            before the call.
        LedgerFileInvalid: a ledger lacks more entries than a copy may lack.
        LedgerInUse, LedgerDamaged, MetadataInvalid: as :func:`~delayed_tracker.ledger.local.opening.open_writer`.
        OSError: a file cannot be read or written.
    Cost: O(bytes); memory for one piece.
    """
    disk = disk or Disk()
    if on_error is ErrorPolicy.FAIL:
        require_all_ledgers(log)
    place = LedgerDirectory(Path(directory))
    is_new = not place.topic(log.name).metadata.exists()
    with open_writer(directory, str(log.name), now_ms=now_ms, on_error=on_error, disk=disk) as writer:
        before = writer.metadata
        ledgers = [ledger for ledger in log.ledgers if ledger.last_entry_id >= 0]
        present = _present(ledgers, place, writer)
        reserve_ledger_ids(place, [ledger.ledger_id for ledger in ledgers], disk)
        copier = _Copier(log.name, place, writer, now_ms=now_ms, on_error=on_error, disk=disk)
        done = 0
        try:
            for ledger in ledgers:
                pieces = [ledger.last_entry_id + 1] if ledger.ledger_id in present else copier.copy(ledger)
                for entry_count in pieces:
                    done += entry_count
                    if progress is not None:
                        progress(done, log.entry_count)
        except (EntriesUnreadable, LedgerFileInvalid):
            _take_back(place.topic(log.name), writer, before, disk, is_new=is_new)
            raise
        _copy_properties(log, writer)
        return ImportReport(
            tuple(copier.copied), tuple(sorted(present)), copier.copied_count, tuple(copier.bad_entries)
        )


def require_all_ledgers(log: TopicLog) -> None:
    """Reject a topic that lacks ledgers, before anything is copied.

    Raises:
        EntriesUnreadable: ledgers are missing; the error lists them.
    """
    absent = [ledger.read(0, ledger.last_entry_id) for ledger in log.ledgers if isinstance(ledger, AbsentLedger)]
    if absent:
        raise EntriesUnreadable([bad for read in absent for bad in read.bad_entries])


def _take_back(files: TopicDirectory, writer: TopicWriter, before: TopicMetadata, disk: Disk, *, is_new: bool) -> None:
    """Restore the topic as it was before the import: half a topic would be mistaken for all of it."""
    writer.store(before)
    sweep(files, before, disk)
    if is_new and not before.ledgers:
        disk.remove(files.metadata)


class _Copier:
    """Copier of ledgers, one after another."""

    def __init__(
        self,
        topic: TopicName,
        place: LedgerDirectory,
        writer: TopicWriter,
        *,
        now_ms: int,
        on_error: ErrorPolicy,
        disk: Disk,
    ) -> None:
        self.copied: list[int] = []
        self.copied_count = 0
        self.bad_entries: list[BadEntry] = []
        self._topic = topic
        self._files = place.topic(topic)
        self._writer = writer
        self._now_ms = now_ms
        self._on_error = on_error
        self._disk = disk

    def copy(self, ledger: Ledger) -> Iterator[int]:
        """Write a ledger's files, then name it in the metadata; yield the number of entries of each piece."""
        if isinstance(ledger, AbsentLedger) and ledger.entry_count is None:
            # A copy would have to state how many entries it lacks, and that number is unknown.
            yield from (sum(bad.entry_count for bad in piece.bad_entries) for piece in self._pieces(ledger))
            return
        target = OpenLedger.create(self._files, ledger.ledger_id, created_ms=self._now_ms, disk=self._disk)
        try:
            for piece in self._pieces(ledger):
                entries = piece.entries
                before = np.concatenate([np.array([target.entry_count - 1], np.int64), entries.entry_id[:-1]])
                payloads = Payloads(entries.buffer, entries.start, entries.end)
                target.write(payloads, Frames.none(len(entries)), left_out=entries.entry_id - before - 1)
                self.copied_count += len(entries)
                yield len(entries) + sum(bad.entry_count for bad in piece.bad_entries)
            target.sync()
        finally:
            target.close()
        self.copied.append(ledger.ledger_id)
        self._writer.store(
            self._writer.metadata.with_closed(
                ledger.ledger_id,
                entry_count=ledger.last_entry_id + 1,
                payload_bytes=target.payload_bytes,
                now_ms=self._now_ms,
            )
        )

    def _pieces(self, ledger: Ledger) -> Iterator[LedgerEntries]:
        left_out = 0
        for read in ledger.scan(0, ledger.last_entry_id):
            piece = proven_entries(self._topic, ledger, read)
            if piece.bad_entries:
                if self._on_error is ErrorPolicy.FAIL:
                    raise EntriesUnreadable(piece.bad_entries)
                left_out += sum(bad.entry_count for bad in piece.bad_entries)
                if left_out > LEFT_OUT_MAX:
                    raise LedgerFileInvalid(
                        f"ledger {ledger.ledger_id} lacks {left_out} entries or more of {ledger.last_entry_id + 1}, and a "
                        f"copy may lack {LEFT_OUT_MAX}: its metadata is damaged; give another copy of it"
                    )
                self.bad_entries += piece.bad_entries
            yield piece


def _present(ledgers: list[Ledger], place: LedgerDirectory, writer: TopicWriter) -> set[int]:
    """Return the ids of ledgers that an earlier import has copied."""
    own = {ledger.ledger_id: ledger.entry_count for ledger in writer.metadata.ledgers}
    files = place.topic(writer.metadata.topic)
    others = {
        ledger_id: topic.path.name
        for topic in place.topic_directories()
        for place_of in (topic, topic.compacted)
        if place_of != files
        for ledger_id in place_of.ledger_ids()
    }
    present = set()
    for ledger in ledgers:
        ledger_id = ledger.ledger_id
        if ledger_id in others:
            raise InvalidInput(
                "ledger_id", ledger_id, f"{others[ledger_id]} has a ledger of this id; import into another directory"
            )
        if ledger_id in own:
            if own[ledger_id] != ledger.last_entry_id + 1:
                raise InvalidInput(
                    "ledger_id",
                    ledger_id,
                    f"it is there with {own[ledger_id]} entries, and has {ledger.last_entry_id + 1} now; import into "
                    "another directory",
                )
            present.add(ledger_id)
    return present


def _copy_properties(log: TopicLog, writer: TopicWriter) -> None:
    """Copy the source's properties and its termination. A message index that is lower than the copy's is not copied."""
    properties = dict(log.properties)
    ours = writer.metadata.properties.get(INDEX_PROPERTY, "")
    theirs = properties.get(INDEX_PROPERTY, "")
    if ours.isdecimal() and not (theirs.isdecimal() and int(theirs) > int(ours)):
        properties[INDEX_PROPERTY] = ours
    metadata = writer.metadata.with_properties(properties)
    writer.store(metadata.with_termination(log.terminated_at or metadata.terminated_at))


@runtime_checkable
class LedgerWithoutDigests(Protocol):
    """Ledger whose entries may differ from what was written.

    Storage without digests reveals a wrong byte only in the producer's CRC32C. A bookie and a local ledger store a digest
    with each entry. If the digest fits, the entry is what the broker wrote. Tiered storage has no digests, or digests that
    may be lost while the entries remain.
    """

    @property
    def lacks_digests(self) -> bool:
        """Always True. Ledgers with digests do not have this property."""


def proven_entries(topic: TopicName, ledger: Ledger, read: LedgerEntries) -> LedgerEntries:
    """Move messages with a wrong CRC32C or frame to the bad entries, with file and offset.

    Args:
        topic: topic of the ledger; entries that are not messages have no checksum.
        ledger: ledger of the entries; if it has digests, ``read`` is returned unchanged.
        read: entries read from the ledger.
    Cost: O(bytes) for ledgers without digests.
    """
    if not topic.holds_messages or not isinstance(ledger, LedgerWithoutDigests):
        return read
    columns = scan_entries(read.entries)
    bad = [
        replace(unreadable_entry(ledger, int(read.entries.entry_id[row]), reason), remedy=ANOTHER_COPY)
        for row, reason in columns.unreadable()
    ]
    return LedgerEntries(read.entries.take(columns.readable), (*read.bad_entries, *bad)) if bad else read
