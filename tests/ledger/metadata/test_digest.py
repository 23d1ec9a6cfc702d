"""Tests of the digest that BookKeeper stores with each payload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.wire.digest import DigestType, encode_body
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from delayed_tracker.ledger.metadata.ledger_metadata import parse_ledger_metadata
from tests.ledger.harness.log_files import flipped, ledger_value

COMMON = "000000000000004d0000000000000000ffffffffffffffff0000000000000005"
WORKED_EXAMPLES = {
    DigestType.CRC32C: COMMON + "641f145468656c6c6f",
    DigestType.CRC32: COMMON + "00000000e1910c1a68656c6c6f",
    DigestType.HMAC: COMMON + "2bf83a71880502ccaee6e0d64f8736716740acca68656c6c6f",
    DigestType.DUMMY: COMMON + "68656c6c6f",
}


@pytest.mark.parametrize("digest_type", DigestType)
def test_worked_example(digest_type):
    """Worked example J is ledger 77, entry 0 with payload hello, under each digest."""
    body = bytes.fromhex(WORKED_EXAMPLES[digest_type])

    assert encode_body(77, 0, b"hello", last_add_confirmed=-1, length=5, digest_type=digest_type) == body
    assert LedgerDigest((digest_type,)).open(body) == (digest_type, b"hello")


@pytest.mark.parametrize("digest_type", [DigestType.CRC32, DigestType.HMAC, DigestType.CRC32C])
def test_no_byte_can_change_unseen(digest_type):
    """A change of any byte of ids, lengths, digest or payload is detected."""
    body = bytes.fromhex(WORKED_EXAMPLES[digest_type])

    for offset in range(len(body)):
        assert LedgerDigest((digest_type,)).open(flipped(body, offset)) is None


@pytest.mark.parametrize("digest_type", [DigestType.CRC32, DigestType.HMAC, DigestType.CRC32C])
def test_no_cut_goes_unseen(digest_type):
    """A body that is cut at any byte does not fit its digest, or has no room for one."""
    body = bytes.fromhex(WORKED_EXAMPLES[digest_type])

    for length in range(len(body)):
        assert LedgerDigest((digest_type,)).open(body[:length]) is None


def test_hmac_needs_the_password():
    """Another password gives another HMAC."""
    body = encode_body(1, 0, b"x", last_add_confirmed=-1, length=1, digest_type=DigestType.HMAC, password=b"secret")

    assert LedgerDigest((DigestType.HMAC,), b"secret").open(body) == (DigestType.HMAC, b"x")
    assert LedgerDigest((DigestType.HMAC,), b"").open(body) is None


@pytest.mark.parametrize("digest_type", [DigestType.CRC32, DigestType.CRC32C])
def test_deleted_ledgers_are_tried_with_both_checksums(digest_type):
    """Entries of a ledger without metadata are tried with both checksums."""
    body = bytes.fromhex(WORKED_EXAMPLES[digest_type])

    assert LedgerDigest.of(None).open(body) == (digest_type, b"hello")


def test_metadata_names_digest_and_password():
    """An HMAC ledger is opened with the digest type and password in its metadata."""
    stored = ledger_value(last_entry_id=0, digest_type=DigestType.HMAC, password=b"secret")

    digest = LedgerDigest.of(parse_ledger_metadata(5, stored))

    assert digest == LedgerDigest((DigestType.HMAC,), b"secret")
    assert "secret" not in repr(digest)


@given(
    ids=st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 4),
    payload=st.binary(max_size=100),
    digest_type=st.sampled_from(DigestType),
    password=st.binary(max_size=10),
)
def test_bodies_round_trip(ids, payload, digest_type, password):
    """Opening an encoded body returns its payload."""
    ledger_id, entry_id, last_add_confirmed, length = ids
    body = encode_body(
        ledger_id,
        entry_id,
        payload,
        last_add_confirmed=last_add_confirmed,
        length=length,
        digest_type=digest_type,
        password=password,
    )

    assert LedgerDigest((digest_type,), password).open(body) == (digest_type, payload)
