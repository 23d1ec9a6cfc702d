"""Tests that checksums over columns equal those of libraries, with the CRC32C instruction and with tables."""

import os
import subprocess
import sys
import zlib

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config

from delayed_tracker.bookkeeper.wire.digest import DigestType, encode_body
from delayed_tracker.ledger import checksum_kernels
from delayed_tracker.ledger.checksum_kernels import crc32c_of_bodies, crc32c_of_each, fitting_digests
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from tests.repository.project_tree import ROOT

CHECK = """
import google_crc32c, numpy as np
from delayed_tracker.ledger.checksum_kernels import crc32c_of_each

octets = np.arange(3_000, dtype=np.int64).astype(np.uint8)
start = np.arange(100)
end = start + 3 * np.arange(100)
expected = [google_crc32c.value(octets[first:last].tobytes()) for first, last in zip(start, end)]
assert crc32c_of_each(octets, start, end).tolist() == expected
"""


@given(st.binary(max_size=80), st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), max_size=5))
def test_crc32c_of_stretches(octets, bounds):
    """CRC32C is right for byte ranges at any offset and of any length, including 0."""
    stretches = [octets[first:last] for first, last in bounds]
    start = np.array([min(first, len(octets)) for first, _ in bounds], np.int64)
    sizes = np.array([len(stretch) for stretch in stretches], np.int64)

    found = crc32c_of_each(np.frombuffer(octets, np.uint8), start, start + sizes)

    assert found.tolist() == [google_crc32c.value(stretch) for stretch in stretches]


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_tables_continue_a_checksum(before, after):
    """Tables extend a checksum as on a processor without the instruction."""
    for tables, library in (
        (checksum_kernels._CRC32C_TABLES, google_crc32c.extend),
        (checksum_kernels._CRC32_TABLES, lambda crc, octets: zlib.crc32(octets, crc)),
    ):
        crc = library(0, before)
        octets = np.frombuffer(after, np.uint8)
        assert checksum_kernels._extend_by_tables(tables, crc, octets, 0, len(after)) == library(crc, after)


@pytest.mark.long
@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled with NUMBA_DISABLE_JIT=1")
def test_code_for_a_processor_without_the_instruction(tmp_path):
    """Code for a processor without the instruction does not use it, because it would end the process."""
    subprocess.run(
        [sys.executable, "-W", "error", "-c", CHECK],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        check=True,
    )


bodies = st.builds(
    lambda payload, digest_type: encode_body(
        1, 2, payload, last_add_confirmed=1, length=3, digest_type=digest_type, password=b"p"
    ),
    st.binary(max_size=30),
    st.sampled_from(DigestType),
)
damaged = st.builds(
    lambda body, at, mask, length: (
        body[: at % len(body)] + bytes([body[at % len(body)] ^ mask]) + body[at % len(body) + 1 :]
    )[:length],
    bodies,
    st.integers(0, 100),
    st.sampled_from([0, 0, 1, 128]),
    st.integers(0, 100),
)


@given(
    st.lists(damaged, max_size=5),
    st.lists(st.sampled_from(DigestType), max_size=3, unique=True),
)
def test_bodies_are_judged_together_as_one_by_one(bodies, digest_types):
    """Bodies are verified together as one by one, with damaged or cut bodies and other digest types."""
    digest = LedgerDigest(tuple(digest_types), b"p")
    end = np.cumsum([len(body) for body in bodies], dtype=np.int64)
    start = end - np.array([len(body) for body in bodies], np.int64)

    found = digest.fitting(np.frombuffer(b"".join(bodies), np.uint8), start, end)

    opened = [digest.open(body) for body in bodies]
    assert found.tolist() == [0 if one is None else one[0] for one in opened]


def test_the_upper_half_of_a_crc_32_digest_is_zero():
    """The upper four of the eight bytes of a CRC-32 digest must be zero."""
    body = encode_body(1, 2, b"x", last_add_confirmed=1, length=3, digest_type=DigestType.CRC32)
    wrong = body[:32] + b"\x01" + body[33:]
    octets = np.frombuffer(body + wrong, np.uint8)
    start = np.array([0, len(body)])

    assert fitting_digests(octets, start, start + len(body), np.array([DigestType.CRC32])).tolist() == [1, 0]


def test_a_body_without_room_for_its_digest_fits_nothing():
    """A body without room for its digest fits nothing, even if the bytes behind it would complete the digest."""
    body = encode_body(1, 2, b"", last_add_confirmed=1, length=0)
    octets = np.frombuffer(body, np.uint8)

    for size in range(len(body) + 1):
        found = fitting_digests(octets, np.array([0]), np.array([size]), np.array([DigestType.CRC32C]))
        assert found.tolist() == [DigestType.CRC32C if size == len(body) else 0]


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_the_digests_that_bodies_should_have(payloads):
    """The computed digest of a body does not depend on the stored digest."""
    bodies = [encode_body(1, row, body, last_add_confirmed=-1, length=0) for row, body in enumerate(payloads)]
    blank = [body[:32] + bytes(4) + body[36:] for body in bodies]
    end = np.cumsum([0, *map(len, blank)])[1:]
    start = end - np.array([len(body) for body in blank], np.int64)

    found = crc32c_of_bodies(np.frombuffer(b"".join(blank), np.uint8), start.astype(np.int64), end)

    assert [digest.to_bytes(4, "big") for digest in found.tolist()] == [body[32:36] for body in bodies]
