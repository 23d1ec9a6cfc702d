"""Tests of the format of entries in a compacted ledger."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction.compacted_entry import _header, encode_compacted, unwrap_compacted
from delayed_tracker.ledger.compaction.kernels import original_positions
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry, PayloadInvalid
from tests.ledger.harness.log_files import flipped

A = bytes.fromhex("0e017cc828cb000000150a02703110071880d095ffbc319801e0a499ffbc3168656c6c6f")
COMPACTED_A = bytes.fromhex("0000000f0805100318ffffffffffffffffff0100000024") + A

ids = st.integers(0, 2**63 - 1)


def unwrap(*entries: bytes) -> LedgerEntries:
    return unwrap_compacted(LedgerEntries(StoredEntries.of(1000, range(len(entries)), entries)))


def test_an_entry_at_its_original_position():
    """Worked example M contains message A, whose original position was 5:3."""
    assert encode_compacted(Position(5, 3), -1, A) == COMPACTED_A

    read = unwrap(COMPACTED_A)

    assert list(read.entries.positions) == [(5, 3)]
    assert read.entries.payload(0) == A
    assert read.bad_entries == ()


@given(st.lists(st.tuples(ids, ids, st.integers(-1, 2**31 - 1), st.binary(max_size=10)), max_size=5))
def test_entries_round_trip(rows):
    """Any positions, partitions and bytes round-trip, including no bytes."""
    read = unwrap(
        *(encode_compacted(Position(ledger, entry), partition, body) for ledger, entry, partition, body in rows)
    )

    assert list(read.entries.positions) == [(ledger, entry) for ledger, entry, _, _ in rows]
    assert [read.entries.payload(row) for row in range(len(rows))] == [body for *_, body in rows]


def test_a_cut_entry_is_bad_and_its_neighbours_are_not():
    """A cut entry is bad under its id in the compacted ledger, because its original position is lost."""
    for length in range(len(COMPACTED_A)):
        read = unwrap(COMPACTED_A, COMPACTED_A[:length], COMPACTED_A)
        assert list(read.entries.positions) == [(5, 3), (5, 3)]
        assert [(bad.ledger_id, bad.entry_id) for bad in read.bad_entries] == [(1000, 1)]


def test_damage_is_an_error_or_another_position():
    """Damage gives an error, or a wrong original position, which only the ledger's digest covers."""
    header_bytes = 4 + 15 + 4
    for at in range(len(COMPACTED_A)):
        for mask in (0x01, 0x80, 0xFF):
            read = unwrap(flipped(COMPACTED_A, at, mask))
            assert len(read.entries) + len(read.bad_entries) == 1
            if at < header_bytes and len(read.entries):
                assert 4 <= at < 4 + 15
                assert read.entries.payload(0) == A


def test_positions_out_of_range_are_bad():
    """Positions outside of the valid range are bad, because wire values are unsigned."""
    header = bytes.fromhex("08ffffffffffffffffff01") + b"\x10\0"
    (bad,) = unwrap(bytes([0, 0, 0, len(header)]) + header + bytes(4)).bad_entries
    assert "is out of range 0 to 9223372036854775807" in bad.reason

    (bad,) = unwrap(bytes([0, 0, 0, 2]) + b"\x08\0" + bytes(4)).bad_entries
    assert bad == BadEntry(1000, 0, None, None, "the original position lacks ledger or entry")


@given(st.binary(max_size=40))
def test_any_bytes_are_an_entry_or_bad(content):
    """Any bytes are an entry or a bad entry; they raise no other error and never read bytes of a neighbour."""
    read = unwrap(content, COMPACTED_A)
    assert len(read.entries) + len(read.bad_entries) == 2
    assert read.entries.payload(len(read.entries) - 1) == A


@given(st.lists(st.tuples(ids, ids, st.integers(-1, 2**31 - 1), st.binary(max_size=10)), max_size=5))
def test_what_compactors_write_is_decided_by_the_kernel(rows):
    """The kernel decides all entries that compactors write, because the Python parser is a hundred times slower."""
    written = StoredEntries.of(
        1000,
        range(len(rows)),
        [encode_compacted(Position(ledger, entry), partition, body) for ledger, entry, partition, body in rows],
    )
    _, decided = original_positions(np.frombuffer(written.buffer, np.uint8), written.start, written.end)
    assert decided.all()


@given(
    st.builds(
        lambda ledger, entry, more: encode_compacted(Position(ledger, entry), -1, A[:9])[4:19] + more,
        ids, ids, st.binary(max_size=4),
    ),
    st.lists(st.tuples(st.integers(0, 18), st.integers(0, 255)), max_size=2),
)  # fmt: skip
def test_any_header_reads_as_protobuf_reads_it(header, changes):
    """Any header gives the same result in the kernel, with its fallback, as in the protobuf parser."""
    changed = bytearray(header)
    for at, octet in changes:
        changed[at % len(changed)] = octet
    entry = len(changed).to_bytes(4, "big") + bytes(changed) + bytes(4)
    read = unwrap(COMPACTED_A, entry, COMPACTED_A)
    parsed = by_parser(entry)
    if isinstance(parsed, str):
        assert [(bad.entry_id, bad.reason) for bad in read.bad_entries] == [(1, parsed)]
    else:
        position, start = parsed
        assert list(read.entries.positions) == [(5, 3), position, (5, 3)]
        assert int(read.entries.start[1]) - len(COMPACTED_A) == start


def by_parser(entry: bytes) -> tuple[Position, int] | str:
    """Return position and start of the inner entry, or the error message."""
    try:
        return _header(entry, 0, len(entry))
    except PayloadInvalid as error:
        return error.message


@pytest.mark.parametrize(
    ("header", "position"),
    [
        ("10030805", (5, 3)),
        ("0805100308061004", (6, 4)),
        ("080510031801200728013001", (5, 3)),
        ("8880000510031801", (5, 3)),
        ("08850010830018ff01", (5, 3)),
    ],
)
def test_unusual_headers(header, position):
    """Headers with reordered, repeated or unknown fields, or with overlong tags and numbers, are read."""
    content = bytes.fromhex(header)
    read = unwrap(len(content).to_bytes(4, "big") + content + bytes(4))
    assert list(read.entries.positions) == [position]
