"""Tests that the kernel reads entries as the protobuf parser does, and decides all entries that real writers write."""

import struct
from collections.abc import Sequence

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger import kernels
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryVerdict, _parse, scan_entries
from delayed_tracker.ledger.entry.frame import encode_entry
from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from delayed_tracker.ledger.source import open_bookie_disk
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers, TopicReader
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata
from tests.golden.pulsar_pack import BOOKIE, METADATA, read_topic
from tests.ledger.harness.log_files import message

REQUIRED = b"\x0a\x01p\x10\x01\x18\x02"


def scan(payloads: Sequence[bytes]) -> EntryColumns:
    return scan_entries(StoredEntries.of(7, range(len(payloads)), payloads))


def decided(stored: StoredEntries) -> list[bool]:
    return kernels.scan_frames(np.frombuffer(stored.buffer, np.uint8), stored.start, stored.end)[0].tolist()


def columns_by_protobuf(stored: StoredEntries) -> list[tuple[int, int, list[int]]]:
    bounds = zip(stored.start.tolist(), stored.end.tolist(), strict=True)
    parsed = [_parse(stored.buffer, start, end) for start, end in bounds]
    return [(int(verdict), int(flags), values) for verdict, flags, values in parsed]


def columns_of_kernel(columns: EntryColumns) -> list[tuple[int, int, list[int]]]:
    values = (
        columns.broker_timestamp_ms,
        columns.index,
        columns.publish_time_ms,
        columns.deliver_at_ms,
        columns.num_messages,
        columns.marker_type,
        columns.txn_id_most.view(np.int64),
        columns.txn_id_least.view(np.int64),
        columns.compression,
        columns.uncompressed_size,
        columns.payload_start,
    )
    return [
        (verdict, flags, [int(column[row]) for column in values])
        for row, (verdict, flags) in enumerate(zip(columns.verdict.tolist(), columns.flags.tolist(), strict=True))
    ]


def assert_equal_protobuf(payloads: Sequence[bytes]) -> None:
    """Compare each payload among others, in front of a good entry and behind one."""
    payloads = [message(index=3), *payloads, message(deliver_at_ms=9)]
    columns = scan(payloads)
    assert columns_of_kernel(columns) == columns_by_protobuf(columns.stored)


def framed(metadata: bytes, payload: bytes, stamp: bytes | None = None, *, checksum: bool = True) -> bytes:
    checked = struct.pack(">I", len(metadata)) + metadata + payload
    entry = b"\x0e\x01" + struct.pack(">I", google_crc32c.value(checked)) + checked if checksum else checked
    return entry if stamp is None else b"\x0e\x02" + struct.pack(">i", len(stamp)) + stamp + entry


def varint(value: int, padding: int = 0) -> bytes:
    """Return a varint of 64 bits with some superfluous octets."""
    octets = [value >> shift & 0x7F for shift in range(0, max(1, value.bit_length()), 7)] + [0] * padding
    return bytes(octet | 0x80 for octet in octets[:-1]) + bytes(octets[-1:])


u64 = st.integers(0, 2**64 - 1)
numbers = (
    st.integers(0, 300)
    | st.sampled_from([2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1])
    | u64
)
varints = st.builds(varint, numbers, st.integers(0, 3)) | st.binary(max_size=12)
texts = st.binary(max_size=4)


def tags(field_numbers: st.SearchStrategy[int], wire_types: st.SearchStrategy[int]) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda number, wire, padding: varint(number << 3 | wire, padding),
        field_numbers,
        wire_types,
        st.sampled_from([0, 0, 0, 1]),
    )


def sized(value: bytes) -> bytes:
    return varint(len(value)) + value


def wire_fields(depth: int, highest: int) -> st.SearchStrategy[bytes]:
    """Generate consecutive fields as a writer of any version, of none, or a broken writer may leave them."""
    numbers_known = st.integers(0, highest)
    inner = texts if not depth else texts | wire_fields(depth - 1, 4)
    field = (
        st.builds(bytes.__add__, tags(numbers_known, st.just(0)), varints)
        | st.builds(bytes.__add__, tags(numbers_known, st.just(2)), inner.map(sized))
        | st.builds(bytes.__add__, tags(numbers_known, st.integers(0, 7)), st.binary(max_size=9))
        | st.builds(lambda number, body: varint(number << 3 | 3) + body + varint(number << 3 | 4), numbers_known, inner)
    )
    return st.lists(field, max_size=6).map(b"".join)


metadatas = st.builds(
    lambda before, after, whole: before + REQUIRED * whole + after,
    wire_fields(2, 36),
    wire_fields(2, 36),
    st.booleans() | st.just(value=True),
)
entries = st.builds(
    framed, metadatas, texts, st.none() | wire_fields(1, 3), checksum=st.booleans() | st.just(value=True)
)


@given(st.lists(entries, max_size=4))
def test_any_fields_read_as_protobuf_reads_them(payloads):
    """Unknown, repeated, cut, overlong, nested or missing fields of any wire type read as in the protobuf parser."""
    assert_equal_protobuf(payloads)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_read_as_protobuf_reads_them(payloads):
    """Any bytes, which are mostly not entries, read as in the protobuf parser."""
    assert_equal_protobuf(payloads)
    assert_equal_protobuf([b"\x0e\x02\0\0\0" + payload for payload in payloads])
    assert_equal_protobuf([b"\0\0\0" + bytes([len(payload)]) + payload for payload in payloads])


@given(entries, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3), st.integers(0, 200))
def test_changed_and_cut_entries_read_as_protobuf_reads_them(entry, changes, length):
    """Entries with changed or missing bytes read as in the protobuf parser."""
    changed = bytearray(entry)
    for at, octet in changes:
        changed[at % len(changed)] = octet
    assert_equal_protobuf([bytes(changed), bytes(changed[:length])])


