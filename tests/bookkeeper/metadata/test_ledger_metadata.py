"""Tests of writing ledger metadata; tests/ledger/metadata has those of parsing it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid
from delayed_tracker.bookkeeper.metadata.ledger_metadata import (
    LedgerMetadata,
    LedgerState,
    parse,
    serialize,
)
from delayed_tracker.bookkeeper.wire.digest import DigestType
from tests.bookkeeper.servers.java_ledgers import JavaLedgers
from tests.ledger.metadata.test_ledger_metadata import HEADER, TEXT, WORKED_EXAMPLE

BOOKIES = ("bk1:3181", "bk2:3181", "bk3:3181")
JAVA_NAMES = {DigestType.HMAC: "MAC"}
int64 = st.integers(0, 2**63 - 1)


@st.composite
def metadata_values(draw: st.DrawFn) -> LedgerMetadata:
    version = draw(st.sampled_from([2, 3]))
    closed = draw(st.booleans())
    ensemble = draw(st.integers(1, 4))
    write = draw(st.integers(1, ensemble))
    members = st.lists(st.text(min_size=1), min_size=ensemble, max_size=ensemble).map(tuple)
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 2**62), max_size=3)))]
    return LedgerMetadata(
        ledger_id=draw(int64),
        format_version=version,
        state=LedgerState.CLOSED if closed else draw(st.sampled_from([LedgerState.OPEN, LedgerState.IN_RECOVERY])),
        last_entry_id=draw(st.integers(-1, 2**62)) if closed else -1,
        payload_bytes=draw(int64) if closed else 0,
        ensemble_size=ensemble,
        write_quorum=write,
        ack_quorum=draw(st.integers(1, write)),
        digest_type=draw(st.sampled_from(DigestType)),
        password=draw(st.binary()),
        segments=tuple((first, draw(members)) for first in firsts),
        custom=draw(st.dictionaries(st.text(), st.binary())),
        created_ms=draw(st.none() | int64),
        creation_token=draw(st.none() | int64) if version == 3 else None,
    )


@given(metadata_values())
def test_metadata_survives_writing_and_parsing(metadata: LedgerMetadata):
    """Versions 2 and 3 parse to what was written."""
    assert parse(metadata.ledger_id, serialize(metadata)).require_usable() == metadata


def test_the_worked_example_is_written_byte_for_byte():
    """Worked example L, which BookKeeper wrote, is parsed and written without a change."""
    parsed = parse(77, WORKED_EXAMPLE)
    assert parsed.creation_token == 42
    assert serialize(parsed) == WORKED_EXAMPLE


def test_unknown_fields_are_kept():
    """A field that a newer BookKeeper may add is written again, after a change as well."""
    newer = b"\xf2\x06\x05newer"  # field 110
    body = WORKED_EXAMPLE[len(HEADER) + 3 :] + newer
    stored = HEADER + b"3\n" + bytes([len(body)]) + body
    changed = parse(77, stored).with_state(LedgerState.IN_RECOVERY)
    assert serialize(changed).endswith(newer)
    assert serialize(parse(77, stored)) == stored


def test_version_2_is_written_as_version_2():
    """The version is kept, and version 2 has no creation token."""
    metadata = parse(5, TEXT)
    assert parse(5, serialize(metadata)) == metadata
    assert serialize(replace(metadata, creation_token=7)) == serialize(metadata)


def test_version_1_is_not_written():
    """Version 1 is refused with a remedy."""
    metadata = parse(5, HEADER + b"1\n1\n1\n0\n0\tbk1:3181\n")
    with pytest.raises(LedgerMetadataInvalid, match=r"ledger 5 has format version 1; .* BookKeeper's own client"):
        serialize(metadata)


def test_a_new_segment_replaces_one_without_entries():
    """A segment from the same first entry takes the place of the last one; a later one is added."""
    metadata = parse(5, TEXT)
    others = ("bk4:3181", "bk5:3181", "bk6:3181")
    assert metadata.with_segment(0, others).segments == ((0, others),)
    assert metadata.with_segment(7, others).segments == ((0, BOOKIES), (7, others))


@pytest.mark.parametrize(
    ("found", "put", "fault"),
    [
        (b"ackQuorumSize: 1", b"ackQuorumSize: 3", "ack quorum 3, write quorum 2"),
        (b"ackQuorumSize: 1", b"ackQuorumSize: 0", "ack quorum 0"),
        (b"ensembleSize: 3", b"ensembleSize: 4", "a segment without 4 bookies"),
        (b"firstEntryId: 0", b"firstEntryId: 1", r"segments from entries \[1\]"),
        (b'"bk2:3181"', b'""', "a segment without 3 bookies"),
        (b"lastEntryId: 99", b"lastEntryId: -2", "last entry -2"),
    ],
)
def test_contradictions_are_refused(found: bytes, put: bytes, fault: str):
    """Metadata with which no entry can be found is refused with the ledger, the fault and a remedy."""
    assert found in TEXT
    metadata = parse(5, TEXT.replace(found, put))
    with pytest.raises(LedgerMetadataInvalid, match=f"ledger 5 has {fault}.*restore it from a copy"):
        metadata.require_usable()


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_java_parses_every_field(java_ledgers: JavaLedgers, version: int):
    """BookKeeper's own parser finds in our bytes what was written."""
    for digest in DigestType:
        metadata = LedgerMetadata(
            ledger_id=2**40,
            format_version=version,
            state=LedgerState.CLOSED,
            last_entry_id=999,
            payload_bytes=2**40,
            ensemble_size=3,
            write_quorum=2,
            ack_quorum=1,
            digest_type=digest,
            password=b'secret "\x00\xff\n',
            segments=((0, BOOKIES), (10, BOOKIES[::-1])),
            custom={"key": b"\x00\xff value", "": b""},
            created_ms=1_700_000_000_123,
            creation_token=-(2**62) if version == 3 else None,
        )
        assert java_ledgers.describe(metadata.ledger_id, serialize(metadata)) == {
            "ensemble": 3,
            "writeQuorum": 2,
            "ackQuorum": 1,
            "state": "CLOSED",
            "last": 999,
            "length": 2**40,
            "digest": JAVA_NAMES.get(digest, digest.name),
            "password": metadata.password,
            "token": metadata.creation_token or 0,
            "created": metadata.created_ms,
            "version": version,
            "segments": {"0": list(BOOKIES), "10": list(BOOKIES[::-1])},
            "custom": metadata.custom,
        }
