"""Tests of the records of one entry log: whole, damaged or cut short."""

import struct
from pathlib import Path

import numpy as np
import pytest

from delayed_tracker.bookkeeper.wire.digest import encode_body
from delayed_tracker.ledger.bookkeeper.entry_log import DAMAGE_MAX, LogDamage, LogRecords, log_pieces, scan_log
from delayed_tracker.ledger.bookkeeper.entry_logs import RecordColumns
from delayed_tracker.ledger.errors import LedgerFileInvalid
from tests.ledger.harness.log_files import (
    direct_header,
    entry_log,
    flipped,
    header,
    ledger_records,
    ledgers_map,
    record,
)

PAYLOADS = [b"first", b"", b"third" * 50]
RECORDS = ledger_records(7, PAYLOADS)
SAMPLE_LOG = Path(__file__).parents[3] / "tracker" / "delayed_tracker" / "cli" / "sample" / "bookie" / "0.log"


def positions(log: bytes) -> list[tuple[int, int]]:
    columns = columns_of(scan_log(log, "0.log"))
    return list(zip(columns.ledger_id.tolist(), columns.entry_id.tolist(), strict=True))


def columns_of(records: LogRecords) -> RecordColumns:
    return RecordColumns(np.zeros(len(records), np.int32), *np.concatenate(records.tables, axis=1))


def test_records_are_found_in_file_order():
    """Records of several ledgers are mixed in a log, and the columns keep the order of the file."""
    others = ledger_records(3, [b"x", b"y"])
    records = scan_log(entry_log([RECORDS[0], others[0], RECORDS[1], others[1], RECORDS[2]]), "0.log")

    columns = columns_of(records)
    assert list(zip(columns.ledger_id.tolist(), columns.entry_id.tolist(), strict=True)) == [
        (7, 0), (3, 0), (7, 1), (3, 1), (7, 2),
    ]  # fmt: skip
    assert columns.offset.tolist()[:2] == [1024, 1024 + len(RECORDS[0])]
    assert columns.body_size.tolist()[0] == 32 + 4 + 5
    assert columns.last_add_confirmed.tolist() == [-1, -1, 0, 0, 1]
    assert columns.length.tolist() == [5, 1, 5, 2, 255]
    assert records.damage == ()
    assert records.truncated_at is None


def test_worked_example_of_a_record_and_of_the_ledgers_map():
    """Worked example J has the size field in front of a body, and a map of one ledger."""
    body = encode_body(77, 0, b"hello", last_add_confirmed=-1, length=5)

    assert record(body).hex().startswith("00000029000000000000004d")
    assert ledgers_map({77: 45}).hex() == (
        "00000024fffffffffffffffffffffffffffffffe00000001000000000000004d000000000000002d"
    )
    assert positions(entry_log([record(body), ledgers_map({77: 45})])) == [(77, 0)]


def test_log_without_records():
    """A log without records is valid and gives no entries."""
    assert positions(header()) == []
    assert scan_log(header(), "0.log").truncated_at is None


def test_ledgers_map_is_no_entry():
    """The ledgers map, in one record or several and possibly empty, is not read as an entry."""
    maps = [ledgers_map({7: 100, 3: 50}), ledgers_map({9: 1}), ledgers_map({})]
    log = header(map_offset=1024 + sum(map(len, RECORDS)), ledger_count=3) + b"".join(RECORDS + maps)

    assert positions(log) == [(7, 0), (7, 1), (7, 2)]
    assert scan_log(log, "0.log").damage == ()


@pytest.mark.parametrize("padding", [1, 2, 3, 4, 5, 1000])
@pytest.mark.parametrize("size", [0, 150, 300, 5_000, 70_000])
def test_zeros_between_and_behind_records_are_padding(padding, size):
    """Zeros are crossed, and the records behind them are found at every alignment and of every size."""
    first, second = ledger_records(7, [b"first", b"x" * size])
    log = entry_log([first, bytes(padding), second, bytes(padding)])

    assert positions(log) == [(7, 0), (7, 1)]
    assert scan_log(log, "0.log").truncated_at is None


