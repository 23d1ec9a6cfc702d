"""Golden tests of acknowledgements, down to messages of a batch, as Pulsar stored and answered them."""

import re
from collections.abc import Iterable

import numpy as np
import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.metadata.cursor import CursorState, PartialBatchAcks
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue, parse_cursor, parse_cursor_entry
from delayed_tracker.ledger.metadata.metadata_dump import MetadataDump
from delayed_tracker.ledger.queries.pending import pending_indexes
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers, TopicReader
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from tests.golden.pulsar_pack import expected, metadata_nodes
from tests.ledger.harness.log_files import ledger_path, ledger_value

MOVED_WHEN_OPENED = ("__change_events", "__transaction_buffer_snapshot")
"""Topics without traffic. Pulsar moves their cursors to a new ledger when it opens them."""


@pytest.fixture(scope="module")
def nodes() -> dict[str, bytes]:
    """Return the metadata of the running broker: the metadata after its stop, but with cursors in ledgers.

    The stop moved their state into the metadata and deleted the ledgers, whose records are still in the logs.
    """
    nodes = metadata_nodes()
    for row in in_ledgers():
        path = f"/managed-ledgers/{row['managed_ledger']}/{row['cursor']}"
        stale = position(row["stored_mark_delete"])
        nodes[path] = pb.ManagedCursorInfo(
            cursors_ledger_id=row["cursor_ledger"],
            mark_delete_ledger_id=stale.ledger_id,
            mark_delete_entry_id=stale.entry_id,
            cursor_properties=parse_cursor(nodes[path]).cursor_properties,
        ).SerializeToString()
        nodes[ledger_path(row["cursor_ledger"])] = ledger_value(last_entry_id=None)
    return nodes


@pytest.fixture(scope="module")
def running(nodes, disk) -> TopicReader:
    return TopicReader(TopicCatalogue(MetadataDump(nodes)), disk.logs, OpenLedgers.RECOVERED)


def in_ledgers() -> list[dict]:
    rows = [row for row in expected("cursors_running") if row["cursor_ledger"] != -1]
    assert len(rows) == 11
    return rows


def cursor_of(reader: TopicReader, row: dict) -> CursorState:
    topic = TopicName.of_managed_ledger(row["managed_ledger"])
    return reader.cursor(topic, row["cursor"], reader.topic_spans(topic), on_error=ErrorPolicy.FAIL).state


def position(text: str) -> Position:
    ledger_id, entry_id = map(int, text.split(":"))
    return Position(ledger_id, entry_id)


def unacked(holes: PartialBatchAcks) -> dict[Position, list[int]]:
    """Return the unacknowledged batch indexes of each batch that is acknowledged in part."""
    return {
        place: np.flatnonzero(np.unpackbits(holes.row_words(row).view(np.uint8), bitorder="little")).tolist()
        for row, place in enumerate(holes.positions)
    }


