"""Tests of ledgers in MapFiles: ranges with and without index, and damage."""

import itertools
import struct
import zlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.offload.local_file import open_local_file
from delayed_tracker.ledger.offload.map_file import MapFileLedger, open_map_file
from delayed_tracker.ledger.offload.map_file_index import open_index
from delayed_tracker.ledger.offload.map_file_source import open_map_files
from delayed_tracker.ledger.offload.recent_rows import RecentRows
from delayed_tracker.ledger.offload.sequence_file import Compression, next_sync
from delayed_tracker.ledger.queries.verify import verify_topics
from tests.ledger.harness.log_files import flipped, message
from tests.ledger.offload.damage import assert_all_told, assert_right_or_bad
from tests.ledger.offload.sequence_files import (
    ESCAPE,
    SYNC,
    MapFileWriter,
    block,
    header,
    ledger_metadata,
    record,
    text,
)

ALL = pytest.mark.parametrize("compression", list(Compression))
PAYLOADS = [message(payload=b"%d" % number * (number % 3)) for number in range(6)]
FEW = PAYLOADS[:4]


def opened(directory) -> MapFileLedger:
    return open_map_file(directory, 7, RecentRows())


def rows_of(pieces) -> list[tuple[int, bytes]]:
    return [
        (entry_id, piece.entries.payload(row))
        for piece in pieces
        for row, entry_id in enumerate(piece.entries.entry_id.tolist())
    ]


@pytest.fixture(scope="module")
def long_ledger():
    return [b"%d" % number * (number % 7) for number in range(700)]


@ALL
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("every", [(7, 128), (300, 128), pytest.param((1, 1), marks=pytest.mark.long), (1000, 10)])
def test_any_range_of_a_ledger(tmp_path, long_ledger, compression, index, every):
    """Ranges around index keys, sync marks and ends equal what was written."""
    writer = MapFileWriter(long_ledger, compression, sync_every=every[0], index_every=every[1])
    if not index:
        writer.index = None
    ledger = opened(writer.save(tmp_path))

    assert (ledger.last_entry_id, ledger.closed, ledger.payload_bytes) == (699, True, sum(map(len, long_ledger)))
    edges = [0, 1, 126, 127, 128, 129, 255, 256, 299, 300, 640, 698, 699]
    for first, last in itertools.combinations_with_replacement(edges, 2):
        wanted = list(enumerate(long_ledger))[first : last + 1]
        answer = ledger.read(first, last)
        assert rows_of([answer]) == wanted
        assert answer.bad_entries == ()
        assert rows_of(ledger.scan(first, last)) == wanted
    assert len(ledger.read(5, 4).entries) == 0


@pytest.mark.slow
@ALL
def test_large_entries(tmp_path, compression):
    """Entries larger than one read are read between small ones."""
    payloads = [b"a", b"b" * 3_000_000, b"", b"c" * 70_000, b"d"] * 8
    ledger = opened(MapFileWriter(payloads, compression).save(tmp_path, checksums=True))

    assert rows_of(ledger.scan(0, 39)) == list(enumerate(payloads))
    assert rows_of([ledger.read(36, 38)]) == list(enumerate(payloads))[36:39]


@pytest.mark.long
@ALL
@pytest.mark.parametrize("checksums", [True, False])
def test_any_byte_wrong(tmp_path, compression, checksums):
    """With any byte of a file changed, an entry is right or an error.

    RECORD and BLOCK have a checksum in each zlib stream, and ``.crc`` covers everything. NONE without ``.crc`` has only
    the CRC32C in the entry.
    """
    writer = MapFileWriter(FEW, compression, sync_every=3)
    directory = writer.save(tmp_path, checksums=checksums)
    guarded = checksums or compression is not Compression.NONE
    right = 0
    for name, content in (("data", writer.data), ("index", writer.index)):
        for offset in range(len(content)):
            (directory / name).write_bytes(flipped(content, offset, 1 << offset % 8))
            right += assert_right_or_bad(lambda: opened(directory), FEW, checksums=guarded)
        (directory / name).write_bytes(content)
    assert right > 0


