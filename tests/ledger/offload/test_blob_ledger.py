"""Tests of ledgers in blobs: ranges through the block index, bytes fetched, and damage."""

import itertools
import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.offload.blob_ledger import BlobLedger
from delayed_tracker.ledger.offload.blob_source import BlobLedgerStore
from delayed_tracker.ledger.offload.blob_store import open_blob_store
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.harness.log_files import flipped, message
from tests.ledger.offload.blob_files import BlobWriter, blocks, index, record, streamed
from tests.ledger.offload.damage import assert_all_told, assert_right_or_bad
from tests.ledger.offload.sequence_files import ledger_metadata

UUID_7 = UUID("2c4a22d4-580e-475d-8292-2a705a9bc71d")
KEY = f"{UUID_7}-ledger-7"
TOPIC = TopicName.parse("persistent://lab/main/orders")
FEW = [message(payload=b"%d" % number * number) for number in range(4)]


def opened(directory, *uuids, ledger_id=7, entry_count=None) -> BlobLedger:
    store = BlobLedgerStore(open_blob_store(str(directory)))
    return store.open(TOPIC, ledger_id, uuids or [UUID_7], entry_count=entry_count)


def rows_of(pieces) -> list[tuple[int, bytes]]:
    return [
        (entry_id, piece.entries.payload(row))
        for piece in pieces
        for row, entry_id in enumerate(piece.entries.entry_id.tolist())
    ]


VARIED = [(b"%07d" % number)[: number * 3 % 8] for number in range(120)]
BLOCK_BYTES = [128 + 21, 174, 200, 1000, 1 << 20]


@pytest.mark.parametrize("block_bytes", BLOCK_BYTES)
def test_any_range_of_a_ledger(tmp_path, block_bytes):
    """Ranges within, across and at the ends of blocks are read with padding of any size, even one to three bytes."""
    writer = BlobWriter(VARIED, block_bytes=block_bytes)
    ledger = opened(writer.save(tmp_path, UUID_7, 7))

    assert (ledger.last_entry_id, ledger.closed, ledger.payload_bytes) == (119, True, sum(map(len, VARIED)))
    for first, last in itertools.combinations_with_replacement([0, 1, 17, 18, 60, 61, 118, 119], 2):
        wanted = list(enumerate(VARIED))[first : last + 1]
        answer = ledger.read(first, last)
        assert rows_of([answer]) == wanted
        assert answer.bad_entries == ()
        assert rows_of(ledger.scan(first, last)) == wanted
    assert len(ledger.read(5, 4).entries) == 0


def test_padding_of_one_to_three_bytes_is_met():
    """The layouts of the test above have padding of one to three bytes."""
    paddings = {
        size - 128 - len(records) for block_bytes in BLOCK_BYTES for _, records, size in blocks(VARIED, block_bytes)
    }
    assert {1, 2, 3} <= paddings


def test_large_entries(tmp_path):
    """Entries larger than one fetch are read between small ones."""
    payloads = [b"a", b"b" * 9_000_000, b"", b"c" * 70_000, b"d"] * 3
    ledger = opened(BlobWriter(payloads, block_bytes=10_000_000).save(tmp_path, UUID_7, 7))

    assert rows_of([ledger.read(11, 13)]) == list(enumerate(payloads))[11:14]
    assert rows_of(ledger.scan(0, 14)) == list(enumerate(payloads))


def test_a_read_fetches_about_one_block_at_most(tmp_path):
    """A read starts at the block in the index and does not fetch scanned bytes again."""
    payloads = [bytes([number % 256]) * 4_000 for number in range(2_800)]
    writer = BlobWriter(payloads, block_bytes=5 << 20)
    ledger = opened(writer.save(tmp_path, UUID_7, 7))
    store, begin = ledger.store, ledger.store.bytes_fetched
    assert len(writer.data) > 11_000_000
    assert begin == len(writer.index)

    ledger.read(2_790, 2_790)
    last_block = len(writer.data) - writer.block_offsets[-1]
    # An entry at the end of a piece is fetched again with the next piece; five pieces are enough.
    assert store.bytes_fetched - begin <= last_block + 5 * 4_012
    begin = store.bytes_fetched
    assert rows_of([ledger.read(2_785, 2_786)]) == [(number, payloads[number]) for number in (2_785, 2_786)]
    around = 16 << 10
    assert store.bytes_fetched - begin == 2 * 4_012 + 2 * around

    begin = store.bytes_fetched
    first_of_block = ledger.blocks[1].first_entry_id
    assert len(ledger.read(first_of_block, first_of_block + 9).entries) == 10
    assert store.bytes_fetched - begin <= 1 << 16


