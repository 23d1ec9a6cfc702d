"""Tests of the bucket snapshots that Pulsar stores for a subscription."""

import pytest

from delayed_tracker.ledger.errors import EntriesUnreadable, MetadataInvalid
from delayed_tracker.ledger.queries.stored_snapshots import BucketPointer, bucket_pointers
from tests.ledger.harness.disks import DiskFiles, cursor_at, properties
from tests.ledger.harness.log_files import TOPIC, flipped, ledger_path, message

PREFIX = "#pulsar.internal.delayed.bucket"


def test_pointers_come_from_cursor_properties():
    """Pointers are read from cursor properties, ascending by range, and other properties are ignored."""
    pointers = bucket_pointers({f"{PREFIX}_101_105": "108", "user": "x", f"{PREFIX}_88_88": "91"})

    assert pointers == [BucketPointer(88, 88, 91), BucketPointer(101, 105, 108)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("_1", "2"),
        ("_1_2_3", "4"),
        ("_a_2", "3"),
        ("_1_2", "x"),
        ("_1_2", "-1"),
        ("_1_2", ""),
        ("_1_2", "\u0663"),
        ("", "1"),
    ],
)
def test_impossible_pointers_are_refused(key, value):
    """An invalid pointer is refused with its property and value."""
    with pytest.raises(MetadataInvalid, match="points to no bucket"):
        bucket_pointers({PREFIX + key: value})


@pytest.fixture
def disk(tmp_path):
    files = DiskFiles(tmp_path)
    files.add_ledger(5, [message(deliver_at_ms=50)])
    files.add_ledger(91, [b"metadata", b"first", b"second"], of_topic=False)
    files.add_ledger(92, [b"other metadata", b"only"], of_topic=False)
    files.add_cursor(cursor_at(5, -1, cursor_properties=properties({f"{PREFIX}_9_9": "92", f"{PREFIX}_5_8": "91"})))
    return files


def test_snapshots_are_read_in_range_order(disk):
    """Snapshots are read in range order; entry 0 is the metadata, and the rest are segments."""
    with disk.open() as opened:
        first, second = opened.stored_snapshots(TOPIC, "workers")

    assert (first.bucket_id, first.first_ledger_id, first.last_ledger_id) == (91, 5, 8)
    assert (first.metadata, first.segments) == (b"metadata", (b"first", b"second"))
    assert (second.bucket_id, second.metadata, second.segments) == (92, b"other metadata", (b"only",))


def test_subscription_without_buckets(disk):
    """A subscription without buckets has no snapshots."""
    disk.add_cursor(cursor_at(5, -1), "idle")

    with disk.open() as opened:
        assert opened.stored_snapshots(TOPIC, "idle") == []


def test_damaged_missing_and_empty_snapshots_are_named(disk):
    """The error for a damaged, missing or empty snapshot names its ledger."""
    good = list(disk.records)
    disk.records[2] = flipped(good[2], 40)
    with disk.open() as opened, pytest.raises(EntriesUnreadable, match="entry 91:1 in"):
        opened.stored_snapshots(TOPIC, "workers")

    disk.records = [good[0], *good[4:]]
    with disk.open() as opened, pytest.raises(EntriesUnreadable, match="entries 91:0 to 2: no log has it"):
        opened.stored_snapshots(TOPIC, "workers")

    disk.records = good
    del disk.metadata[ledger_path(91)]
    with (
        disk.open() as opened,
        pytest.raises(EntriesUnreadable, match="ledger 91: BookKeeper's metadata of it is gone"),
    ):
        opened.stored_snapshots(TOPIC, "workers")

    disk.add_ledger(91, [], of_topic=False)
    with disk.open() as opened, pytest.raises(EntriesUnreadable, match="the snapshot's ledger is empty"):
        opened.stored_snapshots(TOPIC, "workers")