def stored_unacked(stored: Iterable[pb.BatchedEntryDeletionIndexInfo]) -> dict[Position, list[int]]:
    """Return the same from a stored message, bit by bit in the order of java.util.BitSet."""
    return {
        Position(hole.position.ledger_id, hole.position.entry_id): [
            index for index in range(64 * len(hole.delete_set)) if hole.delete_set[index // 64] >> index % 64 & 1
        ]
        for hole in stored
    }


def acked_positions(ranges: Iterable[tuple[int, int, int, int]]) -> list[Position]:
    """Return all positions of ranges (lower, upper], each within a ledger."""
    found = []
    for ledger_id, lower, upper_ledger_id, upper in ranges:
        assert ledger_id == upper_ledger_id
        found += [Position(ledger_id, entry_id) for entry_id in range(lower + 1, upper + 1)]
    return found


def at_start_of_next_ledger(place: Position, last_entry_ids: dict[int, int]) -> Position:
    """Return the start of the next ledger for the end of a ledger, because both are the same place."""
    later = [ledger_id for ledger_id in last_entry_ids if ledger_id > place.ledger_id]
    if later and place.entry_id == last_entry_ids.get(place.ledger_id):
        return Position(min(later), -1)
    return place


def test_every_cursor_in_the_metadata(disk, reader):
    """Every cursor has the position, ranges and properties that Pulsar recovered, and the batch bits that it stored.

    Pulsar stores those bits in the metadata, too, but does not restore them from there, so it recovered none.
    """
    moved = holes = 0
    for row in expected("cursors"):
        topic = TopicName.of_managed_ledger(row["managed_ledger"])
        stored = disk.catalogue.cursor(topic, row["cursor"])
        state = cursor_of(reader, row)

        assert stored.cursors_ledger_id == row["stored"]["cursors_ledger"] == -1
        assert state.state_ledger_id is None
        assert state.mark_delete == position(row["stored"]["mark_delete"])
        assert len(stored.individual_deleted_messages) == row["stored"]["ranges"]
        assert list(state.acked.to_columns()) == acked_positions(row["individually_deleted_open_closed"])
        assert unacked(state.partial_batch_acks) == stored_unacked(stored.batched_entry_deletion_index_info)
        assert len(state.partial_batch_acks) == row["stored"]["batch_infos"]
        assert row["batch_unacked_bits"] == []
        assert dict(state.properties) == row["properties"]
        assert dict(state.cursor_properties) == row["cursor_properties"] == row["stored"]["cursor_properties"]
        holes += len(state.partial_batch_acks)
        if row["managed_ledger"].endswith(MOVED_WHEN_OPENED):
            moved += 1
            continue
        last_entry_ids = {span.ledger_id: span.last_entry_id for span in reader.topic_spans(topic)}
        recovered = Position(row["mark_delete_ledger"], row["mark_delete_entry"])
        assert at_start_of_next_ledger(state.mark_delete, last_entry_ids) == at_start_of_next_ledger(
            recovered, last_entry_ids
        )
    assert (moved, holes) == (11, 27)


def test_every_cursor_in_a_ledger(running, reader):
    """Every cursor has the position, ranges and properties of the running broker, and the bits stored at its stop."""
    for row in in_ledgers():
        state, after_stop = cursor_of(running, row), cursor_of(reader, row)

        assert running.span(row["cursor_ledger"]).last_entry_id == row["cursor_ledger_last_entry"]
        assert state.state_ledger_id == row["cursor_ledger"]
        assert state.mark_delete == position(row["mark_delete"])
        ranges = re.findall(r"\((\d+):(-?\d+)\.\.(\d+):(\d+)\]", row["individually_deleted"])
        assert list(state.acked.to_columns()) == acked_positions(tuple(map(int, found)) for found in ranges)
        assert dict(state.properties) == row["properties"]
        assert dict(state.cursor_properties) == dict(after_stop.cursor_properties)
        assert unacked(state.partial_batch_acks) == unacked(after_stop.partial_batch_acks)


def test_bits_of_the_ledgers_entries(running):
    """The last entry has in words of bits what the metadata has in ranges; the words of batches are equal."""
    holes = 0
    for row in in_ledgers():
        (*_, stored) = running.payloads(running.span(row["cursor_ledger"]))
        entry = parse_cursor_entry(stored)
        state = cursor_of(running, row)

        assert not entry.individual_deleted_messages
        assert [*state.acked.to_columns()] == sorted(
            Position(words.key, index)
            for words in entry.individual_deleted_message_ranges
            for index in range(64 * len(words.values))
            if words.values[index // 64] >> index % 64 & 1
        )
        assert unacked(state.partial_batch_acks) == stored_unacked(entry.batched_entry_deletion_index_info)
        holes += len(state.partial_batch_acks)
    assert holes == 27


@pytest.mark.parametrize(("subscription", "partly_acked"), [("shared-holes", 26), ("keyed", 0)])
def test_messages_that_are_not_acknowledged(running, reader, subscription, partly_acked):
    """Unacknowledged entries and messages are as many as the broker counted for the consumer that received all."""
    (row,) = (row for row in in_ledgers() if row["cursor"] == subscription)
    spans = reader.topic_spans(TopicName.of_managed_ledger(row["managed_ledger"]))
    for state in (cursor_of(running, row), cursor_of(reader, row)):
        holes = unacked(state.partial_batch_acks)
        entries = messages = 0
        for ledger in reader.read(spans, on_error=ErrorPolicy.FAIL):
            columns = ledger.columns
            for number in np.flatnonzero(~state.acknowledges(columns.positions)).tolist():
                entries += 1
                place = Position(int(columns.stored.ledger_id[number]), int(columns.stored.entry_id[number]))
                left = holes.pop(place, range(int(columns.num_messages[number])))
                assert 0 < len(left) <= int(columns.num_messages[number])
                assert max(left) < int(columns.num_messages[number])
                messages += len(left)
        assert holes == {}
        assert len(state.partial_batch_acks) == partly_acked
        assert (entries, messages) == (row["msg_backlog"], row["unacked_messages"])


def test_pending_sets_of_cursors_in_ledgers(running):
    """The pending entries equal those after the stop, when the state was in the metadata."""
    after_stop = {(row["managed_ledger"], row["cursor"]): row["pending"] for row in expected("pending")}
    compared = 0
    for row in in_ledgers():
        report = pending_indexes(running, TopicName.of_managed_ledger(row["managed_ledger"]), row["cursor"])
        wanted = after_stop.get((row["managed_ledger"], row["cursor"]), [])
        ours = [(ledger_id, entry_id, deliver_at_ms) for deliver_at_ms, ledger_id, entry_id in report.indexes]
        assert ours == [tuple(found[:3]) for found in wanted]
        compared += len(ours)
    assert compared == 343 + 480 + 536 + 417 + 131 + 16


def test_a_cursor_whose_ledger_is_lost(nodes, disk):
    """A lost cursor ledger is an error with its id, because records in the logs may not be its state."""
    (row,) = (row for row in in_ledgers() if row["cursor"] == "shared-holes")
    lost = {path: value for path, value in nodes.items() if path != ledger_path(row["cursor_ledger"])}
    reader = TopicReader(TopicCatalogue(MetadataDump(lost)), disk.logs, OpenLedgers.RECOVERED)

    with pytest.raises(EntriesUnreadable, match="ledger 65: it holds a cursor's state"):
        cursor_of(reader, row)
