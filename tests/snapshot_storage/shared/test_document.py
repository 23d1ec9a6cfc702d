"""Bytes of a catalogue document: what goes in comes back, and any changed byte is found."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX, Position
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.protocol import LogMark
from delayed_tracker.storage.shared.document import (
    EARLIER_MAX,
    Document,
    Part,
    Reference,
    Row,
    decode_head,
    decode_rows,
    encode_body,
    encode_head,
    encode_row,
)

numbers = st.integers(0, 300) | st.sampled_from([2**32, INT63_MAX]) | st.integers(0, INT63_MAX)
positions = st.builds(Position, numbers | st.just(-1), st.integers(-1, 300) | st.just(ENTRY_ID_MAX))
values = st.binary(max_size=20) | st.builds(
    Reference, st.integers(1, 2**32 - 1), numbers, st.integers(1, 2**32), st.integers(0, 2**32 - 1)
)
rows = st.builds(
    Row,
    numbers,
    positions,
    positions,
    st.none() | st.integers(1, INT63_MAX),
    st.none() | positions,
    st.binary(max_size=64),
    values,
    values,
)
write_ids = st.binary(min_size=16, max_size=16)
documents = st.builds(
    Document,
    topic=st.text(max_size=10),
    cursor=st.text(max_size=10),
    write_id=write_ids,
    earlier=st.lists(write_ids, max_size=EARLIER_MAX).map(tuple),
    epoch=numbers,
    writer=st.text(max_size=10),
    forgotten=st.booleans(),
    mark_delete=st.none() | positions,
    log_mark=st.builds(LogMark, numbers, st.none() | positions, st.text(max_size=64), st.none() | positions),
    parts=st.lists(
        st.builds(Part, st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=64)), max_size=4
    ).map(tuple),
)


def filled(document: Document, table: list[Row]) -> Document:
    return replace(document, rows={row.bucket_id: encode_row(document, row) for row in table})


def stored(document: Document) -> bytes:
    body = encode_body(document)
    return encode_head(document, len(body)) + body


def read(octets: bytes) -> Document:
    head = decode_head(octets, "name")
    return replace(head.document, rows=decode_rows(head, octets[head.head_bytes :], "name"))


SMALL = filled(
    Document(
        "topic",
        "cursor",
        bytes(range(16)),
        (bytes(16),),
        7,
        "writer",
        mark_delete=Position(3, 4),
        log_mark=LogMark(9, log="log", stored_through=Position(3, 9)),
    ),
    [
        Row(11, Position(5, 0), Position(6, 9), 1, Position(3, 4), b"pointer", b"summary", b""),
        Row(12, Position(7, 0), Position(7, 9), None, None, b"", Reference(1, 0, 700, 99), b"\x00"),
    ],
)


@given(documents, st.lists(rows, max_size=5))
def test_a_document_comes_back(document, table):
    """Every field is returned as it was written, extremes included; so is a body that is a blob of its own."""
    document = filled(document, table)
    assert read(stored(document)) == document
    body = encode_body(document)
    head = decode_head(encode_head(document, len(body), b"elsewhere"), "name")
    assert head.body_pointer == b"elsewhere"
    assert replace(head.document, rows=decode_rows(head, body, "name")) == document


def test_every_flipped_byte_is_found():
    """A changed byte in head, ids or lengths is an error with the document's name; in a row it damages that row alone."""
    whole = stored(SMALL)
    rows_at = len(whole) - sum(len(row.octets) for row in SMALL.rows.values())
    for place in range(len(whole)):
        for mask in (0x01, 0x80, 0xFF):
            octets = bytearray(whole)
            octets[place] ^= mask
            if place < rows_at:
                with pytest.raises((SnapshotCorrupt, StorageFormatUnsupported), match="document name "):
                    read(bytes(octets))
            else:
                found = read(bytes(octets))
                damaged = [bucket_id for bucket_id, row in found.rows.items() if row.row is None]
                assert damaged == ([11] if place < rows_at + len(SMALL.rows[11].octets) else [12])
                sound = ({11, 12} - {*damaged}).pop()
                assert found.rows[sound] == SMALL.rows[sound]


def test_a_document_that_is_cut_or_longer_is_damaged():
    """Any other length than the one in the head is an error."""
    whole = stored(SMALL)
    for octets in (*(whole[:end] for end in range(len(whole))), whole + b"\0"):
        with pytest.raises(SnapshotCorrupt, match="name"):
            read(octets)


def test_a_damaged_row_stays_as_it_is():
    """A commit that does not know what a row says keeps its bytes, so that the damage stays on record."""
    whole = bytearray(stored(SMALL))
    whole[-1] ^= 1
    found = read(bytes(whole))
    assert stored(replace(found, write_id=bytes(16)))[-20:] == whole[-20:]


def test_rows_and_bodies_of_others_are_damaged():
    """A row of another tracker, and a body of another version, are not taken for one's own."""
    other = replace(SMALL, topic="other")
    assert [row.row for row in read(stored(replace(other, rows=SMALL.rows))).rows.values()] == [None, None]
    newer = replace(SMALL, write_id=bytes(16))
    head = decode_head(encode_head(newer, len(encode_body(newer)), b"blob"), "name")
    with pytest.raises(SnapshotCorrupt, match="ids"):
        decode_rows(head, encode_body(SMALL), "name")


def test_a_newer_format_is_named():
    """A document of a newer program is no damage."""
    octets = bytearray(stored(SMALL))
    octets[4] = 2
    with pytest.raises(StorageFormatUnsupported, match="format 2"):
        read(bytes(octets))


def test_a_bucket_takes_some_seventy_bytes():
    """Rows of usual values, with a summary in a part and a pointer of 28 bytes, fit 3,000 times into 256 KiB."""
    position = Position(123_456_789, 40_000)
    row = Row(1, position, position, 1_000, position, bytes(28), Reference(16, 10**7, 10**5, 0), b"")
    assert 8 + 2 + len(encode_row(SMALL, row).octets) <= 85
