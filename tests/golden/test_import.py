"""Golden test of importing every topic of a real Pulsar: the copies have the same entries at the same positions."""

import numpy as np

from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from delayed_tracker.ledger.local.importing import import_topic
from delayed_tracker.ledger.local.source import open_local_ledgers
from tests.ledger.local.disks import QuickDisk


def test_copies_equal_what_pulsar_stored(disk, tmp_path):
    """Copies in one directory for all topics equal the originals byte for byte, with the recorded properties.

    Compacted ledgers are not copied: the copy of a compacted topic counts as never compacted.
    """
    entry_count = compacted_count = 0
    for topic in disk.topics():
        log = disk.topic_log(topic)
        import_topic(log, tmp_path / "ledgers", now_ms=1, disk=QuickDisk())
        with open_local_ledgers(tmp_path / "ledgers") as source:
            copy = source.topic_log(topic)
            assert source.compacted_log(topic) is None
        theirs = StoredEntries.concat([piece.entries for piece in log.scan()])
        ours = StoredEntries.concat([piece.entries for piece in copy.scan()])
        assert np.array_equal(ours.ledger_id, theirs.ledger_id)
        assert np.array_equal(ours.entry_id, theirs.entry_id)
        assert [ours.payload(row) for row in range(len(ours))] == [theirs.payload(row) for row in range(len(theirs))]
        assert dict(copy.properties) == dict(log.properties)
        assert copy.terminated_at == log.terminated_at
        entry_count += len(ours)
        compacted_count += disk.compacted_log(topic) is not None
    # 6,148 entries of topics that messages were sent to, and three of topics with a broker's own state.
    assert entry_count == 6_151
    assert compacted_count == 2