def test_neighbours_are_fetched_together(tmp_path):
    """A search among neighbours fetches all of them in one request, and the next search behind them in another."""
    payloads = [b"%04d" % number * 50 for number in range(4_000)]
    writer = BlobWriter(payloads, block_bytes=1 << 19)
    ledger = opened(writer.save(tmp_path, UUID_7, 7))
    ledger.read(0, 3_999)
    near = (16 << 10) // 212

    for middle in (500, 1_999, 3_500):
        ledger.read(middle, middle)
        requests = ledger.store.requests
        for number in (middle - near, middle + near, middle + 1):
            assert rows_of([ledger.read(number, number)]) == [(number, payloads[number])]
        assert ledger.store.requests == requests
        assert rows_of([ledger.read(middle + near + 1, middle + near + 1)]) == [
            (middle + near + 1, payloads[middle + near + 1])
        ]
        assert ledger.store.requests == requests + 1


def test_a_scan_fetches_each_byte_about_once(tmp_path):
    """A scan fetches each byte about once, in pieces of bounded size within one block."""
    payloads = [b"x" * 300] * 40_000
    writer = BlobWriter(payloads)
    ledger = opened(writer.save(tmp_path, UUID_7, 7))
    begin = ledger.store.bytes_fetched

    pieces = list(ledger.scan(0, 39_999))

    assert max(len(piece.entries.buffer) for piece in pieces) <= 8 << 20
    assert sum(len(piece.entries) for piece in pieces) == 40_000
    assert len(writer.data) <= ledger.store.bytes_fetched - begin <= len(writer.data) + 1_000


@pytest.mark.long
@pytest.mark.parametrize("block_bytes", [260, 10_000])
def test_any_byte_wrong(tmp_path, block_bytes):
    """With any byte of an object changed, an entry is right or an error.

    The format has no checksum. An entry with a wrong byte is returned, and its own CRC32C is wrong.
    """
    writer = BlobWriter(FEW, block_bytes=block_bytes)
    directory = writer.save(tmp_path, UUID_7, 7)
    right = 0
    for name, content in ((KEY, writer.data), (f"{KEY}-index", writer.index)):
        for offset in range(len(content)):
            (directory / name).write_bytes(flipped(content, offset, 1 << offset % 8))
            right += assert_right_or_bad(lambda: opened(directory), FEW, checksums=False)
        (directory / name).write_bytes(content)
    assert right > len(writer.data)


@pytest.mark.long
def test_any_byte_of_streamed_objects_wrong(tmp_path):
    """With any byte of the objects of streaming offload changed, an entry is right or an error."""
    objects = dict(zip((str(UUID_7), f"{UUID_7}-index"), streamed({7: FEW, 8: FEW[:2]}), strict=True))
    for name, content in objects.items():
        (tmp_path / name).write_bytes(content)
    for name, content in objects.items():
        for offset in range(len(content)):
            (tmp_path / name).write_bytes(flipped(content, offset, 1 << offset % 8))
            assert_right_or_bad(lambda: opened(tmp_path), FEW, checksums=False)
        (tmp_path / name).write_bytes(content)


def test_cut_short_at_any_byte(tmp_path):
    """A cut at any byte is detected, because the index contains the length of the data and of itself."""
    writer = BlobWriter(FEW, block_bytes=260)
    directory = writer.save(tmp_path, UUID_7, 7)
    for name, content in ((KEY, writer.data), (f"{KEY}-index", writer.index)):
        for size in range(len(content)):
            (directory / name).write_bytes(content[:size])
            with pytest.raises(LedgerFileInvalid, match=name):
                opened(directory)
        (directory / name).write_bytes(content)
    assert len(opened(directory).read(0, 3).entries) == 4


