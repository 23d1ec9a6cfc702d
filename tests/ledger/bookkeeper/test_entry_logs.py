"""Tests of reading ledgers from several entry logs."""

import gzip
import struct

import numpy as np
import pytest

from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.bookkeeper.entry_log import DAMAGE_MAX
from delayed_tracker.ledger.bookkeeper.entry_logs import open_entry_logs
from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from tests.ledger.harness.log_files import entry_log, flipped, header, ledger_records, record

CRC32C = LedgerDigest((DigestType.CRC32C,))
PAYLOADS = [b"zero", b"one", b"two", b"three"]
RECORDS = ledger_records(7, PAYLOADS)


@pytest.fixture
def directory(tmp_path):
    return tmp_path


def write(directory, **logs):
    for name, records in logs.items():
        (directory / f"{name.lstrip('_')}.log").write_bytes(entry_log(records))
    return open_entry_logs([directory])


def payloads(read):
    return [read.entries.payload(row) for row in range(len(read.entries))]


def test_a_ledger_is_read_in_order_whatever_the_order_of_its_records(directory):
    """A ledger is read in order although its records are spread over several logs and mixed with another ledger's."""
    others = ledger_records(3, [b"x"])
    with write(directory, _0=[RECORDS[2], others[0], RECORDS[0]], _1=[RECORDS[3], RECORDS[1]]) as logs:
        read = logs.read(7, 0, 3, CRC32C)

    assert payloads(read) == PAYLOADS
    assert read.entries.entry_id.tolist() == [0, 1, 2, 3]
    assert set(read.entries.ledger_id.tolist()) == {7}
    assert read.bad_entries == ()


def test_logs_are_taken_in_the_order_of_their_hexadecimal_ids(directory):
    """10.log is the sixteenth log, after f.log."""
    with write(directory, _10=[], f=[], _9=[]) as logs:
        assert [file.name for file in logs.files] == ["9.log", "f.log", "10.log"]


def test_repeated_entries_are_read_once(directory):
    """An entry that journal replays and replicas repeat, in one log or in several, is read once."""
    (directory / "a").mkdir()
    (directory / "b").mkdir()
    (directory / "a" / "0.log").write_bytes(entry_log([*RECORDS[:3], RECORDS[1]]))
    (directory / "a" / "1.log").write_bytes(entry_log(RECORDS[:2]))
    (directory / "b" / "0.log").write_bytes(entry_log(RECORDS[1:]))

    with open_entry_logs([directory / "a", directory / "b"]) as logs:
        assert payloads(logs.read(7, 0, 3, CRC32C)) == PAYLOADS
        assert len(logs.records) == 9


def test_a_good_copy_replaces_a_damaged_one(directory):
    """If a copy is damaged, the next replica is read, as by a reader of a live cluster."""
    with write(directory, _0=[flipped(RECORDS[0], 40), RECORDS[1]], _1=[RECORDS[0]]) as logs:
        read = logs.read(7, 0, 1, CRC32C)

    assert payloads(read) == PAYLOADS[:2]
    assert read.bad_entries == ()


def test_damaged_and_missing_entries_are_named(directory):
    """Damage is reported with file and offset, and missing entries are reported in runs."""
    with write(directory, _0=[flipped(RECORDS[0], 41), RECORDS[2]]) as logs:
        read = logs.read(7, 0, 6, CRC32C)

    assert payloads(read) == [b"two"]
    damaged, missing, rest = read.bad_entries
    assert (damaged.ledger_id, damaged.entry_id, damaged.offset) == (7, 0, 1024)
    assert str(damaged) == f"entry 7:0 in {directory / '0.log'} at byte 1024: " + damaged.reason
    assert damaged.reason == "the CRC32C digest does not fit, and no log has a good copy"
    assert str(missing) == "entry 7:1: no log has it"
    assert str(rest) == "entries 7:3 to 6: no log has it"
    assert rest.entry_count == 4


def test_reports_count_damaged_places_that_are_not_listed(directory):
    """A log of many damaged places has a short report, which has the number of all."""
    bad = record(struct.pack(">qq", 7, 0))
    with write(directory, _0=[bad] * (DAMAGE_MAX + 500)) as logs:
        assert len(logs.damage) == DAMAGE_MAX + 1
        assert str(logs.damage[-1]).startswith("500 records in ")
        (missing,) = logs.read(7, 0, 0, CRC32C).bad_entries
    assert f"0.log is damaged at byte 1024 and {DAMAGE_MAX + 499} places more" in missing.reason


def test_entries_beyond_the_range_asked_for_are_left_alone(directory):
    """Entries beyond the requested range are not read, because recovery may have ended the ledger before them."""
    with write(directory, _0=RECORDS) as logs:
        assert payloads(logs.read(7, 1, 2, CRC32C)) == [b"one", b"two"]
        assert payloads(logs.read(7, 0, -1, CRC32C)) == []
        assert logs.read(7, 0, -1, CRC32C).bad_entries == ()


def test_a_ledger_without_records_reads_as_missing(directory):
    """A ledger without records gives one bad entry for all its entries."""
    with write(directory, _0=RECORDS) as logs:
        (missing,) = logs.read(8, 0, 99, CRC32C).bad_entries

    assert (missing.ledger_id, missing.entry_id, missing.entry_count) == (8, 0, 100)


@pytest.mark.parametrize("digest_type", DigestType)
def test_every_digest_is_verified(directory, digest_type):
    """A ledger is verified with the digest that its metadata names."""
    digest = LedgerDigest((digest_type,), b"secret")
    records = ledger_records(7, PAYLOADS, digest_type=digest_type, password=b"secret")
    with write(directory, _0=records) as logs:
        assert payloads(logs.read(7, 0, 3, digest)) == PAYLOADS


