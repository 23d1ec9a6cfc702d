"""Every topic that a real Pulsar wrote, copied into local ledgers: the same entries at the same positions."""

import numpy as np

from tests.ledger.local.disks import QuickDisk
from tracker.ledger.local.importing import import_topic
from tracker.ledger.local.source import open_local_ledgers
from tracker.ledger.stored_entries import StoredEntries


def test_copies_equal_what_pulsar_stored(disk, tmp_path):
    """Byte for byte, in one directory for all topics, and the index of messages is as the broker recorded it."""
    entry_count = 0
    for topic in disk.topics():
        log = disk.topic_log(topic)
        import_topic(log, tmp_path / "ledgers", now_ms=1, disk=QuickDisk())
        with open_local_ledgers(tmp_path / "ledgers") as source:
            copy = source.topic_log(topic)
        theirs = StoredEntries.concat([piece.entries for piece in log.scan()])
        ours = StoredEntries.concat([piece.entries for piece in copy.scan()])
        assert np.array_equal(ours.ledger_id, theirs.ledger_id)
        assert np.array_equal(ours.entry_id, theirs.entry_id)
        assert [ours.payload(row) for row in range(len(ours))] == [theirs.payload(row) for row in range(len(theirs))]
        assert int(copy.properties.get("index", -1)) >= int(log.properties.get("index", -1))
        assert copy.terminated_at == log.terminated_at
        entry_count += len(ours)
    assert entry_count > 1_000