def test_negative_sizes_are_padding():
    """Padding bytes of 0xf0 are crossed one by one."""
    assert positions(entry_log([RECORDS[0], b"\xf0" * 9, RECORDS[1]])) == [(7, 0), (7, 1)]


def test_logs_written_past_the_page_cache():
    """A log written past the page cache has a longer header, pads to 4096 with negative sizes, and ends in zeros."""
    first = direct_header() + RECORDS[0]
    log = first.ljust(8192, b"\xf0") + RECORDS[1] + RECORDS[2]

    assert positions(log) == [(7, 0), (7, 1), (7, 2)]
    assert positions(log.ljust(16384, b"\0")) == [(7, 0), (7, 1), (7, 2)]
    assert scan_log(log.ljust(16384, b"\0"), "0.log").truncated_at is None


def test_cut_short_at_every_byte():
    """The records before a cut are read, and the cut is reported at the start of the record that was cut."""
    log = entry_log(RECORDS)
    ends = [1024]
    for whole in RECORDS:
        ends.append(ends[-1] + len(whole))

    for length in range(len(log)):
        records = scan_log(log[:length], "0.log")
        whole_count = sum(length >= end for end in ends[1:])
        assert len(records) == whole_count
        assert records.damage == ()
        if length < 1024:
            assert records.truncated_at == length
        elif length in ends:
            assert records.truncated_at is None
        elif any(log[ends[whole_count] : length]):
            assert records.truncated_at == ends[whole_count]


def test_a_finished_log_cut_short_is_damaged():
    """A log that has its map was not cut by a crash, so the cut is reported as damage."""
    log = header(map_offset=2000, ledger_count=1) + b"".join(RECORDS)

    records = scan_log(log[:-1], "0.log")

    assert [place.offset for place in records.damage] == [records.truncated_at]
    assert "cut short" in records.damage[0].reason


@pytest.mark.parametrize("size", [1, 7, 15])
def test_impossible_record_size_ends_the_log(size):
    """A record this small is impossible, and without a likely record behind it the rest of the log is not read."""
    records = scan_log(entry_log([RECORDS[0], struct.pack(">i", size), b"\1" * 40]), "0.log")

    assert len(records) == 1
    assert [(place.offset, place.ledger_id) for place in records.damage] == [(1024 + len(RECORDS[0]), None)]


@pytest.mark.parametrize("size", [1, 7, 15])
def test_what_lies_behind_an_impossible_size_is_found(size):
    """A record behind an impossible size is found."""
    begin = 1024 + len(RECORDS[0])
    records = scan_log(entry_log([RECORDS[0], struct.pack(">i", size), bytes(40), RECORDS[1]]), "0.log")

    assert columns_of(records).entry_id.tolist() == [0, 1]
    reason = f"a record cannot have {size} bytes; reading goes on at byte {begin + 44}"
    assert [(place.offset, place.reason) for place in records.damage] == [(begin, reason)]


@pytest.mark.parametrize("size", [0x41414141, 0x00414141, 2**31 - 1])
@pytest.mark.parametrize("behind", [1, 2, 9])
@pytest.mark.parametrize("ending", [b"", ledgers_map({}), ledgers_map({7: 1}), bytes(9), bytes(4000)])
def test_records_behind_an_impossible_size_are_found(size, behind, ending):
    """An impossible size with records behind it is damage and not a cut, even if few records follow."""
    others = ledger_records(3, [b"x", b"", b"y" * 999] * 3)
    bad = struct.pack(">i", size) + RECORDS[1][4:]
    records = scan_log(entry_log([RECORDS[0], bad, *others[:behind], ending]), "0.log")

    assert columns_of(records).ledger_id.tolist() == [7] + [3] * behind
    assert [place.offset for place in records.damage] == [1024 + len(RECORDS[0])]
    assert records.truncated_at is None
    assert f"a record cannot have {size} bytes" in records.damage[0].reason


