"""Tests of the harness: Pulsar's classes read here what they read when the pack was recorded."""

import pytest

from delayed_tracker.ledger.source import BookieDisk, open_bookie_disk
from tests.golden.pulsar_pack import BOOKIE, METADATA, expected
from tests.jvm.pulsar_reads import PulsarReads, Row

IDS = {"ledger", "entry"}
"""Fields of the request and not of the answer."""
NOT_ASKED = {
    "compacted_topic",
    "compacted_ledger",
    "compacted_entry",
    "compacted_payload_sha256",
    "uncompressed_actual",
    "left_over",
}


@pytest.fixture(scope="module")
def disk():
    with open_bookie_disk([BOOKIE], METADATA) as opened:
        yield opened


def test_entries_of_topics(pulsar: PulsarReads, disk: BookieDisk):
    """Every tenth entry gives all recorded fields."""
    recorded = {(row["topic"], row["ledger"], row["entry"]): row for row in expected("entries")}
    compared = 0
    for topic in sorted({topic for topic, _, _ in recorded}):
        for piece in disk.topic_log(topic).scan():
            for row, position in enumerate(piece.entries.positions):
                if position.entry_id % 10 == 0:
                    compare(recorded[topic, *position], pulsar.entry(piece.entries.payload(row)), but={"topic", *IDS})
                    compared += 1
    assert compared > 600


@pytest.mark.parametrize("topic", ["persistent://lab/main/compacted", "persistent://lab/main/compacted-enc"])
def test_entries_of_compacted_ledgers(pulsar: PulsarReads, disk: BookieDisk, topic):
    """Every compacted entry gives all recorded fields, including its slots."""
    ledger = disk.compacted_log(topic).ledger
    stored = ledger.read(0, ledger.last_entry_id).entries
    recorded = [row for row in expected("compacted_entries") if row["compacted_topic"] == topic]
    assert len(stored) == len(recorded) > 0
    for row, wanted in enumerate(recorded):
        compare(wanted, pulsar.compacted(stored.payload(row)), but=NOT_ASKED)


def compare(recorded: Row, theirs: Row, *, but: set[str]) -> None:
    """Compare all recorded fields except ``but``."""
    assert {name: theirs.get(name, "no answer") for name in recorded if name not in but} == {
        name: value for name, value in recorded.items() if name not in but
    }
