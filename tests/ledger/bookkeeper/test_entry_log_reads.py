"""Tests that reading many entries of entry logs at once equals reading them one by one."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.wire.digest import DigestType, encode_body
from delayed_tracker.ledger.bookkeeper import entry_logs
from delayed_tracker.ledger.bookkeeper.entry_logs import open_entry_logs
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from tests.ledger.harness.log_files import entry_log, flipped, record

DIGEST = LedgerDigest()
"""Digest of a ledger without metadata: both checksums may fit."""

copies = st.tuples(
    st.integers(0, 2),  # file
    st.integers(6, 8),  # ledger
    st.integers(0, 9),  # entry
    st.binary(max_size=12),
    st.sampled_from([DigestType.CRC32C, DigestType.CRC32]),
    st.sampled_from([True, True, True, False]),
)
"""Rows of a record; the last value is True if the record is undamaged."""


def written(directory: Path, rows: list[tuple[int, int, int, bytes, DigestType, bool]]) -> None:
    logs: list[list[bytes]] = [[], [], []]
    for file_no, ledger_id, entry_id, payload, digest_type, whole in rows:
        body = encode_body(ledger_id, entry_id, payload, last_add_confirmed=0, length=0, digest_type=digest_type)
        logs[file_no].append(record(body if whole else flipped(body, 32)))
    for file_no, records in enumerate(logs):
        (directory / f"{file_no}.log").write_bytes(entry_log(records))


def found(read: LedgerEntries) -> dict[int, bytes]:
    entries = read.entries
    ids = entries.entry_id.tolist()
    assert ids == sorted(set(ids))
    return {entry_id: entries.payload(row) for row, entry_id in enumerate(ids)}


def unread(reads: list[LedgerEntries]) -> list[int]:
    bad = [entry for read in reads for entry in read.bad_entries]
    return [entry.entry_id + place for entry in bad if entry.entry_id is not None for place in range(entry.entry_count)]


@given(st.lists(copies, max_size=40), st.integers(0, 10), st.integers(-1, 12))
@example([(0, 7, 0, b"damaged", DigestType.CRC32C, False), (1, 7, 0, b"whole", DigestType.CRC32, True)], 0, 0)
def test_a_range_is_what_a_look_at_each_record_finds(rows, first, last):
    """A read gives the first undamaged copy of each entry over all logs and lists the others, at once and in pieces."""
    expected: dict[int, bytes] = {}
    for _, ledger_id, entry_id, payload, _, whole in sorted(rows, key=lambda row: row[0]):
        if ledger_id == 7 and first <= entry_id <= last and whole:
            expected.setdefault(entry_id, payload)

    with TemporaryDirectory() as directory:
        written(Path(directory), rows)
        with open_entry_logs([directory]) as logs:
            whole_read = logs.read(7, first, last, DIGEST)
            pieces = list(logs.scan(7, first, last, DIGEST))

    assert found(whole_read) == expected
    assert unread([whole_read]) == [entry_id for entry_id in range(first, last + 1) if entry_id not in expected]
    assert {entry_id: payload for piece in pieces for entry_id, payload in found(piece).items()} == expected
    assert unread(pieces) == unread([whole_read])


def test_pieces_are_bounded_by_bytes_and_by_entries(tmp_path, monkeypatch):
    """Each piece has at least one entry with all its copies, and missing entries are part of some piece."""
    rows = [(0, 7, entry_id, bytes(100), DigestType.CRC32C, True) for entry_id in (0, 1, 1, 1, 2, 5, 6, 7)]
    rows[1] = (0, 7, 1, bytes(100), DigestType.CRC32C, False)
    written(tmp_path, rows)
    with open_entry_logs([tmp_path]) as logs:

        def ids() -> list[list[int]]:
            pieces = list(logs.scan(7, 0, 9, DIGEST))
            assert unread(pieces) == [3, 4, 8, 9]
            return [list(found(piece)) for piece in pieces]

        assert ids() == [[0, 1, 2, 5, 6, 7]]
        monkeypatch.setattr(entry_logs, "_PIECE_BYTES", 300)
        assert ids() == [[0, 1], [2, 5, 6], [7]]
        monkeypatch.setattr(entry_logs, "_PIECE_BYTES", 1)
        assert ids() == [[0], [1], [2], [5], [6], [7]]
        monkeypatch.undo()
        monkeypatch.setattr(entry_logs, "_PIECE_RECORDS_MAX", 2)
        assert ids() == [[0, 1], [2, 5], [6, 7]]


def test_a_ledger_that_claims_to_be_endless_costs_what_is_there(tmp_path):
    """A read of a ledger with any claimed last entry costs no more than the entries that exist."""
    written(tmp_path, [(0, 7, 3, b"x", DigestType.CRC32C, True)])
    endless = 2**63 - 1
    with open_entry_logs([tmp_path]) as logs:
        for reads in ([logs.read(7, 0, endless, DIGEST)], list(logs.scan(7, 0, endless, DIGEST))):
            (read,) = reads
            assert found(read) == {3: b"x"}
            assert [(bad.entry_id, bad.entry_count) for bad in read.bad_entries] == [(0, 3), (4, endless - 3)]
        (nothing,) = logs.scan(8, 5, endless, DIGEST)
        assert [(bad.entry_id, bad.entry_count) for bad in nothing.bad_entries] == [(5, endless - 4)]


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "among others"])
def test_only_a_ledgers_own_bytes_are_kept(tmp_path, others):
    """A ledger that shares its logs is picked out of them, and one alone is copied as a whole."""
    rows = []
    for entry_id in range(50):
        rows += [(0, 8, entry_id * others + other, bytes(100), DigestType.CRC32C, True) for other in range(others)]
        rows.append((0, 7, entry_id, bytes([entry_id]) * 100, DigestType.CRC32C, True))
    written(tmp_path, rows)
    with open_entry_logs([tmp_path]) as logs:
        read = logs.read(7, 0, 49, DIGEST)

    assert found(read) == {entry_id: bytes([entry_id]) * 100 for entry_id in range(50)}
    assert len(read.entries.buffer) <= 2 * 50 * 100


def test_what_was_read_outlives_the_logs(tmp_path):
    """Entries that were read stay valid after the logs are closed."""
    written(tmp_path, [(0, 7, 0, b"kept", DigestType.CRC32C, True)])
    logs = open_entry_logs([tmp_path])
    read = logs.read(7, 0, 0, DIGEST)
    logs.close()

    assert found(read) == {0: b"kept"}
    with pytest.raises(IndexError):
        logs.read(7, 0, 0, DIGEST)
