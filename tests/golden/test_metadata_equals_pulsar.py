"""Golden tests of topics and ledgers in the metadata, which equal the reading of Pulsar's own classes."""

import base64

from delayed_tracker.ledger.metadata.digest import LedgerDigest
from delayed_tracker.ledger.topic_name import TopicName
from tests.golden.pulsar_pack import expected


def custom_value(recorded: str) -> bytes:
    """Return one value of a ledger's custom metadata; a value that is not text was recorded as base64."""
    return base64.b64decode(recorded[len("base64:") :]) if recorded.startswith("base64:") else recorded.encode()


def test_every_topic_and_its_ledgers(disk, reader):
    """Order, ends and properties are equal; the stored order of four offloaded topics is not ascending."""
    of_messages = [
        row for row in expected("topics") if TopicName.of_managed_ledger(row["managed_ledger"]).holds_messages
    ]
    assert sorted(disk.topics()) == sorted(
        str(TopicName.of_managed_ledger(row["managed_ledger"])) for row in of_messages
    )
    # Pulsar's own topics of transactions were recorded without a name.
    named = [row for row in expected("topics") if row["topic"] is not None]
    assert [str(TopicName.of_managed_ledger(row["managed_ledger"])) for row in named] == [row["topic"] for row in named]
    assert len(named) == 44

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
    """BookKeeper's metadata, the end of each ledger and the end by its records are equal, and every entry is readable.

    Opening without recovery gives the end of a closed ledger. The records give an earlier end: each has the last add
    confirmed of the time when it was sent, and nothing was written behind the last one.
    """
    confirmed: dict[int, int] = {}
    for record in expected("entry_log_records"):
        confirmed[record["ledger"]] = max(confirmed.get(record["ledger"], -1), record["lac"])
    for row in expected("ledgers"):
        metadata = disk.catalogue.ledger(row["ledger"])
        digest = LedgerDigest.of(metadata)
        assert (metadata.state.name, metadata.digest_type.name) == (row["state"], row["digest"])
        assert (metadata.last_entry_id, metadata.payload_bytes) == (row["last_entry"], row["length"])
        assert dict(metadata.custom) == {key: custom_value(value) for key, value in row["custom_metadata"].items()}
        assert disk.logs.last_contiguous_entry(row["ledger"], -1) == row["entries_in_logs"] - 1
        payloads = reader.payloads(reader.span(row["ledger"]))
        assert len(payloads) == row["read_by_client_same"]
        assert sum(map(len, payloads)) == row["length"]
        assert row["read_by_client_differ"] == 0
        span = reader.span(row["ledger"])
        assert span.end_known
        assert span.last_entry_id == row["lac_without_recovery"]
        assert disk.logs.last_add_confirmed(row["ledger"], digest) == confirmed.get(row["ledger"], -1)
