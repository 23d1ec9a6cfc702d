"""Fixtures of the golden tests: the disk of the pack, opened once."""

from collections.abc import Iterator

import pytest

from delayed_tracker.ledger.source import BookieDisk, open_bookie_disk
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers, TopicReader
from tests.golden.pulsar_pack import BOOKIE, METADATA


@pytest.fixture(scope="session")
def disk() -> Iterator[BookieDisk]:
    with open_bookie_disk([BOOKIE], METADATA) as opened:
        yield opened


@pytest.fixture(scope="session")
def reader(disk: BookieDisk) -> TopicReader:
    return TopicReader(disk.catalogue, disk.logs, OpenLedgers.RECOVERED)
