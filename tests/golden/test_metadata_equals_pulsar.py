"""Golden: topics, ledgers and cursors of a real Pulsar equal what its own classes say about them."""

from tests.golden.pulsar_pack import expected
from tracker.core.columns import Position
from tracker.ledger.digest import LedgerDigest
from tracker.ledger.errors import ErrorPolicy
from tracker.ledger.topic_name import TopicName

COMPACTED_TO = "pulsar/compactedTo"
"""The one custom value that is no text."""


def test_every_topic_and_its_ledgers(disk, reader):
    """Order, ends and properties; the stored order of four offloaded topics is not that of their ids."""
    of_messages = [
        row for row in expected("topics") if TopicName.of_managed_ledger(row["managed_ledger"]).holds_messages
    ]
    assert sorted(disk.topics()) == sorted(
        str(TopicName.of_managed_ledger(row["managed_ledger"])) for row in of_messages
    )
    assert {row["topic"] for row in of_messages} - {None} <= set(disk.topics())

    out_of_order = 0
    for row in expected("topics"):
        topic = TopicName.of_managed_ledger(row["managed_ledger"])
        managed = disk.catalogue.managed_ledger(topic)
        stored_order = [ledger["ledger"] for ledger in row["ledgers"]]
        out_of_order += stored_order != sorted(stored_order)
        assert managed.properties == row["properties"]
        by_id = {ledger["ledger"]: ledger for ledger in row["ledgers"]}
        assert [ledger.ledger_id for ledger in managed.ledgers] == sorted(by_id)
        for ledger, span in zip(managed.ledgers, reader.topic_spans(topic), strict=True):
            wanted = by_id[ledger.ledger_id]
            assert (ledger.entry_count, ledger.payload_bytes) == (wanted["entries"], wanted["size"])
            assert ledger.closed_at_ms == wanted["timestamp"]
            assert ledger.offloaded == wanted.get("offload", {}).get("complete", False)
            assert span.last_entry_id == wanted["bookkeeper_last_entry"]
            assert span.state.name == wanted["bookkeeper_ledger"]
    assert out_of_order == 4


def test_every_ledger(disk, reader):
    """BookKeeper's metadata, the last add confirmed that an open without recovery sees, and every entry readable."""
    for row in expected("ledgers"):
        metadata = disk.catalogue.ledger(row["ledger"])
        digest = LedgerDigest.of(metadata)
        assert (metadata.state.name, metadata.digest_type.name) == (row["state"], row["digest"])
        assert (metadata.last_entry_id, metadata.payload_bytes) == (row["last_entry"], row["length"])
        text = {key: value for key, value in row["custom_metadata"].items() if key != COMPACTED_TO}
        assert {key: metadata.custom[key].decode() for key in text} == text
        assert set(metadata.custom) == set(row["custom_metadata"])
        assert disk.logs.last_without_gap(row["ledger"], -1) == row["entries_in_logs"] - 1
        payloads = reader.payloads(reader.span(row["ledger"]))
        assert len(payloads) == row["read_by_client_same"]
        assert sum(map(len, payloads)) == row["length"]
        assert row["read_by_client_differ"] == 0
        # A closed ledger answers with its end; its last entries were confirmed by nothing that was written after them.
        assert disk.logs.last_add_confirmed(row["ledger"], digest) <= row["lac_without_recovery"]


def test_every_cursor(disk, reader):
    """Mark-delete position, acknowledged ranges and properties, as Pulsar recovered them."""
    compared = 0
    for row in expected("cursors"):
        # Pulsar's own cursors of topics without traffic move to a new ledger as soon as the topic is opened.
        if row["managed_ledger"].endswith(("__change_events", "__transaction_buffer_snapshot")):
            continue
        topic = TopicName.of_managed_ledger(row["managed_ledger"])
        spans = reader.topic_spans(topic)
        state = reader.cursor(topic, row["cursor"], spans, on_error=ErrorPolicy.FAIL).state
        last_entry_ids = {span.ledger_id: span.last_entry_id for span in spans}

        stored = tuple(map(int, row["stored"]["mark_delete"].split(":")))
        assert state.mark_delete == stored
        assert at_start_of_next_ledger(state.mark_delete, last_entry_ids) == at_start_of_next_ledger(
            Position(row["mark_delete_ledger"], row["mark_delete_entry"]), last_entry_ids
        )
        ranges = row["individually_deleted_open_closed"]
        assert {ledger for ledger, _, other, _ in ranges if ledger != other} == set()
        assert list(state.acked.to_columns()) == [
            (ledger, entry) for ledger, lower, _, upper in ranges for entry in range(lower + 1, upper + 1)
        ]
        assert len(state.batch_holes) == row["stored"]["batch_infos"]
        assert dict(state.properties) == row["properties"]
        assert dict(state.cursor_properties) == row["cursor_properties"]
        assert state.state_ledger_id is None
        compared += 1

    assert compared == 16


def at_start_of_next_ledger(position: Position, last_entry_ids: dict[int, int]) -> Position:
    """The end of a ledger and the start of the next are the same place."""
    later = [ledger_id for ledger_id in last_entry_ids if ledger_id > position.ledger_id]
    if later and position.entry_id == last_entry_ids.get(position.ledger_id):
        return Position(min(later), -1)
    return position
