"""Golden tests of records, frames, checksums and metadata, which equal the reading of Pulsar's own classes."""

import time
from collections import defaultdict
from dataclasses import fields

import numpy as np
import pytest
from numba import config

from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.ledger.compression import Codec
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag, scan_entries
from delayed_tracker.ledger.entry.frame import encode_entry, parse_broker_metadata, parse_message_metadata, split_frame
from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from delayed_tracker.ledger.source import open_bookie_disk
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers, TopicReader
from tests.golden.entry_rows import entry_row
from tests.golden.pulsar_pack import BOOKIE, METADATA, expected, read_topic


def test_every_record_of_every_log(disk):
    """Every record has offset, ids, size, last add confirmed, length and digest of BookKeeper's scanner, in order."""
    fits, good = disk.logs.check_digests(lambda ledger_id: LedgerDigest.of(disk.catalogue.ledger(ledger_id)))
    records = disk.logs.records
    logs = [int(file.name.split(".")[0], 16) for file in disk.logs.files]
    known = {ledger_id: disk.catalogue.ledger(ledger_id) is not None for ledger_id in disk.logs.ledger_ids().tolist()}
    ours = [
        {
            "log": logs[file_no],
            "record_offset": offset,
            "ledger": ledger_id,
            "entry": entry_id,
            "size": size,
            "lac": lac,
            "cumulative_length": length,
            "digest_ok": digest_ok,
            "digest": DigestType(digest_type).name,
            "ledger_known": known[ledger_id],
        }
        for file_no, offset, ledger_id, entry_id, size, lac, length, digest_ok, digest_type in zip(
            records.file_no.tolist(),
            records.offset.tolist(),
            records.ledger_id.tolist(),
            records.entry_id.tolist(),
            records.body_size.tolist(),
            records.last_add_confirmed.tolist(),
            records.length.tolist(),
            good.tolist(),
            fits.tolist(),
            strict=True,
        )
    ]

    assert ours == list(expected("entry_log_records"))
    assert disk.logs.damage == ()
    assert disk.logs.truncated == ()


def test_every_topic_entry(reader):
    """All 6,148 entries have Pulsar's frame, checksum verdict, metadata fields and payload."""
    by_topic = defaultdict(list)
    for row in expected("entries"):
        by_topic[row["topic"]].append(row)

    compared = 0
    for topic, rows in by_topic.items():
        wanted = {(row["ledger"], row["entry"]): row for row in rows}
        for ledger in read_topic(reader, topic):
            stored = ledger.columns.stored
            for row, position in enumerate(stored.positions):
                entry = stored.payload(row)
                ours = {
                    "topic": topic,
                    "ledger": position.ledger_id,
                    "entry": position.entry_id,
                    **entry_row(entry),
                }
                assert bool(ledger.columns.readable[row]) == ours["crc_ok"]
                assert ours == wanted.pop(position), position
                compared += 1
        assert not wanted, topic

    assert compared == 6148


def test_every_column(reader):
    """The columns equal the values of Pulsar's classes."""

    def column(rows, name):
        return [row[name] or 0 for row in rows]

    wanted = {(row["ledger"], row["entry"]): row for row in expected("entries")}
    for topic in sorted({row["topic"] for row in wanted.values()}):
        for ledger in read_topic(reader, topic):
            columns = ledger.columns
            rows = [wanted[position] for position in columns.positions]
            assert columns.deliver_at_ms.tolist() == column(rows, "deliver_at")
            assert columns.has(EntryFlag.DELAYED).tolist() == [row["deliver_at"] is not None for row in rows]
            assert columns.index.tolist() == column(rows, "index")
            assert columns.has(EntryFlag.INDEX).tolist() == [row["index"] is not None for row in rows]
            assert columns.broker_timestamp_ms.tolist() == column(rows, "broker_timestamp")
            assert columns.has(EntryFlag.BROKER_FRAME).tolist() == [row["has_frame"] for row in rows]
            assert columns.publish_time_ms.tolist() == column(rows, "publish_time")
            assert columns.marker_type.tolist() == column(rows, "marker_type")
            assert columns.has(EntryFlag.MARKER).tolist() == [row["marker_type"] is not None for row in rows]
            assert columns.txn_id_most.view(np.int64).tolist() == column(rows, "txn_most")
            assert columns.txn_id_least.view(np.int64).tolist() == column(rows, "txn_least")
            assert columns.num_messages.tolist() == [row["num_messages_in_batch"] or 1 for row in rows]
            assert columns.has(EntryFlag.ENCRYPTED).tolist() == [row["encrypted"] for row in rows]
            assert columns.has(EntryFlag.CHUNK).tolist() == [(row["num_chunks"] or 0) > 1 for row in rows]
            assert columns.has(EntryFlag.TRANSACTION).tolist() == [row["txn_most"] is not None for row in rows]
            assert columns.compression.tolist() == [Codec[row["compression"] or "NONE"] for row in rows]
            assert columns.uncompressed_size.tolist() == column(rows, "uncompressed_size")
            payload_bytes = columns.stored.end - columns.payload_start
            assert payload_bytes.tolist() == column(rows, "body_length")


def test_every_entry_is_encoded_as_pulsar_did(reader):
    """Encoding what was read gives the same bytes, so every metadata field is known and in its place."""
    for topic in sorted({row["topic"] for row in expected("entries")}):
        for ledger in read_topic(reader, topic):
            stored = ledger.columns.stored
            for row in range(len(stored)):
                entry = stored.payload(row)
                frame = split_frame(entry)
                again = encode_entry(
                    parse_message_metadata(entry, frame),
                    entry[frame.metadata_end :],
                    broker_metadata=parse_broker_metadata(entry, frame),
                )
                assert again == entry


def test_entries_of_a_topic_join_into_one_buffer(reader):
    """The entries of a topic, joined in one buffer, scan to the same columns as ledger by ledger."""
    ledgers = read_topic(reader, "persistent://lab/main/delayed")
    joined = scan_entries(StoredEntries.concat([ledger.columns.stored for ledger in ledgers]))

    assert list(joined.positions) == [position for ledger in ledgers for position in ledger.columns.positions]
    for field in fields(EntryColumns):
        # Offsets within the buffer differ.
        if field.name not in {"stored", "payload_start"}:
            one_by_one = np.concatenate([getattr(ledger.columns, field.name) for ledger in ledgers])
            assert np.array_equal(getattr(joined, field.name), one_by_one), field.name


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="bytes read by loops in Python are not quick")
def test_reading_the_whole_pack_is_quick(disk, reader):
    """Reading every topic, including opening, takes less than three seconds of processor time: no step is quadratic."""
    read_topic(reader, disk.topics()[0])  # This compiles the kernels, if that was not done before.
    began = time.process_time()
    with open_bookie_disk([BOOKIE], METADATA) as opened:
        reader = TopicReader(opened.catalogue, opened.logs, OpenLedgers.RECOVERED)
        count = sum(len(ledger.columns) for topic in opened.topics() for ledger in read_topic(reader, topic))

    assert count == 6151
    assert time.process_time() - began < 3