def test_last_add_confirmed_and_what_follows_without_gap(directory):
    """The writer of entry 3 had confirmed entry 2; entry 6 exists, but 5 does not."""
    far = ledger_records(7, [b"four", b"five", b"six"], first=4)
    with write(directory, _0=RECORDS, _1=[far[0]]) as logs:
        assert logs.last_add_confirmed(7, CRC32C) == 3
        assert logs.last_contiguous_entry(7, 2) == 4
    with write(directory, _0=RECORDS, _1=[far[0], far[2]]) as logs:
        assert logs.last_add_confirmed(7, CRC32C) == 5
        assert logs.last_contiguous_entry(7, 2) == 4
        assert logs.last_contiguous_entry(7, 5) == 6
        assert logs.last_contiguous_entry(7, 6) == 6
        assert logs.last_contiguous_entry(99, -1) == -1


def test_damaged_records_confirm_nothing(directory):
    """A flipped byte in the last add confirmed does not make a ledger longer."""
    with write(directory, _0=[*RECORDS[:2], flipped(RECORDS[2], 4 + 17)]) as logs:
        assert logs.last_add_confirmed(7, CRC32C) == 0
        assert logs.last_add_confirmed(8, CRC32C) == -1


def test_digests_of_all_records(directory):
    """There is one verdict per record, in log order."""
    records = [RECORDS[0], flipped(RECORDS[1], 40), *ledger_records(5, [b"x"], digest_type=DigestType.CRC32)]
    with write(directory, _0=records) as logs:
        fits, good = logs.check_digests(lambda _: LedgerDigest())

    assert fits.tolist() == [DigestType.CRC32C, 0, DigestType.CRC32]
    assert good.tolist() == [True, False, True]


def test_gzip_and_plain_logs_read_alike(directory):
    """Gzip and plain logs in one directory read alike."""
    (directory / "0.log.gz").write_bytes(gzip.compress(entry_log(RECORDS[:2])))
    (directory / "1.log").write_bytes(entry_log(RECORDS[2:]))

    with open_entry_logs([directory]) as logs:
        assert payloads(logs.read(7, 0, 3, CRC32C)) == PAYLOADS


def test_gzip_cut_short_keeps_what_is_before_the_cut(directory):
    """A gzip log that is cut at any byte gives the entries before the cut and reports the damage."""
    rng = np.random.default_rng(5)
    packed = gzip.compress(entry_log(ledger_records(7, [rng.bytes(200) for _ in range(20)])))
    for length in range(0, len(packed), 97):
        (directory / "0.log.gz").write_bytes(packed[:length])
        with open_entry_logs([directory]) as logs:
            assert len(logs.records) < 20 or length > len(packed) - 20
            assert logs.truncated or logs.damage


def test_other_files_in_the_directory_are_ignored(directory):
    """Files of a running compaction, which are copies, and lastId are ignored."""
    for name in ("3.log.compacting", "3.log.1.compacted", "lastId", "x.log", "1.log.tmp"):
        (directory / name).write_bytes(b"whatever")
    with write(directory, _0=RECORDS) as logs:
        assert [file.name for file in logs.files] == ["0.log"]


def test_a_bookies_ledger_directory_stands_for_its_current_directory(directory):
    """The ledger directory from a bookie's configuration is read through its current directory."""
    (directory / "current").mkdir()
    (directory / "current" / "0.log").write_bytes(entry_log(RECORDS))

    with open_entry_logs([directory, directory / "current"]) as logs:
        assert [file.name for file in logs.files] == ["0.log"]


def test_a_log_cut_within_its_header_is_an_empty_one(directory):
    """A log that ends within its header, or is empty, has no entries and is not an error."""
    (directory / "0.log").write_bytes(header()[:500])
    (directory / "1.log").write_bytes(b"")
    with write(directory, _2=RECORDS) as logs:
        assert payloads(logs.read(7, 0, 3, CRC32C)) == PAYLOADS
        assert [(file.name, offset) for file, offset in logs.truncated] == [("0.log", 500), ("1.log", 0)]
        assert logs.damage == ()


def test_directories_without_logs_are_refused(directory):
    """A directory without logs is refused by its name."""
    with pytest.raises(InvalidInput, match="give a directory with entry logs"):
        open_entry_logs([directory])
    with pytest.raises(InvalidInput, match="give a directory that exists"):
        open_entry_logs([directory / "nowhere"])
    with pytest.raises(InvalidInput, match="at least one ledger directory"):
        open_entry_logs([])


def test_a_wrong_file_among_the_logs_is_refused_by_name(directory):
    """A wrong file among the logs is refused by its name, and no file stays open (a warning would fail this test)."""
    (directory / "0.log").write_bytes(entry_log(RECORDS))
    (directory / "1.log").write_bytes(b"not a log".ljust(2000))

    with pytest.raises(LedgerFileInvalid, match=r"1\.log does not start with BKLO"):
        open_entry_logs([directory])


def test_progress_counts_bytes_of_files(directory):
    """Progress counts the bytes of files and ends at the total."""
    calls = []
    for name in ("0.log", "1.log"):
        (directory / name).write_bytes(entry_log(RECORDS))
    open_entry_logs([directory], progress=lambda done, total: calls.append((done, total))).close()

    size = len(entry_log(RECORDS))
    assert calls == [(size, 2 * size), (2 * size, 2 * size)]
