"""Reads documents, with the blobs that belong to them, while other processes replace them."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from delayed_tracker.storage.concurrent import all_answers
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageUnavailable
from delayed_tracker.storage.shared.document import Document, Head, decode_head, decode_rows
from delayed_tracker.storage.shared.document_store import BlobStore, DocumentStore, StoredDocument
from delayed_tracker.storage.shared.names import tracker_path

READ_ATTEMPTS_MAX: Final = 8
"""Times that a document is read anew because a blob that it named was deleted meanwhile."""
THREAD_BYTES_MIN: Final = 64 * 1024
"""Size from which on rows are decoded in a thread: about 1,000 of them, in some 10 ms."""
PARTS_AT_ONCE_MAX: Final = 16
"""Parts that are read at the same time; each is a round trip or two."""
DOCUMENTS: Final = "c"
_DOCUMENT_BYTES: Final = 1_024
"""Memory of a document without rows and parts."""


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document, and where its bytes are."""

    document: Document
    version: str | None
    """None if the tracker has no document yet."""
    body_pointer: bytes = b""
    """Pointer of the blob that has the rows; empty if they are in the document itself."""
    size_bytes: int = 0
    """Bytes of head and body."""
    blobs: Mapping[bytes, bytes] = field(default_factory=dict)
    """Content of its parts by pointer, as far as it was read and is kept."""

    @property
    def nbytes(self) -> int:
        """Memory of the document, in bytes."""
        return _DOCUMENT_BYTES + self.size_bytes + sum(map(len, self.blobs.values()))

    @property
    def contents(self) -> dict[int, bytes]:
        """Content of its parts by number, as far as it is kept."""
        return {part.number: self.blobs[part.pointer] for part in self.document.parts if part.pointer in self.blobs}

    @property
    def pointers(self) -> set[bytes]:
        """Pointers of all blobs that the document needs."""
        named = {part.pointer for part in self.document.parts}
        return named | {self.body_pointer} if self.body_pointer else named


def document_name(topic: str, cursor: str) -> str:
    """Return the name of a tracker's document. Raises InvalidInput for a text that UTF-8 does not know."""
    return f"{DOCUMENTS}/{tracker_path(topic, cursor)}"


async def read_head(documents: DocumentStore, path: str) -> tuple[Head, StoredDocument] | None:
    """Return a head and the document that it was read from; None if there is none.

    Raises:
        SnapshotCorrupt: it is damaged.
        StorageFormatUnsupported: a newer version wrote it.
        StorageUnavailable: try again.
    """
    name = f"{DOCUMENTS}/{path}"
    stored = await documents.read(name)
    return None if stored is None else (decode_head(stored.content, name), stored)


async def read_document(documents: DocumentStore, blobs: BlobStore, topic: str, cursor: str) -> KnownDocument:
    """Return the document of a tracker; an empty one at epoch 0 if there is none.

    Raises:
        SnapshotCorrupt: it is damaged, or another tracker's, or its body is gone.
        StorageFormatUnsupported: a newer version wrote it.
        StorageUnavailable: try again.
    """
    gone_version = None
    for _ in range(READ_ATTEMPTS_MAX):
        found = await read_head(documents, tracker_path(topic, cursor))
        if found is None:
            return KnownDocument(Document(topic, cursor), None)
        head, stored = found
        name = document_name(topic, cursor)
        if (head.document.topic, head.document.cursor) != (topic, cursor):
            raise SnapshotCorrupt(
                f"the document {name} is of the tracker {head.document.topic!r}, {head.document.cursor!r} instead of "
                f"{topic!r}, {cursor!r}; somebody has moved it: put it back"
            )
        try:
            body = (
                await blobs.get(topic, cursor, head.body_pointer)
                if head.body_pointer
                else stored.content[head.head_bytes :]
            )
        except SnapshotNotFound as error:
            if stored.version == gone_version:
                raise SnapshotCorrupt(
                    f"the document {name} has lost its rows ({error.message}); rebuild the tracker from the ledgers"
                ) from error
            gone_version = stored.version
            continue
        rows = (
            decode_rows(head, body, name)
            if len(body) < THREAD_BYTES_MIN
            else await asyncio.to_thread(decode_rows, head, body, name)
        )
        document = replace(head.document, rows=rows)
        return KnownDocument(document, stored.version, head.body_pointer, head.head_bytes + len(body))
    raise _keeps_changing(topic, cursor)


async def read_parts(documents: DocumentStore, blobs: BlobStore, topic: str, cursor: str) -> KnownDocument:
    """Return the document of a tracker with its parts. A part is missing if it is gone for good.

    Raises:
        SnapshotCorrupt, StorageFormatUnsupported, StorageUnavailable: as for :func:`read_document`.
    """
    gone_version = None
    for _ in range(READ_ATTEMPTS_MAX):
        known = await read_document(documents, blobs, topic, cursor)
        pointers = list(dict.fromkeys(part.pointer for part in known.document.parts))
        reads = [partial(_blob, blobs, topic, cursor, pointer) for pointer in pointers]
        found = zip(pointers, await all_answers(reads, at_once=PARTS_AT_ONCE_MAX), strict=True)
        contents = {pointer: content for pointer, content in found if content is not None}
        # A part is missing because a commit has replaced the document meanwhile, or is lost: the next reading shows it.
        if len(contents) == len(pointers) or known.version == gone_version:
            return replace(known, blobs=contents)
        gone_version = known.version
    raise _keeps_changing(topic, cursor)


async def _blob(blobs: BlobStore, topic: str, cursor: str, pointer: bytes) -> bytes | None:
    """Return a blob; None if it is gone."""
    with contextlib.suppress(SnapshotNotFound):
        return await blobs.get(topic, cursor, pointer)
    return None


def _keeps_changing(topic: str, cursor: str) -> StorageUnavailable:
    return StorageUnavailable(
        f"the catalogue of {topic!r}, {cursor!r} was replaced {READ_ATTEMPTS_MAX} times while it was read; retry"
    )
