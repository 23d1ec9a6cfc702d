"""Tests of sealed entries and of explicit last-add-confirmed values."""

import re

import pytest

from delayed_tracker.bookkeeper.errors import DigestMismatch
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType, Entry

TYPES = [DigestType.CRC32, DigestType.HMAC, DigestType.CRC32C, DigestType.DUMMY]


@pytest.mark.parametrize("digest_type", TYPES)
def test_an_entry_is_opened_as_it_was_sealed(digest_type):
    """Ids, last add confirmed, length and payload come back."""
    digest = Digest(digest_type, b"secret")
    body = digest.seal(77, 3, 2, 900, b"hello") + b"hello"

    assert digest.open(77, 3, body) == digest.open(77, None, body) == Entry(3, 2, 900, b"hello")


@pytest.mark.parametrize(("ledger_id", "entry_id"), [(78, 3), (77, 4), (78, None)])
def test_another_entry_is_refused(ledger_id, entry_id):
    """An entry with a good digest, but of another place, is no answer."""
    digest = Digest(DigestType.CRC32C)
    body = digest.seal(77, 3, 2, 5, b"hello") + b"hello"

    with pytest.raises(DigestMismatch, match=r"the bookie has 77:3 there; read another replica"):
        digest.open(ledger_id, entry_id, body)


def test_a_negative_entry_is_no_last_entry():
    """Negative entry ids are the bookie's own records, never an answer to a read of the last entry."""
    digest = Digest(DigestType.CRC32C)

    with pytest.raises(DigestMismatch, match="77:-32768"):
        digest.open(77, None, digest.seal(77, -0x8000, -1, 0, b""))


def test_damage_is_named():
    """The error names the entry and the type of the digest, and shows no password."""
    digest = Digest(DigestType.HMAC, b"secret")
    body = digest.seal(77, 3, 2, 5, b"hello") + b"hellO"

    with pytest.raises(DigestMismatch, match=re.escape("entry 77:3: its 57 bytes do not fit their HMAC digest")):
        digest.open(77, 3, body)
    with pytest.raises(DigestMismatch):
        digest.open(77, 3, b"")
    assert "secret" not in repr(digest)


def test_worked_example_of_a_last_add_confirmed():
    """Last add confirmed 0 of ledger 77 has the bytes of worked example J, and comes back."""
    digest = Digest(DigestType.CRC32C)
    sealed = digest.seal_lac(77, 0)

    assert sealed.hex() == "000000000000004d00000000000000000130458b"
    assert digest.open_lac(77, sealed) == 0


@pytest.mark.parametrize("digest_type", TYPES)
def test_a_wrong_last_add_confirmed_is_refused(digest_type):
    """A body that is cut, longer, of another ledger or, but for DUMMY, changed is refused."""
    digest = Digest(digest_type, b"secret")
    sealed = digest.seal_lac(77, 41)
    assert digest.open_lac(77, sealed) == 41
    wrong = [sealed[:length] for length in range(len(sealed))] + [sealed + b"\0"]
    if digest_type is not DigestType.DUMMY:
        wrong += [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]

    for body in wrong:
        with pytest.raises(DigestMismatch):
            digest.open_lac(77, body)
    with pytest.raises(DigestMismatch, match="it is of ledger 77"):
        digest.open_lac(78, sealed)
