"""Catalogue in documents that several processes share: each commit replaces a tracker's document by compare-and-swap.

A commit takes the document as this process knows it, applies the calls that wait, writes large values into a blob, and
swaps. If the swap is refused or its reply is lost, the document is read back: every version has a write id and the ids of
the eight before, so the catalogue finds whether its own write counted. If it did not, and another process was faster, the
calls are applied to the newer document, which may fence them.

One commit of a tracker is under way at a time; calls that arrive meanwhile are applied together by the next one, each
with its own answer.
"""

import asyncio
import contextlib
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.storage.errors import (
    SnapshotCorrupt,
    SnapshotNotFound,
    SnapshotTooLarge,
    StorageError,
    StorageFormatUnsupported,
    StorageUnavailable,
)
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, Mark
from delayed_tracker.storage.shared.changes import Call, applied
from delayed_tracker.storage.shared.document import EARLIER_MAX, Document, Part, encode_body, encode_head
from delayed_tracker.storage.shared.document_store import (
    BLOB_BYTES_MAX,
    BlobStore,
    DocumentStore,
    NamesSnapshots,
    Stale,
)
from delayed_tracker.storage.shared.names import tracker_of, tracker_path
from delayed_tracker.storage.shared.parts import merged, packing_for, to_merge, value_of, without_unused
from delayed_tracker.storage.shared.reading import (
    DOCUMENTS,
    KnownDocument,
    document_name,
    read_document,
    read_head,
    read_parts,
)

ATTEMPTS_MAX: Final = 12
"""Swaps that a commit tries, while other processes write the same document."""
BACKOFF_S: Final = 0.02
"""Mean wait after the third refused swap; it doubles with each further one."""
KNOWN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Documents, and the parts of those that were listed last, that are kept so that a commit need not read first."""
READS_AT_ONCE_MAX: Final = 16
SEEN_MAX: Final = 100_000
"""Forgotten trackers, and others whose names are hashed, of which the last reading is kept; about 500 bytes each. Documents
beyond that are read by each listing."""
MARKERS: Final = "f"
"""Folder of markers: a tracker with a marker may be forgotten, and its document says whether it is."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class _Queue:
    """Calls of one tracker that wait, while a task commits those before them."""

    calls: list[Call]


