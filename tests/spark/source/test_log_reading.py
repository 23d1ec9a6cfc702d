"""Entry logs read by stretches give the same entries, and the same bad ones, as reading ledger by ledger."""

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.ledger.bookkeeper.log_files import open_log_file
from delayed_tracker.ledger.entry.entry_columns import scan_entries
from delayed_tracker.ledger.source_url import open_source
from delayed_tracker.spark import schema
from delayed_tracker.spark.source import log_reading
from tests.ledger.harness.log_files import (
    TOPIC,
    entry_log,
    flipped,
    ledger_path,
    ledger_records,
    ledger_value,
    message,
    topic_path,
    topic_value,
    write_dump,
)
from tests.spark.harness.reading import bad_rows, parts_of, positions, read_rows

OTHER = "persistent://lab/main/payments"
COUNTS = {3: 4, 5: 3, 8: 5}
TOPICS = {3: TOPIC, 5: OTHER, 8: TOPIC}
PAYLOADS = {
    ledger_id: [message(payload=b"%d" % entry, deliver_at_ms=10 * entry, index=entry) for entry in range(count)]
    for ledger_id, count in COUNTS.items()
}
DIGESTS = {3: DigestType.CRC32C, 5: DigestType.HMAC, 8: DigestType.CRC32C}
RECORDS = {
    (ledger_id, entry): record
    for ledger_id, payloads in PAYLOADS.items()
    for entry, record in enumerate(
        ledger_records(ledger_id, payloads, digest_type=DIGESTS[ledger_id], password=b"secret")
    )
}
GONE = 2
"""Ledger that is still in the logs but belongs to no topic."""


def write_disk(directory: Path, logs: list[list[bytes]], *, closed: bool = True) -> str:
    """Write a disk with these records, and return its URL."""
    (directory / "ledgers").mkdir()
    for number, records in enumerate(logs):
        (directory / "ledgers" / f"{number:x}.log").write_bytes(entry_log(records))
    counts = {ledger_id: count if closed else None for ledger_id, count in COUNTS.items()}
    values = {
        topic_path(topic): topic_value(
            {ledger_id: counts[ledger_id] for ledger_id in COUNTS if TOPICS[ledger_id] == topic}
        )
        for topic in (TOPIC, OTHER)
    }
    for ledger_id, count in COUNTS.items():
        last = count - 1 if closed else None
        values[ledger_path(ledger_id)] = ledger_value(
            last_entry_id=last, digest_type=DIGESTS[ledger_id], password=b"secret"
        )
    dump = write_dump(directory / "dump.jsonl.gz", values)
    return f"bookkeeper+file:{directory / 'ledgers'}?metadata={dump}"


def by_ledger(url: str) -> tuple[list[tuple[str, int, int, int]], list[tuple[str, int | None, int | None, int, str]]]:
    """Return whole entries and bad ones as the reader of single ledgers gives them."""
    whole, bad = [], []
    with open_source(url) as source:
        for topic in source.topics():
            for piece in source.topic_log(topic).scan():
                columns = scan_entries(piece.entries)
                whole += [
                    (
                        topic,
                        int(columns.stored.ledger_id[row]),
                        int(columns.stored.entry_id[row]),
                        int(columns.index[row]),
                    )
                    for row in range(len(columns))
                ]
                bad += [
                    (topic, found.ledger_id, found.entry_id, found.entry_count, str(found))
                    for found in piece.bad_entries
                ]
    return sorted(whole), sorted(bad)


copies = st.lists(
    st.lists(
        st.tuples(st.sampled_from([*RECORDS, (GONE, 0)]), st.booleans()),
        max_size=12,
    ),
    min_size=1,
    max_size=3,
)


@given(copies)
def test_stretches_give_what_ledgers_give(logs):
    """Each entry is read once or is bad, for any records in any order, repeated or damaged."""
    lingering = ledger_records(GONE, [b"?"])[0]
    contents = []
    for log in logs:
        records = [RECORDS.get(position, lingering) for position, _ in log]
        contents.append([flipped(record, -1) if hit else record for record, (_, hit) in zip(records, log, strict=True)])
    with tempfile.TemporaryDirectory() as directory:
        url = write_disk(Path(directory), contents)
        rows, _ = read_rows(url=url, onError="skip")
        whole, bad = by_ledger(url)
    found = [
        (row[schema.TOPIC], row[schema.LEDGER_ID], row[schema.ENTRY_ID], row[schema.INDEX])
        for row in rows
        if row[schema.ERROR] is None
    ]
    assert sorted(found) == whole
    told = [
        tuple(row[name] for name in (schema.TOPIC, schema.LEDGER_ID, schema.ENTRY_ID, schema.ENTRY_COUNT, schema.ERROR))
        for row in bad_rows(rows)
    ]
    assert sorted(told) == bad


