"""Bad input: a read fails at the first bad entry and states its place, or lists all bad entries and reads the rest."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.ledger.errors import EntriesUnreadable, LedgerFileInvalid
from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedLedgerInfo
from delayed_tracker.spark import schema
from tests.ledger.harness.log_files import (
    TOPIC,
    entry_log,
    flipped,
    header,
    ledger_path,
    ledger_records,
    ledger_value,
    message,
    topic_path,
    topic_value,
    write_dump,
)
from tests.ledger.offload.blob_files import BlobWriter
from tests.ledger.offload.sequence_files import MapFileWriter
from tests.spark.harness.reading import bad_rows, positions, read_rows

PAYLOADS = [message(payload=b"%d" % entry, deliver_at_ms=entry) for entry in range(4)]
RECORDS = {ledger_id: ledger_records(ledger_id, PAYLOADS) for ledger_id in (3, 4)}
UUIDS = {ledger_id: UUID(int=(1 << 127) + ledger_id) for ledger_id in (3, 4)}
ALL = [(ledger_id, entry) for ledger_id in (3, 4) for entry in range(4)]


def disk(directory: Path, log: bytes, *, lacking: int | None = None) -> str:
    """Write a disk with one log and the metadata of both ledgers, or of one; return its URL."""
    (directory / "0.log").write_bytes(log)
    values = {ledger_path(ledger_id): ledger_value(last_entry_id=3) for ledger_id in RECORDS if ledger_id != lacking}
    dump = write_dump(directory / "dump.jsonl.gz", values | {topic_path(): topic_value({3: 4, 4: 4})})
    return f"bookkeeper+file:{directory}?metadata={dump}"


def blobs(directory: Path, change: Callable[[int, BlobWriter], None]) -> str:
    """Write both ledgers as blobs, changed by ``change``; leave out an empty index. Return the URL."""
    info = ManagedLedgerInfo()
    for ledger_id, uuid in UUIDS.items():
        writer = BlobWriter(PAYLOADS)
        change(ledger_id, writer)
        writer.save(directory / "blobs", uuid, ledger_id)
        if not writer.index:
            (directory / "blobs" / f"{uuid}-ledger-{ledger_id}-index").unlink()
        ledger = info.ledger_info.add(ledger_id=ledger_id, entries=4, size=0, timestamp=1)
        ledger.offload_context.complete = True
        ledger.offload_context.uid_msb = (uuid.int >> 64) - (1 << 64)
        ledger.offload_context.uid_lsb = uuid.int & (1 << 64) - 1
    dump = write_dump(directory / "dump.jsonl", {topic_path(): info.SerializeToString()})
    return f"offload+blob:{directory / 'blobs'}?metadata={dump}"


def log(*records: bytes) -> bytes:
    return entry_log(records)


def cut_log(directory: Path) -> str:
    return disk(directory, log(*RECORDS[3], *RECORDS[4])[:-1])


def flipped_log(directory: Path) -> str:
    return disk(directory, log(*RECORDS[3], *RECORDS[4][:3], flipped(RECORDS[4][3], -1)))


def newer_log(directory: Path) -> str:
    (directory / "1.log").write_bytes(header(version=9) + b"".join(RECORDS[4]))
    return disk(directory, log(*RECORDS[3]))


def missing_ledger(directory: Path) -> str:
    return disk(directory, log(*RECORDS[3]))


def gone_ledger(directory: Path) -> str:
    return disk(directory, log(*RECORDS[3]), lacking=4)


def flipped_blob(directory: Path) -> str:
    def change(ledger_id: int, writer: BlobWriter) -> None:
        if ledger_id == 4:
            writer.data = flipped(writer.data, -1)

    return blobs(directory, change)


def cut_blob(directory: Path) -> str:
    def change(ledger_id: int, writer: BlobWriter) -> None:
        if ledger_id == 4:
            writer.data = writer.data[:-1]

    return blobs(directory, change)


def missing_index(directory: Path) -> str:
    def change(ledger_id: int, writer: BlobWriter) -> None:
        if ledger_id == 4:
            writer.index = b""

    return blobs(directory, change)


def newer_index(directory: Path) -> str:
    def change(ledger_id: int, writer: BlobWriter) -> None:
        if ledger_id == 4:
            writer.index = flipped(writer.index, 3)

    return blobs(directory, change)


def cut_map_file(directory: Path) -> str:
    base = directory / "maps"
    for ledger_id, uuid in UUIDS.items():
        writer = MapFileWriter(PAYLOADS, Compression.NONE)
        if ledger_id == 4:
            writer.data = writer.data[:-1]
        writer.save(base / "lab/main/persistent/orders" / f"{ledger_id}-{uuid}")
    return f"offload+mapfile:{base}"


CASES: dict[str, tuple[Callable[[Path], str], tuple[int | None, int | None, int], str]] = {
    "cut log": (cut_log, (4, 3, 1), "0.log is cut short at byte"),
    "flipped log": (flipped_log, (4, 3, 1), "the CRC32C digest does not fit"),
    "newer log": (newer_log, (4, 0, 4), "1.log is damaged at byte 0"),
    "missing ledger": (missing_ledger, (4, 0, 4), "no log has it"),
    "gone ledger": (gone_ledger, (4, 0, 4), "no log has it"),
    "flipped blob": (flipped_blob, (4, 3, 1), "ledger-4 at byte"),
    "cut blob": (cut_blob, (4, None, 1), "its index says"),
    "missing index": (missing_index, (4, 0, 4), "does not have the copy that the metadata names"),
    "newer index": (newer_index, (4, None, 1), "ledger-4-index"),
    "cut map file": (cut_map_file, (4, 3, 1), "data at byte"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_fails_or_is_listed(tmp_path: Path, name: str):
    """With ``fail`` the error names the first bad entry; with ``skip`` each is a row, and all others are read."""
    prepare, (ledger_id, entry_id, count), reason = CASES[name]
    url = prepare(tmp_path)
    with pytest.raises(DelayedTrackerError, match=r"4|1\.log"):
        read_rows(url=url)

    rows, _ = read_rows(url=url, onError="skip")
    (bad,) = bad_rows(rows)
    assert (bad[schema.TOPIC], bad[schema.LEDGER_ID], bad[schema.ENTRY_ID]) == (TOPIC, ledger_id, entry_id)
    assert bad[schema.ENTRY_COUNT] == count
    assert reason in bad[schema.ERROR]
    lost = range(entry_id or 0, 4)
    assert positions(rows) == [position for position in ALL if position[0] == 3 or position[1] not in lost]


def test_what_fails_is_named_with_its_place(tmp_path: Path):
    """The error has the position, file and byte of the first bad entry, and a remedy."""
    with pytest.raises(EntriesUnreadable, match=r"^entry 4:3 in \S+0.log at byte \d+: the CRC32C digest .*; give the"):
        read_rows(url=flipped_log(tmp_path))


def test_a_damaged_copy_is_passed_over(tmp_path: Path):
    """A damaged copy is replaced by the copy of another log, wherever that is."""
    url = flipped_log(tmp_path)
    (tmp_path / "1.log").write_bytes(entry_log([flipped(RECORDS[4][3], -1)]))
    (tmp_path / "2.log").write_bytes(entry_log(RECORDS[4]))
    rows, _ = read_rows(url=url)
    assert positions(rows) == ALL


def test_a_damaged_index_that_may_be_anybodys(tmp_path: Path):
    """Without metadata the topic of a damaged index is unknown: it is listed without one, and the rest is read."""
    url = newer_index(tmp_path).partition("?")[0]
    with pytest.raises(LedgerFileInvalid, match=r"ledger-4-index.*; give metadata=DUMP, which states the topic"):
        read_rows(url=url)
    rows, _ = read_rows(url=url, onError="skip")
    (bad,) = bad_rows(rows)
    assert (bad[schema.TOPIC], bad[schema.LEDGER_ID], bad[schema.ENTRY_ID]) == (None, 4, None)
    assert "ledger-4-index" in bad[schema.ERROR]
    assert positions(rows) == [position for position in ALL if position[0] == 3]


def test_metadata_that_cannot_be_read_fails_in_any_case(tmp_path: Path):
    """Unreadable metadata fails the read under every policy, because the ledgers are unknown."""
    url = disk(tmp_path, log(*RECORDS[3]))
    dump = tmp_path / "dump.jsonl.gz"
    dump.write_bytes(dump.read_bytes()[:-9])
    for policy in ("fail", "skip"):
        with pytest.raises(LedgerFileInvalid, match=r"dump\.jsonl\.gz is cut short or damaged"):
            read_rows(url=url, onError=policy)


@pytest.mark.timeout(300)
def test_spark_tells_what_was_bad(spark: SparkSession, tmp_path: Path):
    """The caller gets the message of the error, and rows of bad entries behave like other rows."""
    url = missing_ledger(tmp_path)
    read = spark.read.format("pulsar_ledger").option("url", url)
    with pytest.raises(AnalysisException, match="entries 4:0 to 3: no log has it"):
        read.load().count()
    found = read.option("onError", "skip").load()
    assert [row.entry_count for row in found.where("error is not null").collect()] == [4]
    assert found.where("error is null").count() == 4