@pytest.mark.long
@ALL
def test_any_byte_of_the_index_wrong(tmp_path, long_ledger, compression):
    """With any byte of the index changed, reading gives an error, a bad entry, or the right entries."""
    payloads = [message(payload=entry) for entry in long_ledger[:300]]
    writer = MapFileWriter(payloads, compression, sync_every=10)
    directory = writer.save(tmp_path)
    for offset in range(len(writer.index)):
        (directory / "index").write_bytes(flipped(writer.index, offset, 1 << offset % 8))
        assert_right_or_bad(lambda: opened(directory), payloads, checksums=True)


@pytest.mark.long
@ALL
@pytest.mark.parametrize("checksums", [True, False])
def test_cut_short_at_any_byte(tmp_path, compression, checksums):
    """A file that is cut at any byte has the entries before the cut, and those behind it are bad."""
    writer = MapFileWriter(FEW, compression, sync_every=2)
    directory = writer.save(tmp_path, checksums=checksums)
    counts = []
    for size in range(len(writer.data)):
        (directory / "data").write_bytes(writer.data[:size])
        counts.append(assert_right_or_bad(lambda: opened(directory), FEW, checksums=True))
    # With checksums, all of the last chunk is unverified.
    assert checksums or max(counts) == 3
    assert checksums or counts == sorted(counts)


@ALL
def test_the_checksum_file_is_right_for_whole_files(tmp_path, compression):
    """An undamaged file of several chunks has no bad entry."""
    payloads = [message(payload=bytes([number]) * 99) for number in range(100)]
    ledger = opened(MapFileWriter(payloads, compression).save(tmp_path, checksums=True))

    answer = ledger.read(0, 99)

    assert rows_of([answer]) == list(enumerate(payloads))
    assert answer.bad_entries == ()


def test_a_wrong_key_costs_one_entry(tmp_path):
    """A wrong key loses one entry, because the lengths are right and reading continues behind it."""
    writer = MapFileWriter(PAYLOADS, Compression.NONE, sync_every=100)
    writer.data = flipped(writer.data, writer.offsets[3] + 8)
    (bad,) = (answer := opened(writer.save(tmp_path)).read(0, 5)).bad_entries

    assert (bad.ledger_id, bad.entry_id, bad.entry_count, bad.offset) == (7, 3, 1, writer.offsets[3])
    assert bad.file == str(tmp_path / "data")
    assert "where 3 should be" in bad.reason
    assert [entry_id for entry_id, _ in rows_of([answer])] == [0, 1, 2, 4, 5]


@ALL
def test_reading_goes_on_behind_damage(tmp_path, compression):
    """Reading continues at the next sync mark, which starts a new block or follows a few records later."""
    payloads = [message(payload=b"%d" % number) for number in range(300)]
    writer = MapFileWriter(payloads, compression, sync_every=10)
    # Keys -1 to 8 are a block or before the first mark, and so on.
    writer.data = flipped(writer.data, writer.offsets[44] + 3)

    for index in (writer.index, None):
        writer.index = index
        (bad,) = (answer := opened(writer.save(tmp_path)).read(0, 299)).bad_entries
        # A complete zlib stream stays right if the record's size is too large.
        assert bad.entry_id == {Compression.BLOCK: 39, Compression.RECORD: 45, Compression.NONE: 44}[compression]
        assert bad.entry_id + bad.entry_count == 49
        assert len(answer.entries) == 300 - bad.entry_count
        (tmp_path / "index").unlink(missing_ok=True)