def test_open_ledgers_end_where_the_logs_say(tmp_path: Path):
    """A recovered ledger has all entries up to the first gap; a live one ends at the last confirmed entry."""
    url = write_disk(tmp_path, [list(RECORDS.values())], closed=False)
    recovered, _ = read_rows(url=url, openLedgers="recovered")
    live, _ = read_rows(url=url, openLedgers="live")
    assert positions(recovered) == sorted(RECORDS)
    assert positions(live) == [
        (ledger_id, entry) for ledger_id, entry in sorted(RECORDS) if entry < COUNTS[ledger_id] - 1
    ]


def test_replicas_are_not_read(tmp_path: Path):
    """A log that has only copies of entries of other logs gets no task."""
    records = list(RECORDS.values())
    url = write_disk(tmp_path, [records[:6], records[6:], records])
    rows, _ = read_rows(url=url)
    assert positions(rows) == sorted(RECORDS)
    assert parts_of(url=url) == 2


def test_a_log_is_divided_by_bytes(tmp_path: Path):
    """Pieces of 4 MB are grouped up to the wanted bytes of a task."""
    count = 40
    payloads = [message(payload=bytes(1 << 20)) for _ in range(count)]
    (tmp_path / "0.log").write_bytes(entry_log(ledger_records(3, payloads)))
    values = {topic_path(): topic_value({3: count}), ledger_path(3): ledger_value(last_entry_id=count - 1)}
    url = f"bookkeeper+file:{tmp_path}?metadata={write_dump(tmp_path / 'dump.jsonl', values)}"
    assert parts_of(url=url, partitionBytes=str(13 << 20)) == 4
    rows, _ = read_rows(url=url, partitionBytes=str(13 << 20))
    assert positions(rows) == [(3, entry) for entry in range(count)]


@pytest.mark.parametrize("others", [(), (5, 8)])
def test_a_damaged_entry_id_hides_no_replica(tmp_path: Path, others: tuple[int, ...]):
    """A record whose damaged id no entry can have is passed over where all or some records are read."""
    chosen = {position: record for position, record in RECORDS.items() if position[0] in {3, *others}}
    damaged = {**chosen, (3, 2): flipped(chosen[3, 2], 13)}
    url = write_disk(tmp_path, [list(damaged.values()), list(RECORDS.values())])
    rows, _ = read_rows(url=url, onError="skip")
    assert (positions(rows), bad_rows(rows)) == (sorted(RECORDS), [])


def test_a_ledger_that_claims_every_entry_takes_little_memory(tmp_path: Path):
    """Missing entries are found from those that are there, whatever the metadata claim."""
    (tmp_path / "0.log").write_bytes(entry_log(ledger_records(3, PAYLOADS[3][:2])))
    values = {topic_path(): topic_value({3: 2**32}), ledger_path(3): ledger_value(last_entry_id=2**32 - 1)}
    url = f"bookkeeper+file:{tmp_path}?metadata={write_dump(tmp_path / 'dump.jsonl', values)}"
    rows, _ = read_rows(url=url, onError="skip")
    (bad,) = bad_rows(rows)
    assert positions(rows) == [(3, 0), (3, 1)]
    assert (bad[schema.ENTRY_ID], bad[schema.ENTRY_COUNT]) == (2, 2**32 - 2)


def test_an_archived_replica_is_unpacked_once(tmp_path: Path, monkeypatch):
    """Copies of damaged entries are searched for together, since each opening unpacks a whole log."""
    records = list(RECORDS.values())
    url = write_disk(tmp_path, [[flipped(record, -1) for record in records], records])
    log = tmp_path / "ledgers" / "1.log"
    (tmp_path / "ledgers" / "1.log.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    unpacked: list[Path] = []

    def open_counted(file: Path):
        unpacked.extend([file] if file.suffix == ".gz" else [])
        return open_log_file(file)

    monkeypatch.setattr(log_reading, "open_log_file", open_counted)
    rows, _ = read_rows(url=url)
    assert (positions(rows), len(unpacked)) == (sorted(RECORDS), 1)
