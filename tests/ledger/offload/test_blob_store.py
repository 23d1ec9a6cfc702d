"""Tests of buckets through obstore: object attributes, counters, and errors."""

import sys
from uuid import UUID

import obstore
import pytest
from obstore.store import MemoryStore

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.offload import blob_source
from delayed_tracker.ledger.offload.blob_source import BlobLedgerStore
from delayed_tracker.ledger.offload.blob_store import BlobStore, open_blob_store
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.offload.blob_files import BlobWriter, streamed
from tests.ledger.offload.sequence_files import ledger_metadata

UUID_1 = UUID(int=1)
TOPIC = TopicName.parse("persistent://lab/main/orders")


@pytest.fixture
def bucket():
    return BlobStore("memory:", MemoryStore())


def put(bucket: BlobStore, key: str, content: bytes, **attributes: str) -> None:
    obstore.put(bucket._store, key, content, attributes=attributes)


def test_ranges_are_counted(bucket):
    """Bytes and requests are counted, including requests for listings."""
    put(bucket, "a", bytes(range(100)))
    assert bucket.fetch("a", 10, 20) == bytes(range(10, 20))
    assert bucket.fetch("a", 10, 10) == b""
    assert bucket.size("a") == 100
    assert bucket.size("b") is None
    assert bucket.read_small("a", 100).content == bytes(range(100))
    assert bucket.read_small("b", 100) is None
    assert bucket.sizes() == {"a": 100}
    assert (bucket.bytes_fetched, bucket.requests) == (110, 6)


def test_only_what_lies_directly_there_is_listed(bucket):
    """Only objects at the top level are listed, because the driver stores all objects there."""
    for key in ("b", "a", "below/c"):
        put(bucket, key, b"")
    assert list(bucket.sizes()) == ["a", "b"]


def test_an_object_that_is_gone_or_shorter(bucket):
    """An object that is missing or shorter than expected raises an error with its name."""
    put(bucket, "a", b"abc")
    with pytest.raises(LedgerFileInvalid, match="memory:/b is gone"):
        bucket.fetch("b", 0, 1)
    with pytest.raises(LedgerFileInvalid, match="memory:/a ends at byte 3, 9 were expected"):
        bucket.fetch("a", 1, 9)
    with pytest.raises(LedgerFileInvalid, match="an index may have at most 2"):
        bucket.read_small("a", 2)


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.sizes(),
        lambda store: store.size("a"),
        lambda store: store.fetch("a", 0, 1),
        lambda store: store.read_small("a", 1),
    ],
)
def test_a_store_that_does_not_answer(ask):
    """If a store does not answer, every request raises a read error that names the store."""
    config = {"endpoint": "http://127.0.0.1:9", "skip_signature": "true", "region": "nowhere", "allow_http": "true"}
    s3 = obstore.store.S3Store("bucket", config=config, retry_config={"max_retries": 0})
    with pytest.raises(OSError, match=r"\As3://bucket.* cannot be (read|listed).+\Z"):
        ask(BlobStore("s3://bucket", s3))


def test_the_topic_by_what_the_object_says(bucket):
    """Without metadata, the topic is taken from the driver's attribute on the object, in any case of letters."""
    data, told = streamed({7: [b"x", b"y"]})
    put(bucket, str(UUID_1), data)
    put(bucket, f"{UUID_1}-index", told, ManagedLedgerName="lab/main/persistent/orders")
    (found,) = BlobLedgerStore(bucket).find()[TOPIC]
    assert (found.ledger_id, found.uuids) == (7, (UUID_1,))


def test_another_format_version(bucket):
    """An object of a newer format version is refused with the version."""
    writer = BlobWriter([b"x"])
    key = f"{UUID_1}-ledger-7"
    put(bucket, key, writer.data)
    put(bucket, f"{key}-index", writer.index, s3managedledgeroffloaderformatversion="2")
    with pytest.raises(LedgerFileInvalid, match=f"{key}-index has format version '2'"):
        BlobLedgerStore(bucket).open(TOPIC, 7, [UUID_1], entry_count=None)
    put(bucket, f"{key}-index", writer.index, S3ManagedLedgerOffloaderFormatVersion="1")
    assert BlobLedgerStore(bucket).open(TOPIC, 7, [UUID_1], entry_count=None).last_entry_id == 0


def test_objects_that_are_not_an_index_are_ignored(bucket):
    """Objects that are not an index, and ledgers that belong to no topic, are not listed."""
    put(bucket, "readme-index", b"x")
    put(bucket, f"{UUID_1}-ledger-7", b"x")
    writer = BlobWriter([b"x"], metadata=ledger_metadata([b"x"], "no topic"))
    key = f"{UUID_1}-ledger-8"
    put(bucket, key, writer.data)
    put(bucket, f"{key}-index", writer.index)
    assert BlobLedgerStore(bucket).find() == {}


def test_an_index_that_is_too_large_to_be_one(bucket, monkeypatch):
    """An index that is too large is refused without fetching it."""
    monkeypatch.setattr(blob_source, "INDEX_BYTES_MAX", 10)
    put(bucket, f"{UUID_1}-ledger-7-index", bytes(11))
    with pytest.raises(LedgerFileInvalid, match="has 11 bytes"):
        BlobLedgerStore(bucket).open(TOPIC, 7, [UUID_1], entry_count=None)
    assert bucket.bytes_fetched == 0


def test_without_obstore(monkeypatch):
    """Without obstore, the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(InvalidInput, match=r"pip install 'delayed-tracker\[offload\]'"):
        open_blob_store("s3://bucket")


@pytest.mark.parametrize("place", ["ftp://x", "s3://", "az://x", "http://["])
def test_a_url_of_no_store_is_refused_in_one_line(place):
    """The error for an invalid URL is one line with the client's message and without internals."""
    with pytest.raises(InvalidInput, match="give s3://, gs://, az:// or file:// and what it needs: ") as error:
        open_blob_store(place)
    assert "\n" not in error.value.message
    assert "Debug" not in error.value.message
