"""Tests of cursors that a running broker moves to another ledger while they are read."""

from collections.abc import Mapping, Sequence

import pytest

from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue
from delayed_tracker.ledger.metadata.metadata_dump import MetadataDump
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers, TopicReader
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from tests.ledger.harness.disks import DiskFiles, cursor_at
from tests.ledger.harness.log_files import TOPIC, cursor_path, ledger_path, message

NAME = TopicName.parse(TOPIC)


class MovingCursor:
    """Metadata whose cursor node has another value at each read, and at last the same one."""

    name = "a running cluster"

    def __init__(self, values: Mapping[str, bytes], cursors: Sequence[pb.ManagedCursorInfo]) -> None:
        self._others = MetadataDump(values)
        self._cursors = [cursor.SerializeToString() for cursor in cursors]
        self.read_count = 0

    def get(self, path: str) -> bytes | None:
        if path != cursor_path("workers"):
            return self._others.get(path)
        self.read_count += 1
        return self._cursors[min(self.read_count, len(self._cursors)) - 1]

    def children(self, path: str) -> Sequence[str]:
        return self._others.children(path)


def in_ledger(ledger_id: int) -> pb.ManagedCursorInfo:
    info = cursor_at(5, 0)
    info.cursors_ledger_id = ledger_id
    return info


@pytest.fixture
def disk(tmp_path) -> DiskFiles:
    """Return a disk with two ledgers of a cursor, of which the first was deleted."""
    files = DiskFiles(tmp_path)
    files.add_ledger(5, [message()] * 9)
    for ledger_id, entry_id in ((90, 3), (91, 7)):
        state = pb.PositionInfo(ledger_id=5, entry_id=entry_id).SerializeToString()
        files.add_ledger(ledger_id, [state], of_topic=False)
    del files.metadata[ledger_path(90)]
    return files


def cursor_of(disk: DiskFiles, metadata: MovingCursor, on_error: ErrorPolicy = ErrorPolicy.FAIL):
    with disk.open() as opened:
        reader = TopicReader(TopicCatalogue(metadata), opened.logs, OpenLedgers.RECOVERED)
        return reader.cursor(NAME, "workers", reader.topic_spans(NAME), on_error=on_error)


def test_a_cursor_that_moved_is_read_where_it_is_now(disk: DiskFiles):
    """Its ledger was deleted after the node was read; the node names another one by then."""
    metadata = MovingCursor(disk.metadata, [in_ledger(90), in_ledger(91)])
    read = cursor_of(disk, metadata)
    assert (read.state.mark_delete, read.bad_entries) == ((5, 7), ())


def test_a_cursor_without_its_ledger_is_looked_at_twice(disk: DiskFiles):
    """The node still names the ledger that is gone."""
    metadata = MovingCursor(disk.metadata, [in_ledger(90)])
    with pytest.raises(EntriesUnreadable, match="ledger 90: it holds a cursor's state"):
        cursor_of(disk, metadata)
    assert metadata.read_count == 2


def test_a_cursor_that_moves_on_and_on_is_given_up(disk: DiskFiles):
    """Three looks are enough; the position in the last node that was read is used if errors are skipped."""
    metadata = MovingCursor(disk.metadata, [in_ledger(ledger_id) for ledger_id in (92, 93, 94, 95, 96)])
    read = cursor_of(disk, metadata, ErrorPolicy.SKIP)
    assert read.state.mark_delete == (5, 0)
    assert [bad.ledger_id for bad in read.bad_entries] == [94]
    assert metadata.read_count == 3
