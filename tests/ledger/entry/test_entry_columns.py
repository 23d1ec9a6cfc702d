"""Tests of entries as columns."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger.entry.entry_columns import EntryFlag, EntryVerdict, scan_entries
from delayed_tracker.ledger.entry.frame import encode_entry
from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata
from tests.ledger.harness.log_files import flipped, message

u64 = st.integers(0, 2**64 - 1)


def scan(*payloads: bytes):
    return scan_entries(StoredEntries.of(7, range(len(payloads)), payloads))


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def test_values_count_where_their_flag_is_set():
    """Values of a plain message, a delayed one, a batch and a transaction marker count where their flag is set."""
    columns = scan(
        message(), message(deliver_at_ms=-5, index=41), message(batch=1), message(marker=21, txn=(3, 2**64 - 1))
    )

    assert columns.positions.entry_id.tolist() == [0, 1, 2, 3]
    assert columns.readable.all()
    assert columns.has(EntryFlag.CHECKSUM).all()
    assert columns.has(EntryFlag.DELAYED).tolist() == [False, True, False, False]
    assert columns.deliver_at_ms.tolist() == [0, -5, 0, 0]
    assert columns.has(EntryFlag.INDEX | EntryFlag.BROKER_TIMESTAMP).tolist() == [False, True, False, False]
    assert columns.index.tolist() == [0, 41, 0, 0]
    assert columns.broker_timestamp_ms.tolist() == [0, 1_700_000_000_123, 0, 0]
    assert columns.has(EntryFlag.BATCH).tolist() == [False, False, True, False]
    assert columns.num_messages.tolist() == [1, 1, 1, 1]
    assert columns.has(EntryFlag.MARKER | EntryFlag.TRANSACTION).tolist() == [False, False, False, True]
    assert (columns.txn_id_most[3], columns.txn_id_least[3]) == (3, 2**64 - 1)
    assert columns.publish_time_ms.tolist() == [1_700_000_000_000] * 4


def test_payloads_lie_between_metadata_and_end():
    """The payload lies between metadata and end, and is not copied."""
    columns = scan(message(payload=b"first"), message(payload=b""), message(payload=b"third"))
    stored = columns.stored

    assert [
        stored.buffer[start:end] for start, end in zip(columns.payload_start.tolist(), stored.end.tolist(), strict=True)
    ] == [b"first", b"", b"third"]


def test_unreadable_entries_keep_their_row():
    """An unreadable entry keeps its row, has a verdict, and gives its reason on request."""
    good = message(deliver_at_ms=9)
    columns = scan(good, flipped(good, len(good) - 1), good[:20], b"", good)

    assert columns.verdict.tolist() == [
        EntryVerdict.READABLE,
        EntryVerdict.CHECKSUM_MISMATCH,
        EntryVerdict.FRAME_INVALID,
        EntryVerdict.FRAME_INVALID,
        EntryVerdict.READABLE,
    ]
    assert columns.deliver_at_ms.tolist() == [9, 9, 0, 0, 9]
    reasons = dict(columns.unreadable())
    assert list(reasons) == [1, 2, 3]
    assert reasons[1].startswith("CRC32C of the message is not the stored ")
    assert reasons[2].startswith("cut short: ")


def test_no_entries():
    """An empty ledger has empty columns."""
    columns = scan()

    assert len(columns) == 0
    assert list(columns.unreadable()) == []


def test_chunks_and_encryption_are_flagged():
    """Chunks and encrypted payloads are flagged."""
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_chunks_from_msg=2, chunk_id=0)
    metadata.encryption_keys.add(key="k", value=b"v")
    columns = scan(encode_entry(metadata, b"x"))

    assert columns.has(EntryFlag.CHUNK | EntryFlag.ENCRYPTED).tolist() == [True]


@given(
    st.lists(
        st.fixed_dictionaries(
            {"publish_time": u64},
            optional={
                "deliver_at_time": st.integers(-(2**63), 2**63 - 1),
                "txnid_most_bits": u64,
                "txnid_least_bits": u64,
                "marker_type": st.integers(-(2**31), 2**31 - 1),
                "num_messages_in_batch": st.integers(-(2**31), 2**31 - 1),
                "compression": st.integers(0, 4),
                "uncompressed_size": st.integers(0, 2**32 - 1),
            },
        ),
        max_size=8,
    ),
    st.none() | u64,
)
def test_columns_equal_the_messages(rows, index):
    """For any metadata, the columns equal the message; unsigned values above 2^63 are converted as in Java."""
    broker = None if index is None else BrokerEntryMetadata(index=index)
    messages = [MessageMetadata(producer_name="p", sequence_id=1, **row) for row in rows]
    columns = scan(*(encode_entry(metadata, b"x", broker_metadata=broker) for metadata in messages))

    assert columns.readable.all()
    for row, metadata in enumerate(messages):
        delayed, marker = metadata.HasField("deliver_at_time"), metadata.HasField("marker_type")
        txn = metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits")
        assert columns.publish_time_ms[row] == signed(metadata.publish_time)
        assert columns.has(EntryFlag.DELAYED)[row] == delayed
        assert columns.deliver_at_ms[row] == (metadata.deliver_at_time if delayed else 0)
        assert columns.has(EntryFlag.MARKER)[row] == marker
        assert columns.marker_type[row] == (metadata.marker_type if marker else 0)
        assert columns.has(EntryFlag.TRANSACTION)[row] == txn
        assert columns.txn_id_most[row] == (metadata.txnid_most_bits if txn else 0)
        assert columns.txn_id_least[row] == (metadata.txnid_least_bits if txn else 0)
        assert columns.num_messages[row] == metadata.num_messages_in_batch
        assert columns.compression[row] == metadata.compression
        assert columns.uncompressed_size[row] == metadata.uncompressed_size
        assert columns.index[row] == signed(index or 0)


def test_stored_entries_join_and_select():
    """Stored entries keep their bytes when parts are joined or rows are selected."""
    first = StoredEntries.of(3, [0, 1], [b"a", b"bb"])
    second = StoredEntries.of(4, [5], [b"ccc"])
    joined = StoredEntries.concat([first, second, StoredEntries.concat([])])

    assert [joined.payload(row) for row in range(len(joined))] == [b"a", b"bb", b"ccc"]
    assert list(joined.positions) == [(3, 0), (3, 1), (4, 5)]
    assert joined.payload_bytes == 6
    odd = joined.take(np.array([2, 0]))
    assert [odd.payload(row) for row in range(len(odd))] == [b"ccc", b"a"]
    assert StoredEntries.concat([first]) is first


def test_metadata_lies_between_checksum_and_payload():
    """Metadata lies between checksum and payload, with or without broker frame and checksum."""
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
    stamp = BrokerEntryMetadata(broker_timestamp=1, index=300)
    entries = [
        encode_entry(metadata, b"x" * size, broker_metadata=broker, checksum=checksum)
        for size, (broker, checksum) in enumerate(product((None, stamp, BrokerEntryMetadata()), (True, False)))
    ]
    stored = StoredEntries.of(1, range(len(entries)), entries)
    columns = scan_entries(stored)

    bounds = zip(columns.metadata_start().tolist(), columns.payload_start.tolist(), strict=True)
    assert [MessageMetadata.FromString(stored.buffer[start:end]) for start, end in bounds] == [metadata] * 6