@given(content=st.binary(max_size=150))
def test_anything_in_a_block(tmp_path_factory, content):
    """With any content, a block gives readable entries or none, and reading ends."""
    directory = tmp_path_factory.mktemp("any")
    writer = BlobWriter(FEW)
    writer.data = writer.data[:128] + content
    writer.data = writer.data[:12] + struct.pack(">q", len(writer.data)) + writer.data[20:]
    writer.index = index([(0, 1, 0)], len(writer.data), ledger_metadata(FEW))
    ledger = opened(writer.save(directory, UUID_7, 7))
    for pieces in (list(ledger.scan(0, 3)), [ledger.read(0, 3)]):
        assert_all_told(pieces, 0, 3)


def test_a_wrong_id_costs_one_entry(tmp_path):
    """A wrong entry id loses one entry, because the sizes are right and reading continues behind it."""
    writer = BlobWriter(FEW)
    writer.data = flipped(writer.data, writer.offsets[2] + 5)
    answer = opened(writer.save(tmp_path, UUID_7, 7)).read(0, 3)
    (bad,) = answer.bad_entries

    assert (bad.ledger_id, bad.entry_id, bad.entry_count, bad.offset) == (7, 2, 1, writer.offsets[2])
    assert bad.file == f"{tmp_path}/{KEY}"
    assert [entry_id for entry_id, _ in rows_of([answer])] == [0, 1, 3]


def test_a_wrong_size_costs_the_rest_of_its_block(tmp_path):
    """A wrong size loses its entry and the entries behind it in the block, but not the next block."""
    payloads = [b"%03d" % number for number in range(40)]
    writer = BlobWriter(payloads, block_bytes=128 + 10 * 15)
    writer.data = flipped(writer.data, writer.offsets[13] + 3, 4)
    answer = opened(writer.save(tmp_path, UUID_7, 7)).read(0, 39)
    (bad,) = answer.bad_entries

    assert (bad.entry_id, bad.entry_count, bad.offset) == (13, 7, writer.offsets[13])
    assert len(answer.entries) == 33


def test_padding_before_the_block_is_full_of_what_the_index_says(tmp_path):
    """Entries that the index lists and the block lacks are bad."""
    payloads = [b"%03d" % number for number in range(20)]
    writer = BlobWriter(payloads, block_bytes=128 + 10 * 15)
    at = writer.offsets[8]
    writer.data = writer.data[:at] + (b"\xfe\xdc\xde\xad" * 8)[:30] + writer.data[at + 30 :]
    answer = opened(writer.save(tmp_path, UUID_7, 7)).read(0, 19)
    (bad,) = answer.bad_entries

    assert (bad.entry_id, bad.entry_count) == (8, 2)
    assert "padding" in bad.reason


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: b"\0" + data[1:], "no block begins here: 00dbabcb"),
        (lambda data: data[:11] + b"\x79" + data[12:], "header length is 121, by the index 128"),
        (lambda data: data[:19] + b"\x79" + data[20:], "block length is"),
        (lambda data: data[:27] + b"\x01" + data[28:], "first entry is 1, by the index 0"),
    ],
)
def test_a_block_that_the_index_does_not_fit(tmp_path, change, says):
    """If a block contradicts the index, all its entries are bad with the difference."""
    writer = BlobWriter(FEW)
    writer.data = change(writer.data)
    (bad,) = opened(writer.save(tmp_path, UUID_7, 7)).read(0, 3).bad_entries

    assert says in bad.reason
    assert (bad.entry_id, bad.entry_count, bad.offset) == (0, 4, 0)


