"""Applies calls to a document, one after the other, each fenced by its epoch; knows nothing of the store."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.errors import SnapshotConflict
from delayed_tracker.storage.protocol import CatalogueEntry, Mark, marked, require_epoch
from delayed_tracker.storage.shared.document import Document, Row
from delayed_tracker.storage.shared.document_store import NamesSnapshots
from delayed_tracker.storage.shared.parts import Packing, pack


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call that waits for a commit."""

    answer: asyncio.Future[None]
    epoch: int
    writer: str
    forget: bool = False
    remove: Sequence[int] = ()
    add: Sequence[CatalogueEntry] = ()
    mark_delete: Position | None = None
    mark: Mark | None = None

    def refuse(self, error: Exception) -> None:
        """Answer with an error, unless nobody waits any more."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def accept(self) -> None:
        """Answer that the change counts."""
        if not self.answer.done():
            self.answer.set_result(None)


def applied(
    document: Document, calls: Sequence[Call], packing: Packing, names: NamesSnapshots | None
) -> tuple[Document, list[Call]]:
    """Return the document with the changes of the calls that may write, and these calls. The others are refused."""
    accepted = []
    for call in calls:
        catalogue = f"the catalogue of {document.topic!r}, {document.cursor!r}"
        try:
            require_epoch(catalogue, document.epoch, document.writer, call.epoch, call.writer)
        except SnapshotConflict as error:
            call.refuse(error)
            continue
        writer = call.writer or (document.writer if call.epoch == document.epoch else "")
        document = replace(document, epoch=call.epoch, writer=writer, forgotten=call.forget)
        document = _forgotten(document) if call.forget else _replaced(document, call, packing, names)
        accepted.append(call)
    return document, accepted


def _forgotten(document: Document) -> Document:
    return replace(document, mark_delete=None, log_mark=document.log_mark.without_claims(), rows={})


def _replaced(document: Document, call: Call, packing: Packing, names: NamesSnapshots | None) -> Document:
    rows = dict(document.rows)
    for bucket_id in call.remove:
        rows.pop(bucket_id, None)
    # What is known of a snapshot may be in the document alone: the process that stored it is another one.
    added = [_row(entry, _pointer(document, entry.bucket_id, names)) for entry in call.add]
    rows.update(pack(replace(document, rows=rows), added, packing))
    return replace(
        document,
        mark_delete=document.mark_delete if call.mark_delete is None else call.mark_delete,
        log_mark=marked(document.log_mark, call.mark),
        rows=rows,
    )


def _pointer(document: Document, bucket_id: int, names: NamesSnapshots | None) -> bytes:
    known = b"" if names is None else names.pointer_of(bucket_id)
    stored = document.rows.get(bucket_id)
    return known or (stored.row.pointer if stored is not None and stored.row is not None else b"")


def _row(entry: CatalogueEntry, pointer: bytes) -> Row:
    return Row(
        entry.bucket_id,
        entry.first,
        entry.last,
        entry.seal_number,
        entry.mark_delete,
        pointer,
        entry.summary,
        entry.consumed,
    )
