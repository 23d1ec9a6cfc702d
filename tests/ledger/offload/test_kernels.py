"""Tests that kernels give the same results compiled and uncompiled, for any octets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger.offload import kernels
from tests.ledger.offload.blob_files import PADDING
from tests.ledger.offload.blob_files import record as blob_record
from tests.ledger.offload.sequence_files import ESCAPE, SYNC, record, vint

entries = st.lists(st.binary(max_size=9), max_size=6)
noise = st.binary(max_size=24)


def octets(content: bytes) -> np.ndarray:
    return np.frombuffer(content, np.uint8)


def plain(answer):
    return [part.tolist() if isinstance(part, np.ndarray) else int(part) for part in answer]


def same(kernel, *arguments):
    answer = plain(kernel(*arguments))
    assert answer == plain(kernel.function(*arguments))
    return answer


@given(entries=entries, tail=noise | st.just(PADDING), first=st.integers(-3, 3), seen=st.sampled_from([0, 12]))
def test_walking_blob_records(entries, tail, first, seen):
    """Rows of blob records are in order up to the first that is not a record."""
    content = b"".join(blob_record(entry_id, entry) for entry_id, entry in enumerate(entries)) + tail
    starts, ends, stopped, status = same(kernels.walk_blob_records, octets(content), 0, len(content), first, 4, seen)
    found = [content[start:end] for start, end in zip(starts, ends, strict=True)]
    if first == 0 and not tail and not seen:
        assert found == entries[:5]
        assert status == (kernels.CUT if len(entries) < 5 else kernels.WALKED)
    assert stopped <= len(content)


@given(entries=entries, tail=noise, framed=st.booleans(), first=st.integers(-3, 3))
def test_walking_sequence_records(entries, tail, framed, first):
    """Rows of SequenceFile records, with sync marks between them, are in order up to the first that is not a record."""
    content = b"".join((ESCAPE + SYNC) * (key % 2) + record(key, entry) for key, entry in enumerate(entries)) + tail
    starts, ends, stopped, _ = same(
        kernels.walk_sequence_records, octets(content), 0, len(content), octets(SYNC), first, 4, int(framed)
    )
    found = [content[start:end] for start, end in zip(starts, ends, strict=True)]
    if first == 0 and framed and not tail:
        assert found == entries[:5]
    assert stopped <= len(content)


@pytest.mark.parametrize("first", [-1, 0])
@pytest.mark.parametrize("last", [2**63 - 2, 2**63 - 1])
def test_claimed_last_entries_up_to_the_largest_number(first, last):
    """However many entries metadata claim, the rows are those that the octets have."""
    entries = [b"%d" % number for number in range(5_000)]
    blob = b"".join(blob_record(first + number, entry) for number, entry in enumerate(entries))
    starts, ends, stopped, status = same(kernels.walk_blob_records, octets(blob), 0, len(blob), first, last, 0)
    assert [blob[start:end] for start, end in zip(starts, ends, strict=True)] == entries
    assert (stopped, status) == (len(blob), kernels.CUT)

    file = b"".join(record(first + number, entry) for number, entry in enumerate(entries))
    starts, ends, stopped, status = same(
        kernels.walk_sequence_records, octets(file), 0, len(file), octets(SYNC), first, last, 1
    )
    assert [file[start:end] for start, end in zip(starts, ends, strict=True)] == entries
    assert (stopped, status) == (len(file), kernels.CUT)


@given(lengths=st.lists(st.integers(0, 2**31 - 1), max_size=9), extra=noise)
def test_reading_lengths(lengths, extra):
    """Lengths of every width are read, and remaining or invalid bytes are an error."""
    content = b"".join(map(vint, lengths))
    found, well_formed = same(kernels.read_lengths, octets(content), len(lengths))
    assert (found, well_formed) == (lengths, 1)
    if extra:
        assert plain(kernels.read_lengths(octets(content + extra), len(lengths)))[1] == 0
        assert plain(kernels.read_lengths(octets(content[:-1]), len(lengths)))[1] == 0 or not lengths


@pytest.mark.parametrize("content", [b"\x90", b"\xff", b"\x8b\0\0\0\0\0", b"\x8e\0", b"\x80"])
def test_invalid_lengths_are_rejected(content):
    """A negative, overlong or cut number is not a length."""
    assert plain(kernels.read_lengths(octets(content), 1))[1] == 0


@given(entries=entries, wrong=st.integers(0, 9))
def test_bounds_of_values(entries, wrong):
    """Each value begins with its own length, and the first value that does not is reported."""
    values = [len(entry).to_bytes(4, "big") + entry for entry in entries]
    if wrong < len(values):
        values[wrong] = b"\1" + values[wrong][1:]
    content = b"".join(values)
    lengths = np.array([len(value) for value in values], np.int64)
    starts, ends, good = kernels.framed_values(octets(content), lengths)
    expected = plain(kernels.framed_values.function(octets(content), lengths))
    assert good == expected[2] == min(wrong, len(values))
    found = [content[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)][:good]
    assert found == entries[:good]