METADATA = ledger_metadata(FEW)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "cut short"),
        (bytes(100), "is no index of offloaded ledgers: it starts with 00000000"),
        (index([(0, 1, 0)], 500, METADATA) + b"\0", "bytes where it says"),
        (index([], 500, METADATA), "no block begins at byte 0"),
        (index([(0, 1, 5)], 500, METADATA), "no block begins at byte 0"),
        (index([(1, 1, 0)], 500, METADATA), "begins with entry 1"),
        (index([(0, 1, 0), (2, 2, 100)], 500, METADATA), "from byte 0 to 100 of the data cannot be"),
        (index([(0, 1, 0), (2, 2, 200), (2, 3, 400)], 600, METADATA), "out of order: entry 2 at byte 400"),
        (index([(0, 1, 200), (2, 2, 0)], 600, METADATA), "out of order: entry 2 at byte 0"),
        (index([(0, 1, 0), (2, 2, 200), (3, 3, 200)], 600, METADATA), "begin at the same byte"),
        (index([(0, 1, 0)], 10, METADATA), "data of 10 bytes"),
        (index([(0, 1, 0)], 500, b"\xff"), "does not parse"),
        (index([(0, 1, 0)], 500, b""), "lacks required fields"),
        (index([(0, 1, 0)], 500, ledger_metadata([])), "only closed ledgers"),
        (
            index([(0, 1, 0)], 500, ledger_metadata([], last_entry_id=2**63 - 1)),
            "claims entry 9223372036854775807, and entry ids end at 4294967295",
        ),
        (index([(0, 1, 0), (9, 2, 200)], 400, METADATA), "begins with entry 9, the ledger ends with entry 3"),
        (index([(0, 1, 0)], 501, METADATA), "has 400 bytes, its index says 501"),
    ],
)
def test_an_index_that_cannot_be(tmp_path, content, says):
    """The error for an invalid index names the object."""
    (tmp_path / KEY).write_bytes(bytes(400))
    (tmp_path / f"{KEY}-index").write_bytes(content)
    with pytest.raises(LedgerFileInvalid, match=says) as error:
        opened(tmp_path)
    assert str(tmp_path) in error.value.message


def test_several_ledgers_in_one_object(tmp_path):
    """Blocks of each ledger are found in an object of streaming offload with several ledgers."""
    ledgers = {7: [b"%d" % number for number in range(50)], 9: [b"x" * number for number in range(80)]}
    data, told = streamed(ledgers)
    (tmp_path / str(UUID_7)).write_bytes(data)
    (tmp_path / f"{UUID_7}-index").write_bytes(told)
    for ledger_id, payloads in ledgers.items():
        ledger = opened(tmp_path, ledger_id=ledger_id)
        assert ledger.last_entry_id == len(payloads) - 1
        assert rows_of(ledger.scan(0, ledger.last_entry_id)) == list(enumerate(payloads))
        assert rows_of([ledger.read(30, 30)]) == [(30, payloads[30])]
    with pytest.raises(LedgerFileInvalid, match="does not have ledger 8"):
        opened(tmp_path, ledger_id=8)


def test_a_ledger_in_several_objects(tmp_path):
    """A ledger of streaming offload is read from several objects, and may be unfinished."""
    payloads = [b"%d" % number for number in range(50)]
    uuids = [UUID(int=number) for number in (5, 3)]
    for uuid, (part, first) in zip(uuids, ((payloads[:20], 0), (payloads[20:], 20)), strict=True):
        data, told = streamed({7: part}, first=first, ended=False)
        (tmp_path / str(uuid)).write_bytes(data)
        (tmp_path / f"{uuid}-index").write_bytes(told)

    for entry_count in (None, 50):
        ledger = opened(tmp_path, *uuids, entry_count=entry_count)
        assert rows_of(ledger.scan(0, ledger.last_entry_id)) == list(enumerate(payloads))
    with pytest.raises(LedgerFileInvalid, match=r"begin with entries \[20, .*0"):
        opened(tmp_path, *reversed(uuids))


def test_records_are_laid_out_as_the_format_says():
    """Records have the layout of the format's worked example with two entries."""
    writer = BlobWriter([b"hello", b"world!"])
    assert len(writer.data) == 163
    assert writer.data[:28].hex() == "fbdbabcb000000000000008000000000000000a30000000000000000"
    assert writer.data[128:] == record(0, b"hello") + record(1, b"world!")
    assert writer.data[128:].hex() == "00000005000000000000000068656c6c6f000000060000000000000001776f726c6421"
