"""Memory of readers of entry logs: pages of a log are given back piece by piece, while the log stays open."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from delayed_tracker.bookkeeper.wire.digest import encode_body
from delayed_tracker.ledger.bookkeeper.log_files import open_log_file, release_pages
from delayed_tracker.ledger.bookkeeper.log_inventory import LogInventory
from tests.ledger.harness.log_files import header, record

ENTRY = bytes(16 << 10)
COUNT = 1_000
"""Entries of the log: four pieces of 4 MB."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "0.log"
    bodies = (encode_body(7, entry, ENTRY, last_add_confirmed=entry - 1, length=0) for entry in range(COUNT))
    file.write_bytes(header() + b"".join(map(record, bodies)))
    return file


def resident_kb(file: Path) -> int:
    """Return the size of the mapped pages of a file that count as memory of this process."""
    maps = Path("/proc/self/smaps").read_text()
    of_file = re.findall(
        rf"^[0-9a-f]+-[0-9a-f]+ .* {re.escape(str(file))}$.*?^Rss: +(\d+) kB$", maps, re.MULTILINE | re.DOTALL
    )
    return sum(map(int, of_file))


def test_an_inventory_keeps_no_pages_of_what_it_has_scanned(log):
    """At most the end of the last piece; the pieces can be read again."""
    with LogInventory([log.parent], [7]) as inventory:
        assert len(inventory.pieces) == 4
        assert resident_kb(log) < 1_024
        assert inventory.last_contiguous_entry(7, -1) == COUNT - 1


def test_released_pages_have_their_bytes_again(log):
    """A page that is given back is mapped again by its next use; bytes in memory stay as they are."""
    mapped, _ = open_log_file(log)
    content = mapped[:]
    assert resident_kb(log) > 8 << 10
    release_pages(mapped, 5_000, len(mapped))
    assert resident_kb(log) < 1_024
    assert mapped[:] == content == log.read_bytes()
    release_pages(content, 0, len(content))
    assert content == log.read_bytes()
