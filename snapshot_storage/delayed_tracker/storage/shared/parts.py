"""Large values of rows: packed into parts, mostly one for each commit, and merged before there are many small ones.

Summaries and consumed positions of a bucket may take 100 KB, a document 256. Values from 512 bytes on, and smaller ones
once the rows are large, are therefore in blobs. A part that no row needs any more is dropped; parts of which less than
half is needed, and the smallest ones if there are too many, are written anew. A part ends at a size that every store returns
at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import google_crc32c

from delayed_tracker.storage.shared.document import Document, Part, Reference, Row, StoredRow, Value, encode_row

INLINE_BYTES_MAX: Final = 512
INLINE_ROWS_BYTES_MAX: Final = 128 * 1024
"""Size of a document's rows from which on all values of new rows are in parts."""
PART_BYTES_MAX: Final = 64 * 1024 * 1024
"""Size that a part has at most, unless one value alone is larger."""
PARTS_MAX: Final = 16
"""Parts of less than half of the largest size, which are merged beyond that number."""
PARTS_KEPT: Final = 8
"""Parts of these that a merge of the smallest ones leaves, with the merged one."""
SPARSE_BYTES_MIN: Final = 64 * 1024
"""Size from which on a part is written anew when less than half of it is needed."""


@dataclass(slots=True)
class NewPart:
    """Content of a part that is not stored yet."""

    number: int
    values: list[bytes] = field(default_factory=list)
    length: int = 0

    @property
    def content(self) -> bytes:
        """Bytes of the part."""
        return b"".join(self.values)


@dataclass(slots=True)
class Packing:
    """Values of one commit, in one part or, if they are many, in several."""

    next_number: int
    parts: list[NewPart] = field(default_factory=list)

    def add(self, value: bytes) -> Reference:
        """Return the place of a value in a part."""
        if not self.parts or self.parts[-1].length + len(value) > PART_BYTES_MAX:
            self.parts.append(NewPart(self.next_number))
            self.next_number += 1
        part = self.parts[-1]
        reference = Reference(part.number, part.length, len(value), google_crc32c.value(value))
        part.values.append(value)
        part.length += len(value)
        return reference


def packing_for(document: Document) -> Packing:
    """Return a packing without values, whose parts have numbers that no part of the document has."""
    return Packing(max((part.number for part in document.parts), default=0) + 1)


def pack(document: Document, rows: Iterable[Row], packing: Packing) -> dict[int, StoredRow]:
    """Return the bytes of rows that have their values with them; the large ones go into parts."""
    full = sum(len(row.octets) for row in document.rows.values()) > INLINE_ROWS_BYTES_MAX

    def placed(value: Value) -> Value:
        if isinstance(value, Reference) or not value or (len(value) < INLINE_BYTES_MAX and not full):
            return value
        return packing.add(value)

    return {
        row.bucket_id: encode_row(document, replace(row, summary=placed(row.summary), consumed=placed(row.consumed)))
        for row in rows
    }


def value_of(value: Value, contents: Mapping[int, bytes]) -> bytes | None:
    """Return the bytes of a value, verified; None if its part is missing from ``contents``, or damaged there."""
    if not isinstance(value, Reference):
        return value
    found = contents.get(value.part, b"")[value.offset : value.offset + value.length]
    return found if len(found) == value.length and google_crc32c.value(found) == value.crc32c else None


def without_unused(document: Document) -> Document:
    """Return the document without the parts that none of its rows needs."""
    needed = _needed_bytes(document)
    return replace(document, parts=tuple(part for part in document.parts if part.number in needed))


def to_merge(document: Document) -> list[Part]:
    """Return the parts whose values should be written anew; mostly none."""
    needed = _needed_bytes(document)
    ascending = sorted(document.parts, key=lambda part: needed.get(part.number, 0))
    sparse = [
        part for part in ascending if part.length >= SPARSE_BYTES_MIN and 2 * needed.get(part.number, 0) < part.length
    ]
    small = [part for part in ascending if 2 * needed.get(part.number, 0) < PART_BYTES_MAX]
    if len(small) <= PARTS_MAX:
        return sparse
    smallest = small[: len(small) - PARTS_KEPT + 1]
    return smallest + [part for part in sparse if part not in smallest]


def merged(document: Document, parts: Iterable[Part], contents: Mapping[int, bytes], packing: Packing) -> Document:
    """Return the document with the values of some parts in new ones.

    A part with a damaged value stays as it is, so that the damage is not hidden.
    """
    numbers = {part.number for part in parts}
    rows = dict(document.rows)
    for bucket_id, stored in document.rows.items():
        row = stored.row
        if row is None:
            continue
        moved = replace(
            row,
            summary=_moved(row.summary, numbers, contents, packing),
            consumed=_moved(row.consumed, numbers, contents, packing),
        )
        if moved != row:
            rows[bucket_id] = encode_row(document, moved)
    return replace(document, rows=rows)


def _moved(value: Value, numbers: set[int], contents: Mapping[int, bytes], packing: Packing) -> Value:
    if not isinstance(value, Reference) or value.part not in numbers:
        return value
    found = value_of(value, contents)
    return value if found is None else packing.add(found)


def _needed_bytes(document: Document) -> dict[int, int]:
    """Return the bytes that rows need of each part."""
    needed: dict[int, int] = {}
    for stored in document.rows.values():
        if stored.row is not None:
            for value in (stored.row.summary, stored.row.consumed):
                if isinstance(value, Reference):
                    needed[value.part] = needed.get(value.part, 0) + value.length
    return needed