class SharedCatalogue:
    """Catalogue over a store of documents and a store of blobs.

    Args:
        documents: one for each tracker.
        blobs: for what is too large for a document.
        names: the storage of the snapshots, if it has to find them by more than their ids.
        sleep: waits, in seconds.
        chance: source of write ids and of random waits.
    """

    def __init__(
        self,
        documents: DocumentStore,
        blobs: BlobStore,
        names: NamesSnapshots | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
        chance: random.Random | None = None,
    ) -> None:
        self._documents = documents
        self._blobs = blobs
        self._names = names
        self._sleep = sleep
        self._chance = chance or random.SystemRandom()
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._known: OrderedDict[tuple[str, str], KnownDocument] = OrderedDict()
        self._known_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen: dict[str, tuple[str, tuple[str, str] | None]] = {}
        """Version in the listing, and the tracker unless it is forgotten, of documents that had to be read for their names."""

    async def finish(self) -> None:
        """Wait for the accepted calls, and for what is deleted after them. The caller accepts no more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def trackers(self) -> list[tuple[str, str]]:
        """Return every (topic, cursor) with a document that was not forgotten.

        A document whose name does not say it is read, and not again as long as the listing shows the same version.
        """
        versions, marked = await self._listed(DOCUMENTS), await self._listed(MARKERS)
        found = {path: tracker_of(path) for path in versions}
        unclear = {path for path, tracker in found.items() if tracker is None or path in marked}
        for path in self._seen.keys() - unclear:
            del self._seen[path]
        for path, (version, tracker) in self._seen.items():
            if version == versions[path]:
                found[path] = tracker
                unclear.discard(path)
        slots = asyncio.Semaphore(READS_AT_ONCE_MAX)

        async def ask(path: str) -> None:
            async with slots:
                try:
                    head = await read_head(self._documents, path)
                except (SnapshotCorrupt, StorageFormatUnsupported):
                    return  # its name is all that is known, and a damaged document must not hide the others
            if head is not None:
                document = head[0].document
                tracker = None if document.forgotten else (document.topic, document.cursor)
                found[path] = tracker
                # The document may be newer than the listing, which shows another version then the next time.
                if versions[path] and (path in self._seen or len(self._seen) < SEEN_MAX):
                    self._seen[path] = versions[path], tracker

        await asyncio.gather(*map(ask, unclear))
        return sorted(tracker for tracker in found.values() if tracker is not None)

    async def _listed(self, folder: str) -> dict[str, str]:
        """Return the versions of the documents of a folder by their paths in it."""
        listed = await self._documents.listing(folder)
        return {name.removeprefix(f"{folder}/"): version for name, version in listed.items()}

    async def replace(
        self,
        topic: str,
        cursor: str,
        *,
        remove: Sequence[int],
        add: Sequence[CatalogueEntry],
        epoch: int,
        writer: str = "",
        mark_delete: Position | None = None,
        mark: Mark | None = None,
    ) -> CatalogueState | None:
        """Remove, then add, and record the epoch, together with the calls that wait for the same document.

        A claim, which records an epoch alone, is answered with the catalogue that it was recorded in, as long as what
        :meth:`list` has read before is kept.
        """
        answer = asyncio.get_running_loop().create_future()
        call = Call(answer, epoch, writer, False, tuple(remove), tuple(add), mark_delete, mark)
        listed = self._known.get((topic, cursor))
        await self._commit_with_others(topic, cursor, call)
        claimed = self._known.get((topic, cursor))
        if remove or add or mark or mark_delete or listed is None or claimed is None:
            return None
        claimed = replace(claimed, blobs=listed.blobs)
        is_whole = claimed.document.epoch >= epoch and len(claimed.contents) == len(claimed.document.parts)
        return self._state_of(claimed) if is_whole else None

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """Remove the entries, keep the epoch and the log number."""
        answer = asyncio.get_running_loop().create_future()
        await self._commit_with_others(topic, cursor, Call(answer, epoch, writer, forget=True))

    async def _commit_with_others(self, topic: str, cursor: str, call: Call) -> None:
        tracker = (topic, cursor)
        tracker_path(topic, cursor)  # refuses a name that is no text before anything else
        queue = self._queues.get(tracker)
        if queue is None:
            self._queues[tracker] = queue = _Queue([call])
            self._begin(self._commit_all(tracker, queue))
        else:
            queue.calls.append(call)
        await call.answer

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that goes on if its caller is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _commit_all(self, tracker: tuple[str, str], queue: _Queue) -> None:
        calls: Sequence[Call] = ()
        try:
            while queue.calls:
                calls, queue.calls = queue.calls, []
                try:
                    await self._commit(tracker, calls)
                except DelayedTrackerError as error:
                    self._drop(tracker)
                    for call in calls:
                        call.refuse(error)
                if self._documents.min_interval_s:
                    await self._sleep(self._documents.min_interval_s)
        finally:
            del self._queues[tracker]
            for call in (*calls, *queue.calls):
                call.refuse(StorageUnavailable("the storage was stopped before it had answered; call start() first"))

    async def _commit(self, tracker: tuple[str, str], calls: Sequence[Call]) -> None:
        """Apply the calls in one swap. Answers the fenced ones and, if it succeeds, the others."""
        commit = _Commit(self._documents, self._blobs, self._names, tracker, self._write_id)
        known = self._known.get(tracker) or await read_document(self._documents, self._blobs, *tracker)
        for attempt in range(ATTEMPTS_MAX):
            if attempt > 1:
                await self._sleep(self._chance.uniform(0, BACKOFF_S * 2 ** (attempt - 1)))
            made = await commit.prepare(known, calls)
            if made is None:
                return
            content, new, calls = made
            try:
                version = await self._documents.write(document_name(*tracker), content, known.version)
            except (Stale, StorageUnavailable) as error:
                found = await read_document(self._documents, self._blobs, *tracker)
                if not commit.is_in(found.document):
                    if isinstance(error, StorageUnavailable):
                        raise
                    known = found
                    continue
                new = found
            else:
                new = replace(new, version=version)
            self._keep(tracker, new)
            for call in calls:
                call.accept()
            self._begin(self._delete_unused(tracker, commit, known, new))
            return
        raise StorageUnavailable(
            f"other processes wrote the catalogue of {tracker[0]!r}, {tracker[1]!r} {ATTEMPTS_MAX} times meanwhile; retry"
        )

    def _write_id(self) -> bytes:
        return self._chance.randbytes(16)

    async def _delete_unused(
        self, tracker: tuple[str, str], commit: "_Commit", before: KnownDocument, after: KnownDocument
    ) -> None:
        """Delete the blobs that the new document does not name: those it has replaced, and what older epochs left.

        What cannot be deleted now has an older epoch after the next claim, and is deleted then.
        """
        unused = {*before.pointers, *commit.written}
        with contextlib.suppress(StorageError):
            if after.document.epoch > before.document.epoch:
                # This process has recorded the epoch: no writer of an older one can name a blob of its own any more.
                found = await self._blobs.blobs(*tracker)
                unused.update(blob.pointer for blob in found if blob.epoch < after.document.epoch)
            for pointer in sorted(unused - after.pointers):
                await self._blobs.delete(*tracker, pointer)

    def _keep(self, tracker: tuple[str, str], known: KnownDocument) -> None:
        self._drop(tracker)
        self._known[tracker] = known
        self._known_bytes += known.nbytes
        while self._known_bytes > KNOWN_BYTES_MAX:
            self._known_bytes -= self._known.popitem(last=False)[1].nbytes

    def _drop(self, tracker: tuple[str, str]) -> None:
        known = self._known.pop(tracker, None)
        if known is not None:
            self._known_bytes -= known.nbytes

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """Return the catalogue of one tracker, read now and verified row by row.

        The next commit of this process begins with what was read.
        """
        known = await read_parts(self._documents, self._blobs, topic, cursor)
        if (topic, cursor) not in self._queues:  # a commit knows what it has written itself, which is newer
            self._keep((topic, cursor), known)
        return self._state_of(known)

    def _state_of(self, known: KnownDocument) -> CatalogueState:
        document, contents, entries, corrupt = known.document, known.contents, [], []
        for bucket_id, stored in document.rows.items():
            row = stored.row
            consumed = None if row is None else value_of(row.consumed, contents)
            if row is None or consumed is None:
                corrupt.append(bucket_id)
                continue
            if self._names is not None and row.pointer:
                self._names.learn(document.topic, document.cursor, bucket_id, row.pointer)
            # Without its summary a bucket is recovered from the snapshot's metadata.
            summary = value_of(row.summary, contents) or b""
            entries.append(
                CatalogueEntry(bucket_id, row.first, row.last, summary, consumed, row.mark_delete, row.seal_number)
            )
        entries.sort(key=lambda entry: (entry.first, entry.last, entry.bucket_id))
        return CatalogueState(
            document.epoch,
            tuple(entries),
            tuple(sorted(corrupt)),
            document.mark_delete,
            document.log_mark,
            document.writer,
        )


class _Commit:
    """One commit of some calls: its attempts, and the blobs that they have written."""

    def __init__(
        self,
        documents: DocumentStore,
        blobs: BlobStore,
        names: NamesSnapshots | None,
        tracker: tuple[str, str],
        write_id: Callable[[], bytes],
    ) -> None:
        self._documents = documents
        self._blobs = blobs
        self._names = names
        self._tracker = tracker
        self._write_id = write_id
        self._own_ids: set[bytes] = set()
        self.written: set[bytes] = set()
        """Pointers of the blobs that the attempts have put."""

    def is_in(self, document: Document) -> bool:
        """Return True if an attempt of this commit is what a document, or one of the eight before, came from."""
        return not self._own_ids.isdisjoint((document.write_id, *document.earlier))

    async def prepare(
        self, known: KnownDocument, calls: Sequence[Call]
    ) -> tuple[bytes, KnownDocument, Sequence[Call]] | None:
        """Return the next document's bytes, the document, and the calls in it; None if all calls are fenced.

        Large values, and the body of a large document, are stored when this returns.
        """
        packing = packing_for(known.document)
        document, accepted = applied(known.document, calls, packing, self._names)
        if not accepted:
            return None
        if any(call.forget for call in accepted):
            with contextlib.suppress(Stale):  # there is a marker, which nobody deletes
                await self._documents.write(f"{MARKERS}/{tracker_path(*self._tracker)}", b"forgotten", None)
        document = without_unused(document)
        if merge := to_merge(document):
            contents = await self._contents(merge)
            document = without_unused(merged(document, merge, contents, packing))
        for new in packing.parts:
            pointer = await self._put(document.epoch, new.content)
            document = replace(document, parts=(*document.parts, Part(new.number, new.length, pointer)))
        if packing.parts:
            document = without_unused(document)
        earlier = (known.document.write_id, *known.document.earlier)[:EARLIER_MAX] if known.version else ()
        document = replace(document, write_id=self._write_id(), earlier=earlier)
        self._own_ids.add(document.write_id)
        body = encode_body(document)
        content, body_pointer = encode_head(document, len(body)) + body, b""
        if len(content) > self._documents.max_bytes:
            body_pointer = await self._put(document.epoch, body)
            content = encode_head(document, len(body), body_pointer)
        return content, KnownDocument(document, None, body_pointer, len(content) + len(body)), accepted

    async def _put(self, epoch: int, content: bytes) -> bytes:
        if len(content) > BLOB_BYTES_MAX:
            topic, cursor = self._tracker
            raise SnapshotTooLarge(
                f"a value in the catalogue of {topic!r}, {cursor!r} would have {len(content)} bytes, and one of more than "
                f"{BLOB_BYTES_MAX} could not be read back; make smaller buckets"
            )
        pointer = await self._blobs.put(*self._tracker, epoch, content)
        self.written.add(pointer)
        return pointer

    async def _contents(self, parts: Sequence[Part]) -> dict[int, bytes]:
        contents = {}
        for part in parts:
            with contextlib.suppress(SnapshotNotFound):  # its values stay where they are: nobody can move them
                contents[part.number] = await self._blobs.get(*self._tracker, part.pointer)
        return contents
