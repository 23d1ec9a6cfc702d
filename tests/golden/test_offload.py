"""Golden tests of every ledger that Pulsar's drivers offloaded, which reads as by Pulsar's own classes."""

import gzip
import hashlib
import shutil
from collections import defaultdict

import pytest

from delayed_tracker.ledger.source_url import open_source, open_sources
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from tests.golden.pulsar_pack import BOOKIE, METADATA, PACK, expected

MAP_FILES = PACK / "offload-filesystem"
MAP_FILE_TOPICS = {name: f"persistent://lab/fs-{name}/stored" for name in ("none", "record", "block")}
BLOB_TOPICS = ["persistent://lab/s3/blocks", "persistent://lab/s3/stored"]


@pytest.fixture(scope="module")
def known():
    """Return length and hash of every entry, by ledger."""
    ledgers = defaultdict(dict)
    for row in expected("entries"):
        ledgers[row["ledger"]][row["entry"]] = row["length"], row["sha256"]
    return ledgers


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    """Unpack the objects of the blob driver and return their directory."""
    directory = tmp_path_factory.mktemp("bucket")
    for file in (PACK / "offload-blob").iterdir():
        if file.suffix == ".gz":
            (directory / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.suffix != ".jsonl":
            shutil.copy(file, directory)
    return directory


def entries_of(pieces):
    found = {}
    for piece in pieces:
        assert piece.bad_entries == ()
        for row, entry_id in enumerate(piece.entries.entry_id.tolist()):
            payload = piece.entries.payload(row)
            assert entry_id not in found
            found[entry_id] = len(payload), hashlib.sha256(payload).hexdigest()
    return found


def assert_ledger_reads_as_pulsar_does(ledger, known):
    last = ledger.last_entry_id
    assert ledger.payload_bytes == sum(length for length, _ in known.values())
    assert entries_of(ledger.scan(0, last)) == known
    assert entries_of([ledger.read(0, last)]) == known
    assert entries_of(ledger.read(entry_id, entry_id) for entry_id in range(last, -1, -1)) == known


@pytest.mark.parametrize("compression", MAP_FILE_TOPICS)
def test_every_map_file(known, compression):
    """All four ledgers of each compression are equal, and each file is verified with its .crc file."""
    with open_source(f"offload+mapfile:{MAP_FILES / compression}") as source:
        assert source.topics() == [MAP_FILE_TOPICS[compression]]
        ledgers = source.topic_log(MAP_FILE_TOPICS[compression]).ledgers
    assert len(ledgers) == 4
    for ledger in ledgers:
        assert_ledger_reads_as_pulsar_does(ledger, known[ledger.ledger_id])


@pytest.mark.slow
def test_every_blob(known, bucket):
    """All ledgers of the bucket, with one block or three and with padding, are equal, by path and by URL."""
    for place in (bucket, f"file://{bucket}"):
        with open_source(f"offload+blob:{place}") as source:
            assert source.topics() == BLOB_TOPICS
            ledgers = [ledger for topic in BLOB_TOPICS for ledger in source.topic_log(topic).ledgers]
        assert sorted(ledger.ledger_id for ledger in ledgers) == [169, 170, 174, 177]
        for ledger in ledgers:
            assert_ledger_reads_as_pulsar_does(ledger, known[ledger.ledger_id])


def test_one_entry_near_the_end_fetches_one_block(known, bucket):
    """Reading one entry near the end of an object of 11 MB in three blocks fetches only the last, which has 1.1 MB."""
    with open_source(f"offload+blob:{bucket}") as source:
        (ledger,) = source.topic_log("persistent://lab/s3/blocks").ledgers
    before = ledger.store.bytes_fetched

    assert entries_of([ledger.read(68, 68)]) == {68: known[177][68]}

    block = ledger.blocks[-1]
    assert block.first_entry_id == 63
    assert ledger.store.bytes_fetched - before <= 1.5 * (block.end - block.offset)


def test_metadata_says_which_ledgers_a_topic_has(known, bucket):
    """Tiered storage lacks only the ledger that is still written to; with the bookies' disk nothing is missing."""
    properties = {row["topic"]: row["properties"] for row in expected("topics")}
    urls = {topic: f"offload+mapfile:{MAP_FILES / name}" for name, topic in MAP_FILE_TOPICS.items()}
    urls |= dict.fromkeys(BLOB_TOPICS, f"offload+blob:{bucket}")
    for topic, url in urls.items():
        with_metadata = f"{url}?metadata={METADATA}"
        with open_source(with_metadata) as source:
            assert topic in source.topics()
            *offloaded, written_to = source.topic_log(topic).ledgers
            for ledger in offloaded:
                assert entries_of(ledger.scan(0, ledger.last_entry_id)) == known[ledger.ledger_id]
            assert isinstance(written_to, AbsentLedger)
            assert written_to.entry_count is None
        with open_sources([with_metadata, f"bookkeeper+file:{BOOKIE}?metadata={METADATA}"]) as source:
            log = source.topic_log(topic)
            kinds = [type(ledger).__name__ for ledger in log.ledgers]
            assert set(kinds[:-1]) <= {"MapFileLedger", "BlobLedger"}
            assert kinds[-1] == "EntryLogLedger"
            assert log.properties == properties[topic]
            for ledger in log.ledgers:
                assert entries_of(ledger.scan(0, ledger.last_entry_id)) == known[ledger.ledger_id]


def test_the_first_source_that_has_a_ledger_is_read(disk, bucket):
    """The bookies' disk is read if it is the first source, because no ledger was deleted from it."""
    with open_sources([f"bookkeeper+file:{BOOKIE}?metadata={METADATA}", f"offload+blob:{bucket}"]) as source:
        ledgers = source.topic_log("persistent://lab/s3/stored").ledgers
        assert {type(ledger).__name__ for ledger in ledgers} == {"EntryLogLedger"}
        assert source.topics() == disk.topics()