def test_records_out_of_order(tmp_path):
    """A repeated record is returned once, and a missing record is bad."""
    writer = MapFileWriter(PAYLOADS, Compression.NONE, sync_every=100)
    first, second = (writer.data[writer.offsets[key] : writer.offsets[key + 1]] for key in (2, 3))
    for rows in (second, first + first, second + first, b""):
        writer.data = writer.data[: writer.offsets[2]] + rows + writer.data[writer.offsets[4] :]
        answer = opened(writer.save(tmp_path)).read(0, 5)
        assert_all_told([answer], 0, 5)
        assert answer.bad_entries
        assert all(PAYLOADS[entry_id] == payload for entry_id, payload in rows_of([answer]))
        writer = MapFileWriter(PAYLOADS, Compression.NONE, sync_every=100)


def test_a_block_that_lacks_a_key(tmp_path):
    """A block that lacks a key is bad, because keys within and across blocks are consecutive."""
    values = [b"\0\0\0\1x"] * 4
    writer = MapFileWriter(PAYLOADS, Compression.BLOCK, sync_every=1)
    begin = writer.data[: writer.offsets[0]]
    for keys in ((0, 1, 3, 4), (0, 2, 1, 3), (1, 2, 3, 4)):
        (tmp_path / "data").write_bytes(begin + block(keys, values))
        answer = opened(tmp_path).read(0, 5)
        assert_all_told([answer], 0, 5)
        assert len(answer.entries) == (4 if keys[0] == 1 else 0)
        assert (
            "in the block" in answer.bad_entries[0].reason or "follows where 0 should" in answer.bad_entries[0].reason
        )


@pytest.mark.parametrize("value", [b"\0\0\0\2x", b"\0\0\0", b""])
def test_a_value_that_does_not_begin_with_its_length(tmp_path, value):
    """A value that does not begin with its length makes its record or block bad, even in a complete zlib stream."""
    writer = MapFileWriter(PAYLOADS, Compression.BLOCK, sync_every=1)
    data = writer.data[: writer.offsets[2]] + block([2], [value]) + writer.data[writer.offsets[3] :]
    (tmp_path / "block").mkdir()
    (tmp_path / "block" / "data").write_bytes(data)
    writer = MapFileWriter(PAYLOADS, Compression.RECORD)
    wrong = zlib.compress(value)
    made = struct.pack(">iiq", 8 + len(wrong), 8, 2) + wrong
    (tmp_path / "record").mkdir()
    (tmp_path / "record" / "data").write_bytes(
        writer.data[: writer.offsets[2]] + made + writer.data[writer.offsets[3] :]
    )
    for name in ("block", "record"):
        answer = opened(tmp_path / name).read(0, 5)
        assert [(bad.entry_id, bad.entry_count) for bad in answer.bad_entries] == [(2, 1)]
        assert "does not begin with its length" in answer.bad_entries[0].reason
        assert len(answer.entries) == 5


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is no SequenceFile"),
        (b"PAR1" + bytes(100), "is no SequenceFile"),
        (b"SEQ", "is cut short at byte 3, in the version"),
        (header(Compression.NONE, version=5), "version 5"),
        (header(Compression.NONE, key_class="org.apache.hadoop.io.Text"), "key class 'org.apache.hadoop.io.Text'"),
        (header(Compression.NONE, value_class="a.b.C"), "value class 'a.b.C'"),
        (header(Compression.BLOCK, codec="org.apache.hadoop.io.compress.Lz4Codec"), "Lz4Codec"),
        (b"SEQ\6" + text("x" * 9)[:5], "cut short at byte 9, in the key class"),
        (b"SEQ\6\x80\0\0", "no readable length"),
        (header(Compression.NONE)[:-20] + b"\xff" * 4 + SYNC, "claims -1 metadata pairs"),
        (header(Compression.NONE), "the record of key -1, is not there"),
        (header(Compression.NONE) + record(-1, b"\xff"), "does not parse"),
        (header(Compression.NONE) + record(-1, b""), "lacks required fields"),
        (header(Compression.NONE) + record(0, b"x"), "the ledger's metadata"),
        (
            header(Compression.NONE) + record(-1, ledger_metadata([], last_entry_id=2**63 - 2)),
            "claims entry 9223372036854775806, and entry ids end at 4294967295",
        ),
    ],
)
def test_no_map_file_of_a_ledger(tmp_path, content, says):
    """The error for a file that is not a ledger's MapFile names the file and the problem."""
    (tmp_path / "data").write_bytes(content)
    with pytest.raises(LedgerFileInvalid, match=says) as error:
        opened(tmp_path)
    assert str(tmp_path / "data") in error.value.message