def test_a_damaged_size_in_front_of_the_ledgers_map_is_no_cut():
    """A damaged size before the ledgers map is damage, because a finished log is whole up to its map."""
    bad = struct.pack(">i", 0x41414141) + RECORDS[0][4:]
    log = header(map_offset=1024 + len(bad), ledger_count=1) + bad + ledgers_map({7: 50})
    records = scan_log(log, "0.log")

    assert [place.offset for place in records.damage] == [1024]
    assert records.truncated_at is None


@pytest.mark.parametrize("filler", [b"A", b"\xff", b"\x7f", b"\x01"])
@pytest.mark.parametrize("position", [100_000, 100_040, 1024, 100_035])
def test_damage_in_the_middle_of_a_real_log_loses_no_more_than_what_lies_near(filler, position):
    """Damage loses only a few of 2257 records, and all others are found at their offsets."""
    log = SAMPLE_LOG.read_bytes()
    hit = log[:position] + filler * 50 + log[position + 50 :]
    whole, found = scan_log(log, "0.log"), scan_log(hit, "0.log")

    there = set(columns_of(whole).offset.tolist())
    assert len(there - set(columns_of(found).offset.tolist())) <= 3
    assert found.truncated_at is None


def test_two_stretches_of_damage_are_told_apart():
    """Each of two damaged stretches is reported with its own start."""
    bad = struct.pack(">i", 0x41414141) + RECORDS[1][4:]
    others = ledger_records(3, [b"x", b"y"])
    records = scan_log(entry_log([bad, *others, bad, *others]), "0.log")

    assert columns_of(records).ledger_id.tolist() == [3] * 4
    assert [place.offset for place in records.damage] == [1024, 1024 + len(bad) + sum(map(len, others))]


@pytest.mark.parametrize("payload", [b"\0" * 9000, bytes(range(256)) * 40, struct.pack(">999q", *range(999))])
def test_a_long_record_that_is_cut_is_a_cut(payload):
    """A long record that is cut is a cut for any payload, because a likely record must be followed by another one."""
    log = entry_log([*RECORDS, *ledger_records(9, [payload])])
    for length in range(len(log) - len(payload), len(log), 97):
        records = scan_log(log[:length], "0.log")
        assert (len(records), records.damage, records.truncated_at) == (3, (), 1024 + sum(map(len, RECORDS)))


@pytest.mark.timeout(60)
def test_damage_all_over_costs_one_look_at_each_byte():
    """A log that is damaged everywhere is scanned once; scanning the rest again from each byte would take days."""
    log = header() + b"\0\0\1\1\0\0\0\0\0\0\0\7" * 1_000_000
    assert scan_log(log, "0.log").damage


@pytest.mark.parametrize("more", [0, 1, 3])
def test_damage_above_its_bound_is_counted(more):
    """A log lists its first 1,000 damaged places, and says of the others how many they are and where the last is."""
    bad = record(struct.pack(">qq", 7, 5))
    log = entry_log([bad * (DAMAGE_MAX + more), RECORDS[0]])
    records = scan_log(log, "0.log")

    assert len(records) == 1
    first_more = 1024 + DAMAGE_MAX * len(bad)
    listed = [place.offset for place in records.damage[:DAMAGE_MAX]]
    assert listed == list(range(1024, first_more, len(bad)))
    last = first_more + (more - 1) * len(bad)
    reason = f"{more} more places are damaged, the last at byte {last}: a record of 16 bytes for 7:5 is no entry"
    assert records.damage[DAMAGE_MAX:] == ((LogDamage(first_more, None, None, reason, more),) if more else ())


def test_a_cut_is_told_behind_any_number_of_damaged_records():
    """That a finished log is cut short is not among the damage that is only counted."""
    log = header(map_offset=1, ledger_count=1) + record(struct.pack(">qq", 7, 5)) * (DAMAGE_MAX + 2) + RECORDS[0][:-1]
    assert "cut short" in scan_log(log, "0.log").damage[-1].reason


