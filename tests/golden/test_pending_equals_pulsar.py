"""Golden tests of pending messages and stored snapshots of each subscription, which equal Pulsar's own answers."""

import base64
import gzip
import json
import shutil
from collections import defaultdict

from delayed_tracker.ledger.source import open_bookie_disk
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers
from tests.golden.pulsar_pack import BOOKIE, METADATA, PACK, expected


def test_every_pending_set(disk):
    """Each subscription has exactly the entries, deadlines and order that Pulsar recovered.

    The rows of a transactional topic give the outcome of each entry's transaction: all of them were committed.
    Subscriptions without a row have nothing pending.
    """
    wanted = {(row["managed_ledger"], row["cursor"]): row for row in expected("pending")}
    found = 0
    for topic in disk.catalogue.topics():
        for subscription in disk.catalogue.subscriptions(topic):
            report = disk.pending(str(topic), subscription)
            row = wanted.pop((topic.managed_ledger, subscription), {"pending": [], "count": 0})
            ours = [(ledger_id, entry_id, deliver_at_ms) for deliver_at_ms, ledger_id, entry_id in report.indexes]
            assert ours == [
                (ledger_id, entry_id, deliver_at_ms) for ledger_id, entry_id, deliver_at_ms, *_ in row["pending"]
            ]
            assert {outcome for *_, outcome in row["pending"] if isinstance(outcome, str)} <= {"committed"}
            assert len(ours) == row["count"]
            assert report.bad_entries == ()
            found += len(ours)
    assert wanted == {}
    assert found == 343 + 480 + 536 + 417 + 131 + 80 + 80 + 16


def test_pending_set_of_a_transactional_topic_names_what_it_drops(disk):
    """Entries of aborted transactions, which the dispatcher has acknowledged, are dropped even without that."""
    report = disk.pending("persistent://lab/main/txn", "workers")
    everything = disk.pending("persistent://lab/main/txn", "workers", ignore_acks=True)

    assert (len(report.indexes), report.delayed_count) == (16, 22)
    assert report.aborted_count == everything.aborted_count == 6
    assert list(everything.indexes) == list(report.indexes)
    assert everything.delayed_count == 22


def test_ignoring_acknowledgements_gives_every_delayed_entry(disk):
    """If acknowledgements are ignored, every delayed entry is pending, as in a replay of the captured topic."""
    delayed = defaultdict(list)
    for row in expected("entries"):
        if row["deliver_at"] is not None:
            delayed[row["topic"]].append((max(row["deliver_at"], 0), row["ledger"], row["entry"]))
    for topic in ("delayed", "delayed-all", "delayed-sparse", "delayed-py", "parted-partition-0"):
        name = f"persistent://lab/main/{topic}"
        assert list(disk.pending(name, "anybody", ignore_acks=True).indexes) == delayed[name]


def test_every_stored_snapshot(disk):
    """All 25 buckets, found by the cursors' properties, equal the bytes and ranges that Pulsar's storage read."""
    entries = defaultdict(dict)
    with gzip.open(PACK / "buckets" / "entries.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            entries[row["bucket"]][row["entry"]] = base64.b64decode(row["payload"])

    keys = defaultdict(list)
    for row in expected("cursors"):
        for key, value in row["cursor_properties"].items():
            keys[value].append(key)

    found = {}
    for topic in disk.catalogue.topics():
        for subscription in disk.catalogue.subscriptions(topic):
            for snapshot in disk.stored_snapshots(str(topic), subscription):
                found[snapshot.bucket_id] = [snapshot.metadata, *snapshot.segments]
                (key,) = keys[str(snapshot.bucket_id)]
                assert key == f"#pulsar.internal.delayed.bucket_{snapshot.first_ledger_id}_{snapshot.last_ledger_id}"
    assert len(found) == 25
    assert found == {ledger: [rows[entry] for entry in sorted(rows)] for ledger, rows in entries.items()}


def test_live_and_recovered_read_closed_ledgers_alike(disk):
    """Live and recovered give the same result after a clean stop, because metadata has the end of every ledger."""
    live = disk.pending("persistent://lab/main/delayed", "workers", open_ledgers=OpenLedgers.LIVE)
    recovered = disk.pending("persistent://lab/main/delayed", "workers")

    assert list(live.indexes) == list(recovered.indexes)


def test_plain_logs_and_several_directories_give_the_same(disk, tmp_path):
    """Plain logs on two bookies with an overlap, mapped instead of unpacked, give the same result."""
    first, second = tmp_path / "bk1" / "current", tmp_path / "bk2" / "current"
    for directory in (first, second):
        directory.mkdir(parents=True)
    for number, file in enumerate(sorted(BOOKIE.glob("*.log.gz"))):
        plain = gzip.decompress(file.read_bytes())
        for directory in {0: [first], 1: [first, second], 2: [second]}[number % 3]:
            (directory / file.name.removesuffix(".gz")).write_bytes(plain)
    shutil.copy(METADATA, tmp_path / "metadata.jsonl.gz")

    with open_bookie_disk([tmp_path / "bk1", tmp_path / "bk2"], tmp_path / "metadata.jsonl.gz") as other:
        for topic, subscription in (("delayed", "workers"), ("txn", "workers"), ("delayed-sparse", "workers")):
            name = f"persistent://lab/main/{topic}"
            assert list(other.pending(name, subscription).indexes) == list(disk.pending(name, subscription).indexes)