@ALL
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_that_becomes_shorter(tmp_path, compression, share, long_ledger):
    """The error for a file that was cut while it was open names the file and both sizes; no read waits for its bytes."""
    writer = MapFileWriter(long_ledger, compression)
    writer.index = None
    ledger = opened(writer.save(tmp_path))
    data = tmp_path / "data"
    size = int(share * len(writer.data))
    with data.open("r+b") as file:
        file.truncate(size)
    with pytest.raises(
        LedgerFileInvalid, match=f"data ends at byte {size} and had {len(writer.data)} bytes when it was opened"
    ):
        list(ledger.scan(0, 699))


def test_a_search_in_a_file_that_becomes_shorter(tmp_path):
    """A search for the next sync mark ends where the file does."""
    path = tmp_path / "data"
    path.write_bytes(bytes(100_000))
    file = open_local_file(path)
    path.write_bytes(bytes(50_000))
    with pytest.raises(LedgerFileInvalid, match="ends at byte 50000 and had 100000 bytes"):
        next_sync(file, ESCAPE + SYNC, 0)


def test_a_directory_without_data(tmp_path):
    """The error for a directory without data names the missing file."""
    with pytest.raises(LedgerFileInvalid, match="data does not exist"):
        opened(tmp_path)


def test_metadata_in_the_header_is_passed_over(tmp_path):
    """Pairs of texts that Hadoop lets writers store in the header are skipped."""
    writer = MapFileWriter(PAYLOADS, Compression.NONE)
    plain = header(Compression.NONE)
    (tmp_path / "data").write_bytes(
        header(Compression.NONE, metadata=[("écrit", "par" * 50)]) + writer.data[len(plain) :]
    )
    assert rows_of(opened(tmp_path).scan(0, 5)) == list(enumerate(PAYLOADS))


@pytest.mark.parametrize("content", [b"", b"crc\0\0\0\2", b"abc\0\0\0\2\0", b"crc\0\0\0\0\0", b"crc\0\0\0\2\0abc"])
def test_a_wrong_checksum_file(tmp_path, content):
    """The error for a wrong checksum file tells how to read without it."""
    directory = MapFileWriter(PAYLOADS, Compression.NONE).save(tmp_path, checksums=True)
    (directory / ".data.crc").write_bytes(content)
    with pytest.raises(LedgerFileInvalid, match=r"\.data\.crc is no checksum file.*remove it to read data without"):
        opened(directory)


@ALL
def test_a_checksum_that_does_not_fit(tmp_path, compression):
    """A wrong checksum makes only the entries of its chunk bad, with the place of the record or block."""
    payloads = [message(payload=bytes(range(number, number + 99))) for number in range(100)]
    writer = MapFileWriter(payloads, compression, sync_every=5)
    directory = writer.save(tmp_path, checksums=True)
    sums = (directory / ".data.crc").read_bytes()
    (directory / ".data.crc").write_bytes(flipped(sums, 8 + 4 * 4))

    answer = opened(directory).read(0, 99)

    lost = [key for key in range(100) if writer.offsets[key] < 5 * 512 and writer.offsets[key] > 4 * 512]
    assert set(lost) <= {
        entry_id for bad in answer.bad_entries for entry_id in range(bad.entry_id, bad.entry_id + bad.entry_count)
    }
    assert_all_told([answer], 0, 99)
    assert len(answer.entries) >= 80
    assert all("checksum of byte 2048 on does not fit" in bad.reason for bad in answer.bad_entries)


