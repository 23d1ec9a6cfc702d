"""The ledgers that a real Pulsar wrote, with its own answers; see tests/data/pulsar-a/README.md."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.topic.topic_reader import LedgerRead, TopicReader
from delayed_tracker.ledger.topic_name import TopicName

PACK = Path(__file__).resolve().parents[1] / "data" / "pulsar-a"
BOOKIE = PACK / "bookie"
METADATA = PACK / "metadata.jsonl.gz"


def expected(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of one file of answers."""
    with gzip.open(PACK / "expected" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def metadata_nodes() -> dict[str, bytes]:
    """Return path and value of every node of the metadata store."""
    with gzip.open(METADATA, "rt", encoding="utf-8") as lines:
        return {row["path"]: base64.b64decode(row["value"] or "") for row in map(json.loads, lines)}


def read_topic(reader: TopicReader, topic: str) -> list[LedgerRead]:
    """Read all ledgers of a topic. A bad entry fails the test."""
    return list(reader.read(reader.topic_spans(TopicName.parse(topic)), on_error=ErrorPolicy.FAIL))