@pytest.mark.parametrize(
    "oddity",
    [
        pytest.param("fa01020102", id="packed"),
        pytest.param("fa010180", id="packed, cut short"),
        pytest.param("40014007", id="an unknown compression behind a known one"),
        pytest.param("408180808010", id="a compression of more than 32 bits"),
        pytest.param("d80102d80101", id="several chunks, then one"),
        pytest.param("22030a016b", id="a property without a value"),
        pytest.param("9801ffffffffffffffffff7f", id="a varint of more than 64 bits"),
        pytest.param("9801ffffffffffffffffffff01", id="a varint of eleven octets"),
        pytest.param("b00105", id="half a transaction id"),
        pytest.param("a306a406", id="a group"),
        pytest.param("a306", id="a group that is not closed"),
        pytest.param("0001", id="field 0"),
        pytest.param("0a01ff", id="a name that is no UTF-8"),
    ],
)
def test_oddities_read_as_protobuf_reads_them(oddity):
    """Oddities that Hypothesis rarely generates read as in the protobuf parser."""
    assert_equal_protobuf([framed(REQUIRED + bytes.fromhex(oddity), b"payload")])


@pytest.mark.parametrize("superfluous", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("wire_type", [0, 1, 2, 5])
def test_tags_of_any_length_read_as_protobuf_reads_them(wire_type, superfluous):
    """A tag with superfluous octets names the same field, in the broker's metadata and in the message's."""
    value = {0: b"\x01", 1: bytes(8), 2: b"\x01p", 5: bytes(4)}[wire_type]
    fields = [varint(number << 3 | wire_type, superfluous) + value for number in range(37)]
    assert_equal_protobuf([framed(REQUIRED, b"payload", field) for field in fields])
    assert_equal_protobuf([framed(REQUIRED + field, b"payload") for field in fields])
    # Within a property, whose fields are a key and a value.
    inner = [varint(number << 3 | 2, superfluous) + b"\x01p" for number in (1, 2)]
    assert_equal_protobuf([framed(REQUIRED + varint(4 << 3 | 2) + sized(b"".join(inner)), b"payload")])


def test_every_change_of_a_byte_reads_as_protobuf_reads_it():
    """An entry reads as in the protobuf parser with each byte set to each value that has a meaning on the wire."""
    entry = rich_entry()
    meaningful = (0x00, 0x01, 0x02, 0x08, 0x0A, 0x0B, 0x0C, 0x0E, 0x10, 0x12, 0x18, 0x7F, 0x80, 0x81, 0xFF)
    for at in range(len(entry)):
        assert_equal_protobuf([entry[:at] + bytes([octet]) + entry[at + 1 :] for octet in meaningful])
        assert_equal_protobuf([entry[:at]])


def rich_entry() -> bytes:
    metadata = MessageMetadata(
        producer_name="producer",
        sequence_id=2**64 - 1,
        publish_time=1_700_000_000_000,
        partition_key="key",
        compression=4,
        uncompressed_size=2**32 - 1,
        num_messages_in_batch=-3,
        deliver_at_time=-1,
        marker_type=-1,
        txnid_most_bits=2**64 - 1,
        txnid_least_bits=5,
        num_chunks_from_msg=2,
        null_value=True,
        schema_version=b"\x01",
        compacted_batch_indexes=[0, 300],
    )
    metadata.properties.add(key="a", value="b")
    metadata.encryption_keys.add(key="k", value=b"v")
    return encode_entry(
        metadata, b"payload", broker_metadata=BrokerEntryMetadata(broker_timestamp=1_700_000_000_123, index=2**40)
    )


def test_what_writers_write_is_decided_by_the_kernel():
    """The kernel decides all entries that writers write; the fallback would be fifty times slower."""
    whole = framed(REQUIRED + b"\x42\x01x" + b"\xc5\x3e\x01\x02\x03\x04" + b"\xc1\x3e" + bytes(8), b"", b"")
    assert decided(StoredEntries.of(7, range(3), [rich_entry(), whole, message()])) == [True] * 3


def test_all_entries_of_a_real_pulsar_are_decided_and_equal():
    """All entries of a real Pulsar are decided: Java, batches, chunks, encryption, transactions, compaction."""
    with open_bookie_disk([BOOKIE], METADATA) as disk:
        reader = TopicReader(disk.catalogue, disk.logs, OpenLedgers.RECOVERED)
        topics = [topic for topic in disk.topics() if not topic.startswith("persistent://pulsar/system/")]
        stored = StoredEntries.concat(
            [ledger.columns.stored for topic in topics for ledger in read_topic(reader, topic)]
        )

    assert len(stored) >= 6148
    assert all(decided(stored))
    assert columns_of_kernel(scan_entries(stored)) == columns_by_protobuf(stored)


def test_damaged_entries_cost_no_more_than_themselves():
    """A checksum of a damaged entry covers only its own bytes."""
    columns = scan([b"\x0e\x01" + bytes(6)] * 1000 + [b"\x00"] * 1000 + [b""])

    assert (columns.verdict == EntryVerdict.FRAME_INVALID).all()
    _, _, values = kernels.scan_frames(
        np.frombuffer(columns.stored.buffer, np.uint8), columns.stored.start, columns.stored.end
    )
    assert (values[11] == columns.stored.end).all()


def test_rows_taken_in_steps_are_scanned():
    """Columns with strides, which are not contiguous, are scanned."""
    stored = StoredEntries.of(7, range(6), [message(index=row) for row in range(6)])

    assert scan_entries(stored.take(slice(None, None, 2))).index.tolist() == [0, 2, 4]
