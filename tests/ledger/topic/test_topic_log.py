"""Tests of a topic as a sequence of ledgers."""

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import LedgerNotFound
from tests.ledger.harness.disks import DiskFiles
from tests.ledger.harness.log_files import TOPIC


@pytest.fixture
def log(tmp_path):
    disk = DiskFiles(tmp_path)
    disk.add_ledger(3, [b"a", b"bb"])
    disk.add_ledger(5, [])
    disk.add_ledger(9, [b"ccc"], closed=False)
    with disk.open() as opened:
        yield opened.topic_log(TOPIC)


def payloads(pieces) -> list[bytes]:
    return [piece.entries.payload(row) for piece in pieces for row in range(len(piece.entries))]


def test_size_and_ends_are_known_without_reading(log):
    """Size and ends are known without reading, and empty ledgers do not count."""
    assert [ledger.last_entry_id for ledger in log.ledgers] == [1, -1, 0]
    assert [ledger.closed for ledger in log.ledgers] == [True, True, False]
    assert (log.entry_count, log.first, log.last) == (3, Position(3, 0), Position(9, 0))


def test_scan_begins_anywhere(log):
    """A scan begins at the beginning, inside a ledger, at a missing ledger, or behind the end."""
    assert payloads(log.scan()) == [b"a", b"bb", b"ccc"]
    assert payloads(log.scan(Position(3, 1))) == [b"bb", b"ccc"]
    assert payloads(log.scan(Position(4, 7))) == [b"ccc"]
    assert payloads(log.scan(Position(3, -1))) == [b"a", b"bb", b"ccc"]
    assert payloads(log.scan(Position(9, 1))) == []


def test_scan_ends_anywhere(log):
    """A scan ends inside a ledger, at a missing ledger, before the beginning, or behind the end."""
    assert payloads(log.scan(through=Position(3, 0))) == [b"a"]
    assert payloads(log.scan(through=Position(4, 0))) == [b"a", b"bb"]
    assert payloads(log.scan(through=Position(9, -1))) == [b"a", b"bb"]
    assert payloads(log.scan(through=Position(2, 9))) == []
    assert payloads(log.scan(Position(3, 1), Position(9, 7))) == [b"bb", b"ccc"]
    assert payloads(log.scan(Position(9, 0), Position(3, 1))) == []


def test_a_ledger_that_is_not_there_is_an_error(log):
    """A missing ledger is an error that lists the existing ones."""
    with pytest.raises(LedgerNotFound, match="has no ledger 4; it has 3, 5, 9"):
        log.ledger(4)