@pytest.mark.parametrize("between", [bytes(5), record(struct.pack(">qq", 7, 5)), b"\xf0" * 3])
def test_records_with_something_between_them_share_pieces(between):
    """Padding and damage between records make no more pieces; those have at most 32,768 records and 4 MB."""
    log = entry_log([*RECORDS[:2], between] * 20_000)
    *pieces, last = log_pieces(log, "0.log")
    assert [len(piece) for piece in pieces] == [32_768, 40_000 - 32_768]
    assert (len(last), len(last.damage)) == (0, DAMAGE_MAX + 1 if b"\x07" in between else 0)

    large = ledger_records(7, [bytes(1_500_000)])
    pieces = list(log_pieces(entry_log([*large, between] * 5), "0.log"))
    assert [len(piece) for piece in pieces] == [2, 2, 1, 0]
    assert all(piece.end - piece.offset[0] <= 4 << 20 for piece in pieces[:-1])


@pytest.mark.timeout(30)
def test_each_search_for_a_record_looks_at_what_is_near():
    """Many damaged records between others cost little each, whatever the zeros at the end; a look at all took minutes."""
    bad = struct.pack(">i", 0x41414141) + b"\xff" * 40
    log = entry_log([bad, *ledger_records(3, [b"x", b"y"])] * 10_000 + [bytes(1 << 24)])
    assert len(scan_log(log, "0.log")) == 20_000


@pytest.mark.parametrize(("ledger_id", "entry_id"), [(-5, 0), (7, -1), (7, -0x1000)])
def test_records_of_impossible_positions_are_damage(ledger_id, entry_id):
    """A special entry of the journal is damage in a log, and the records behind it are read."""
    bad = record(struct.pack(">qqqq", ledger_id, entry_id, -1, 0))
    records = scan_log(entry_log([bad, RECORDS[0]]), "0.log")

    assert len(records) == 1
    assert [(place.offset, place.ledger_id, place.entry_id) for place in records.damage] == [
        (1024, ledger_id, entry_id)
    ]


def test_records_too_short_for_an_entry_are_damage():
    """A record of 16 to 32 bytes has ids but no digest, and is damage."""
    records = scan_log(entry_log([record(struct.pack(">qqi", 7, 0, 1)), RECORDS[1]]), "0.log")

    assert columns_of(records).entry_id.tolist() == [1]
    assert [(place.ledger_id, place.entry_id) for place in records.damage] == [(7, 0)]


@pytest.mark.parametrize("start", [b"BKLX", b"\x1f\x8b\x08\x00", b"PK", b"X"])
def test_other_files_are_refused(start):
    """A file of another kind is refused with its name and its first bytes."""
    with pytest.raises(LedgerFileInvalid, match=r"7\.log does not start with BKLO"):
        scan_log(start.ljust(2000, b"\0"), "7.log")


@pytest.mark.parametrize("version", [2, -1, 99])
def test_newer_versions_are_refused(version):
    """A newer version is refused with its number and the known versions."""
    with pytest.raises(LedgerFileInvalid, match=f"version {version}; this program reads versions 0 to 1"):
        scan_log(header(version=version), "0.log")


def test_version_0_has_no_map_but_the_same_records():
    """Version 0 of the format has no map, but the same records."""
    assert positions(header(version=0) + RECORDS[0]) == [(7, 0)]


def test_any_flipped_byte_leaves_a_scan_that_ends():
    """A scan with any byte flipped returns or refuses the file; it never hangs or crashes."""
    log = entry_log([*RECORDS, ledgers_map({7: 300})])

    for offset in range(len(log)):
        for mask in (0x01, 0x80):
            try:
                records = scan_log(flipped(log, offset, mask), "0.log")
            except LedgerFileInvalid:
                assert offset < 8  # Only magic and version may refuse the file.
            else:
                assert len(records) <= len(RECORDS)
