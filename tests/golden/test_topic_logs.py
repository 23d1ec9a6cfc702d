"""Golden tests of every topic through the common interface of ledgers, which equals Pulsar's own reading."""

import hashlib
from collections import defaultdict

from delayed_tracker.core.values.columns import Position
from tests.golden.pulsar_pack import expected


def test_every_entry_of_every_topic(disk):
    """A scan gives exactly the recorded positions, lengths and bytes.

    No rows were recorded for a namespace's own topics, `__change_events` and `__transaction_buffer_snapshot`.
    """
    known = defaultdict(list)
    for row in expected("entries"):
        known[row["topic"]].append((row["ledger"], row["entry"], row["length"], row["sha256"]))
    assert set(known) == {topic for topic in disk.topics() if "/__" not in topic}
    for topic, rows in known.items():
        ours = []
        for piece in disk.topic_log(topic).scan():
            assert piece.bad_entries == ()
            stored = piece.entries
            for row, (ledger_id, entry_id) in enumerate(
                zip(stored.ledger_id.tolist(), stored.entry_id.tolist(), strict=True)
            ):
                payload = stored.payload(row)
                ours.append((ledger_id, entry_id, len(payload), hashlib.sha256(payload).hexdigest()))
        assert ours == sorted(rows), topic
        assert disk.topic_log(topic).entry_count == len(rows)


def test_one_entry_at_random(disk):
    """A read at a position gives the entry that Pulsar reads there, and a scan from there begins with it."""
    log = disk.topic_log("persistent://lab/main/plain")
    at = Position(log.ledgers[1].ledger_id, 42)

    entries = log.ledger(at.ledger_id).read(at.entry_id, at.entry_id).entries

    (row,) = (row for row in expected("entries") if (row["ledger"], row["entry"]) == at)
    assert hashlib.sha256(entries.payload(0)).hexdigest() == row["sha256"]
    assert list(entries.positions) == [at]
    assert entries.payload(0) == next(log.scan(at)).entries.payload(0)


def test_what_compaction_left(disk):
    """A compacted topic has its compacted ledger and horizon, and a topic that was never compacted has none."""
    rows = [row for row in expected("compacted_entries") if row["compacted_topic"].endswith("/compacted")]

    compacted = disk.compacted_log("persistent://lab/main/compacted")

    assert compacted.ledger.ledger_id == rows[0]["compacted_ledger"]
    assert compacted.ledger.last_entry_id == rows[-1]["compacted_entry"]
    (cursor,) = (
        row
        for row in expected("cursors")
        if (row["managed_ledger"], row["cursor"]) == ("lab/main/persistent/compacted", "__compaction")
    )
    assert compacted.horizon == (cursor["mark_delete_ledger"], cursor["mark_delete_entry"])
    assert disk.compacted_log("persistent://lab/main/plain") is None