def test_an_index_that_is_none(tmp_path):
    """The error for an invalid index names it and says that it may be deleted, and reading then succeeds."""
    payloads = [b"%d" % number for number in range(300)]
    writer = MapFileWriter(payloads, Compression.NONE)
    for index in (
        writer.data,
        b"",
        header(Compression.BLOCK, value_class="org.apache.hadoop.io.LongWritable"),
        header(Compression.BLOCK, value_class="org.apache.hadoop.io.LongWritable") + block([], []),
        MapFileWriter(payloads * 9, Compression.NONE).index,
        writer.index[:-1],
    ):
        writer.index = index
        ledger = opened(writer.save(tmp_path))
        with pytest.raises(LedgerFileInvalid, match="index"):
            ledger.read(200, 200)
    (tmp_path / "index").unlink()
    assert opened(tmp_path).read(200, 200).entries.payload(0) == b"200"


@pytest.mark.parametrize("checksums", [True, False])
def test_any_byte_of_the_index_is_verified(tmp_path, checksums):
    """Any changed byte of the index is detected, except unused bits at the end of a stream without a checksum file."""
    writer = MapFileWriter([b"%d" % number for number in range(300)], Compression.NONE)
    ledger = opened(writer.save(tmp_path, checksums=checksums))
    places = open_index(ledger.file, ledger.header, 299).offsets.tolist()
    assert ledger.index_damage() is None
    for offset in range(len(writer.index)):
        (tmp_path / "index").write_bytes(flipped(writer.index, offset, 1 << offset % 8))
        damage = ledger.index_damage()
        if damage is None:
            assert not checksums
            assert open_index(ledger.file, ledger.header, 299).offsets.tolist() == places
        else:
            assert str(damage).startswith(f"ledger 7: {tmp_path / 'index'}")


def test_a_damaged_index_is_no_damage_of_entries(tmp_path):
    """A damaged index is listed beside the entries, which are all right, until it is deleted."""
    directory = tmp_path / "lab/main/persistent/orders" / f"7-{UUID(int=7)}"
    writer = MapFileWriter(PAYLOADS, Compression.NONE)
    writer.save(directory, checksums=True)
    with open_map_files(tmp_path) as source:
        assert [verdict.sound for verdict in verify_topics(source, source.topics())] == [True]
        (directory / "index").write_bytes(flipped(writer.index, -1))
        (verdict,) = verify_topics(source, source.topics())
        assert (verdict.sound, verdict.problem, verdict.bad_count) == (False, None, 0)
        assert verdict.bad_entries == (opened(directory).index_damage(),)
        (directory / "index").unlink()
        assert [verdict.sound for verdict in verify_topics(source, source.topics())] == [True]


@pytest.mark.parametrize("offset", [0, 9, 8 + 4 - 1])
def test_the_checksums_of_the_index_are_verified(tmp_path, offset):
    """The checksums of the index are verified, and a missing checksum is an error."""
    writer = MapFileWriter([message(payload=b"a")], Compression.RECORD)
    directory = writer.save(tmp_path, checksums=True)
    assert opened(directory).index_damage() is None
    sums = (directory / ".index.crc").read_bytes()
    (directory / ".index.crc").write_bytes(flipped(sums, offset))
    assert "index" in str(opened(directory).index_damage())


@given(content=st.binary(max_size=200), compression=st.sampled_from(Compression))
def test_anything_behind_the_header(tmp_path_factory, content, compression):
    """Any bytes behind the ledger's metadata give readable entries or none, and reading ends."""
    writer = MapFileWriter(PAYLOADS, compression, sync_every=1)
    directory = tmp_path_factory.mktemp("any")
    (directory / "data").write_bytes(writer.data[: writer.offsets[0]] + content)

    assert_all_told(list(opened(directory).scan(0, 5)), 0, 5)
