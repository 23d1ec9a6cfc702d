"""Tests of the pending messages of a subscription, derived from ledgers, cursor and markers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.ledger.errors import (
    EntriesUnreadable,
    ErrorPolicy,
    MetadataInvalid,
    SubscriptionNotFound,
    TopicNotFound,
)
from delayed_tracker.ledger.queries.pending import DropReason
from delayed_tracker.ledger.source import open_bookie_disk
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from tests.ledger.harness.disks import DiskFiles, cursor_at
from tests.ledger.harness.log_files import (
    TOPIC,
    cursor_path,
    flipped,
    header,
    ledger_path,
    ledger_value,
    message,
    write_dump,
)
from tests.ledger.metadata.test_cursor import acked_range, hole

COMMIT, ABORT = 21, 22


@pytest.fixture
def disk(tmp_path):
    """Return a disk with two ledgers of three entries each, all delayed and not acknowledged."""
    files = DiskFiles(tmp_path)
    files.add_ledger(5, [message(deliver_at_ms=50 + entry) for entry in range(3)])
    files.add_ledger(8, [message(deliver_at_ms=80 + entry) for entry in range(3)])
    files.add_cursor(cursor_at(5, -1))
    return files


def pending(report):
    return [(ledger_id, entry_id, deliver_at_ms) for deliver_at_ms, ledger_id, entry_id in report.indexes]


def test_everything_delayed_is_pending_in_position_order(disk):
    """All delayed entries of all ledgers are pending in position order if nothing is acknowledged."""
    report = disk.pending()

    assert pending(report) == [(5, 0, 50), (5, 1, 51), (5, 2, 52), (8, 0, 80), (8, 1, 81), (8, 2, 82)]
    assert (report.topic, report.subscription, report.mark_delete) == (TOPIC, "workers", Position(5, -1))
    assert (report.entry_count, report.delayed_count, report.ledger_ids) == (6, 6, (5, 8))
    assert report.bad_entries == ()


def test_acknowledged_entries_are_dropped(disk):
    """Entries are acknowledged by mark-delete position, by range, and by a batch without messages left."""
    disk.add_cursor(
        cursor_at(
            5,
            0,
            individual_deleted_messages=[acked_range((5, 1), (5, 2))],
            batched_entry_deletion_index_info=[hole(8, 0, 0), hole(8, 1, 2)],
        )
    )
    report = disk.pending()

    assert pending(report) == [(5, 1, 51), (8, 1, 81), (8, 2, 82)]
    assert list(report.dropped) == [(50, 5, 0), (52, 5, 2), (80, 8, 0)]
    assert set(report.drop_reason.tolist()) == {DropReason.ACKNOWLEDGED}
    assert (report.acked_count, report.delayed_count, report.partly_acked_count) == (3, 6, 1)


def test_ledgers_below_the_mark_delete_position_are_not_read(disk):
    """Ledgers below the mark-delete position are not read, so damage there has no effect."""
    disk.add_cursor(cursor_at(8, 1))
    disk.records[0] = flipped(disk.records[0], 60)
    report = disk.pending()

    assert pending(report) == [(8, 2, 82)]
    assert (report.ledger_ids, report.entry_count, report.acked_count) == ((8,), 3, 2)


def test_acknowledgements_may_be_ignored(disk):
    """If acknowledgements are ignored, the subscription need not exist."""
    disk.add_cursor(cursor_at(8, 2))
    assert pending(disk.pending()) == []
    assert len(disk.pending(ignore_acks=True).indexes) == 6
    assert disk.pending(ignore_acks=True).mark_delete == BEFORE_ALL

    del disk.metadata[cursor_path("workers")]
    assert len(disk.pending(ignore_acks=True).indexes) == 6


def test_only_delayed_messages_count(tmp_path):
    """Plain messages and markers are not pending, and a negative deadline is due."""
    files = DiskFiles(tmp_path)
    files.add_ledger(
        5,
        [
            message(),
            message(deliver_at_ms=-7),
            message(deliver_at_ms=0),
            message(marker=10, deliver_at_ms=9),
            message(),
        ],
    )
    files.add_cursor(cursor_at(5, -1))
    report = files.pending()

    assert pending(report) == [(5, 1, 0), (5, 2, 0)]
    assert (report.entry_count, report.delayed_count, report.marker_count) == (5, 2, 1)


def test_transactions_are_resolved_by_markers_in_later_ledgers(tmp_path):
    """Messages of committed transactions are pending, those of aborted or open ones are not, even if acknowledged."""
    files = DiskFiles(tmp_path)
    files.add_ledger(5, [message(deliver_at_ms=50 + txn, txn=(1, txn)) for txn in range(4)])
    files.add_ledger(8, [message(marker=COMMIT, txn=(1, 0)), message(marker=ABORT, txn=(1, 1))])
    files.add_ledger(9, [message(marker=COMMIT, txn=(1, 3))])
    files.add_cursor(cursor_at(5, -1, individual_deleted_messages=[acked_range((5, 0), (5, 3))]))
    report = files.pending()

    assert pending(report) == [(5, 0, 50)]
    assert report.drop_reason.tolist() == [DropReason.ABORTED, DropReason.OPEN_TRANSACTION, DropReason.ACKNOWLEDGED]
    assert (report.aborted_count, report.open_transaction_count, report.acked_count) == (1, 1, 1)
    assert report.marker_count == 3


def test_all_markers_are_sorted_once(tmp_path, monkeypatch):
    """Transactions of many ledgers cost one sorting of all markers, not one for each ledger."""
    sorted_rows = []
    unique = np.unique

    def counted(array, **options):
        sorted_rows.append(len(array))
        return unique(array, **options)

    files = DiskFiles(tmp_path)
    for ledger_id in range(20):
        files.add_ledger(
            ledger_id, [message(deliver_at_ms=50, txn=(1, ledger_id)), message(marker=COMMIT, txn=(1, ledger_id))]
        )
    with files.open() as disk:
        monkeypatch.setattr(np, "unique", counted)
        report = disk.pending(TOPIC, "workers", ignore_acks=True)
    assert (len(report.indexes), report.entry_count) == (20, 40)
    assert max(sorted_rows) == 40
    assert sorted_rows.count(40) == 1


def test_a_deadline_on_a_batch_is_the_entrys(tmp_path):
    """A deadline on a batch, which some clients set, gives one index for the entry."""
    files = DiskFiles(tmp_path)
    files.add_ledger(5, [message(deliver_at_ms=9, batch=3)])
    files.add_cursor(cursor_at(5, -1))

    assert pending(files.pending()) == [(5, 0, 9)]


def test_topic_without_ledgers(tmp_path):
    """A topic without ledgers has nothing pending."""
    files = DiskFiles(tmp_path)
    files.add_ledger(5, [message()], of_topic=False)
    files.add_cursor(cursor_at(5, -1))
    report = files.pending()

    assert (pending(report), report.ledger_ids, report.delayed_count) == ([], (), 0)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda record: flipped(record, len(record) - 1), "the CRC32C digest does not fit, and no log has a good copy"),
        (lambda record: b"", "no log has it"),
    ],
    ids=["flipped", "missing"],
)
def test_bad_entries_fail_or_are_skipped(disk, damage, reason):
    """FAIL raises with ledger and entry of a bad entry, and SKIP leaves the entry out and lists it."""
    disk.records[4] = damage(disk.records[4])

    with pytest.raises(
        EntriesUnreadable, match=r"entry 8:1.*; give the directories of all bookies, or on_error=skip to go on"
    ) as caught:
        disk.pending()
    assert [(bad.ledger_id, bad.entry_id, bad.reason) for bad in caught.value.bad_entries] == [(8, 1, reason)]

    report = disk.pending(on_error=ErrorPolicy.SKIP)
    assert pending(report) == [(5, 0, 50), (5, 1, 51), (5, 2, 52), (8, 0, 80), (8, 2, 82)]
    assert report.bad_entries == caught.value.bad_entries
    assert report.entry_count == 5


def test_bad_message_checksum_is_a_bad_entry(tmp_path):
    """A wrong CRC32C that the bookie stored as it was is a bad entry with file and offset."""
    files = DiskFiles(tmp_path)
    good = message(deliver_at_ms=9)
    files.add_ledger(5, [good, flipped(good, len(good) - 1), good[:12]])
    files.add_cursor(cursor_at(5, -1))

    with pytest.raises(EntriesUnreadable, match=r"entry 5:1 in .*0\.log at byte 1\d\d\d: CRC32C of the message"):
        files.pending()
    report = files.pending(on_error=ErrorPolicy.SKIP)
    assert pending(report) == [(5, 0, 9)]
    assert [bad.entry_id for bad in report.bad_entries] == [1, 2]
    assert report.bad_entries[1].reason.startswith("cut short")


def test_a_dropped_ledger_is_noticed(disk):
    """A missing ledger is detected, because the topic's metadata lists it."""
    del disk.records[:3]

    with pytest.raises(EntriesUnreadable, match="entries 5:0 to 2: no log has it"):
        disk.pending()


def test_a_topic_that_must_be_there_is_looked_for_first(disk):
    """A missing topic is reported before the logs are scanned, which takes long."""
    dump = write_dump(disk.directory / "dump.jsonl.gz", disk.metadata)
    with pytest.raises(TopicNotFound, match="persistent://lab/main/nothing"):
        open_bookie_disk([disk.directory / "nowhere"], dump, topic="persistent://lab/main/nothing")


def test_unknown_topic_and_subscription(disk):
    """The errors for an unknown topic and an unknown subscription contain the name."""
    with disk.open() as opened:
        with pytest.raises(TopicNotFound, match="persistent://lab/main/nothing"):
            opened.pending("persistent://lab/main/nothing", "workers")
        with pytest.raises(SubscriptionNotFound, match="'nobody'; it has workers"):
            opened.pending(TOPIC, "nobody")
        assert opened.topics() == [TOPIC]
        assert opened.subscriptions(TOPIC) == ["workers"]


def test_damaged_ledger_metadata_is_an_error_under_any_policy(disk):
    """Damaged ledger metadata is an error under any policy, because the ledger cannot be read without it."""
    disk.metadata[ledger_path(8)] = b"BookieMetadataFormatVersion\t9\n"

    with pytest.raises(MetadataInvalid, match="ledger 8 has format version '9'"):
        disk.pending(on_error=ErrorPolicy.SKIP)


@pytest.mark.long
def test_a_log_cut_short_misses_entries_of_closed_ledgers(disk):
    """A log that is cut at any byte lists all missing entries of closed ledgers."""
    log = header() + b"".join(disk.records)
    for length in range(0, len(log), 7):
        cut = log[:length]
        with pytest.raises(EntriesUnreadable):
            disk.pending(log=cut)
        report = disk.pending(log=cut, on_error=ErrorPolicy.SKIP)
        assert len(report.indexes) + sum(bad.entry_count for bad in report.bad_entries) == 6


def test_a_log_cut_short_is_where_to_look_for_missing_entries(disk):
    """The reason for a missing entry names the file and offset of the record that is cut short."""
    log = header() + b"".join(disk.records)
    last = len(log) - len(disk.records[-1])
    with pytest.raises(
        EntriesUnreadable, match=rf"entry 8:2: no log has it; .*0\.log is cut short at byte {last}; give"
    ):
        disk.pending(log=log[:-7])


def test_progress_counts_entries(disk):
    """Progress counts entries and ends at the total."""
    calls = []
    disk.pending(progress=lambda done, total: calls.append((done, total)))

    assert calls == [(3, 6), (6, 6)]


def test_open_ledger_as_live_or_recovered(tmp_path):
    """Live reads up to the last entry known to be acknowledged, and recovered reads up to the last entry on disk."""
    files = DiskFiles(tmp_path)
    files.add_ledger(5, [message(deliver_at_ms=50)])
    files.add_ledger(8, [message(deliver_at_ms=80 + entry) for entry in range(4)], closed=False)
    files.add_cursor(cursor_at(5, -1))

    assert pending(files.pending(open_ledgers=OpenLedgers.LIVE)) == [(5, 0, 50), (8, 0, 80), (8, 1, 81), (8, 2, 82)]
    assert pending(files.pending()) == [(5, 0, 50), (8, 0, 80), (8, 1, 81), (8, 2, 82), (8, 3, 83)]


def test_acknowledged_entry_of_an_open_ledger_must_be_there(tmp_path):
    """A missing entry up to the last add confirmed is bad, and entries behind a later gap do not count."""
    files = DiskFiles(tmp_path)
    records = files.add_ledger(8, [message(deliver_at_ms=80 + entry) for entry in range(6)], closed=False)
    files.add_cursor(cursor_at(8, -1))

    files.records = [records[0], *records[2:]]
    with pytest.raises(EntriesUnreadable, match="entry 8:1: no log has it"):
        files.pending()

    # The writer of entry 3 confirmed entry 2, so without 4 and 5 a gap may start there.
    files.records = [*records[:3], records[3]]
    assert len(files.pending().indexes) == 4
    files.records = [*records[:2]]
    assert len(files.pending().indexes) == 2


def test_damage_in_a_log_matters_for_open_ledgers(tmp_path):
    """Damage in a log is a bad entry for an open ledger, because an entry lost there would not be missed."""
    files = DiskFiles(tmp_path)
    files.add_ledger(8, [message(deliver_at_ms=80)], closed=False)
    files.add_cursor(cursor_at(8, -1))
    files.records.append(bytes.fromhex("00000007") + b"\xff" * 60)

    with pytest.raises(EntriesUnreadable, match="a record cannot have 7 bytes"):
        files.pending()
    report = files.pending(on_error=ErrorPolicy.SKIP)
    assert pending(report) == [(8, 0, 80)]
    assert len(report.bad_entries) == 1


def test_ledger_whose_own_metadata_is_gone(tmp_path):
    """A ledger without metadata is read if the topic recorded its end; otherwise its missing metadata is reported."""
    files = DiskFiles(tmp_path)
    files.add_ledger(5, [message(deliver_at_ms=50)])
    files.add_ledger(8, [message(deliver_at_ms=80)], closed=False)
    files.add_cursor(cursor_at(5, -1))

    del files.metadata[ledger_path(5)]
    assert pending(files.pending()) == [(5, 0, 50), (8, 0, 80)]

    del files.metadata[ledger_path(8)]
    with pytest.raises(EntriesUnreadable, match="ledger 8: BookKeeper's metadata of it is gone"):
        files.pending()
    assert pending(files.pending(on_error=ErrorPolicy.SKIP)) == [(5, 0, 50), (8, 0, 80)]


def cursor_entry(ledger_id: int, entry_id: int) -> bytes:
    return pb.PositionInfo(ledger_id=ledger_id, entry_id=entry_id).SerializeToString()


@pytest.fixture
def cursor_in_ledger(disk):
    """Store the cursor's state in ledger 12, with three updates and a stale position in the node."""
    disk.add_ledger(12, [cursor_entry(5, 0), cursor_entry(5, 1), cursor_entry(8, 0)], of_topic=False)
    info = cursor_at(5, -1)
    info.cursors_ledger_id = 12
    disk.add_cursor(info)
    return disk


def test_cursor_state_is_the_last_entry_of_its_ledger(cursor_in_ledger):
    """The cursor's state is the last entry of its ledger and not the position in the node."""
    report = cursor_in_ledger.pending()

    assert report.mark_delete == Position(8, 0)
    assert pending(report) == [(8, 1, 81), (8, 2, 82)]


def test_damaged_cursor_entry_falls_back_to_the_one_before(cursor_in_ledger):
    """Under SKIP, the entry before a damaged cursor entry counts, and later acknowledgements are pending again."""
    cursor_in_ledger.records[-1] = flipped(cursor_in_ledger.records[-1], 41)

    with pytest.raises(EntriesUnreadable, match="entry 12:2"):
        cursor_in_ledger.pending()
    report = cursor_in_ledger.pending(on_error=ErrorPolicy.SKIP)
    assert report.mark_delete == Position(5, 1)
    assert [(bad.ledger_id, bad.entry_id) for bad in report.bad_entries] == [(12, 2)]


def test_a_cursor_ledger_that_claims_every_entry(cursor_in_ledger):
    """The search for a cursor's state ends after some thousand entries, whatever the metadata claim."""
    cursor_in_ledger.metadata[ledger_path(12)] = ledger_value(last_entry_id=4_097)
    assert cursor_in_ledger.pending(on_error=ErrorPolicy.SKIP).mark_delete == Position(8, 0)

    cursor_in_ledger.metadata[ledger_path(12)] = ledger_value(last_entry_id=2**32 - 1)
    with pytest.raises(EntriesUnreadable, match="entry 12:4294967295: no log has it"):
        cursor_in_ledger.pending()
    report = cursor_in_ledger.pending(on_error=ErrorPolicy.SKIP)
    assert report.mark_delete == Position(5, -1)
    assert sum(bad.entry_count for bad in report.bad_entries) == 2**32
    assert "not searched, since none of the 4096 entries" in report.bad_entries[-1].reason


def test_cursor_entry_that_does_not_parse(disk):
    """A cursor entry that is stored correctly but does not parse is a bad entry."""
    disk.add_ledger(12, [cursor_entry(5, 0), b"\xff\xff"], of_topic=False)
    info = cursor_at(5, -1)
    info.cursors_ledger_id = 12
    disk.add_cursor(info)

    with pytest.raises(EntriesUnreadable, match=r"entry 12:1 .*PositionInfo does not parse"):
        disk.pending()
    assert disk.pending(on_error=ErrorPolicy.SKIP).mark_delete == Position(5, 0)


def test_cursor_ledger_that_was_closed_empty_leaves_the_fallback(disk):
    """If the cursor's ledger was closed empty, the position in the node counts, as in Pulsar."""
    info = cursor_at(5, 1)
    info.cursors_ledger_id = 12
    disk.add_cursor(info)
    disk.add_ledger(12, [], of_topic=False)

    assert disk.pending().mark_delete == Position(5, 1)


def test_lost_cursor_ledger_is_an_error(disk):
    """A lost cursor ledger is an error; under SKIP it is listed, and the position in the node counts, as in Pulsar."""
    disk.add_ledger(12, [cursor_entry(8, 0)], of_topic=False)
    info = cursor_at(5, 1)
    info.cursors_ledger_id = 12
    disk.add_cursor(info)

    # Records that remain of a deleted ledger are not the cursor's state.
    del disk.metadata[ledger_path(12)]
    with pytest.raises(
        EntriesUnreadable, match="ledger 12: it holds a cursor's state, and BookKeeper's metadata of it is"
    ):
        disk.pending()
    report = disk.pending(on_error=ErrorPolicy.SKIP)
    assert report.mark_delete == Position(5, 1)
    assert [(bad.ledger_id, bad.entry_id) for bad in report.bad_entries] == [(12, None)]


@pytest.mark.parametrize("open_ledgers", OpenLedgers)
def test_open_cursor_ledger_that_no_disk_has_is_an_error(disk, open_ledgers):
    """An open cursor ledger without entries on the given disks is an error, because Pulsar stores an entry first."""
    disk.add_ledger(12, [], closed=False, of_topic=False)
    info = cursor_at(5, 1)
    info.cursors_ledger_id = 12
    disk.add_cursor(info)

    with pytest.raises(EntriesUnreadable, match="entry 12:0: no log has it"):
        disk.pending(open_ledgers=open_ledgers)
    report = disk.pending(open_ledgers=open_ledgers, on_error=ErrorPolicy.SKIP)
    assert report.mark_delete == Position(5, 1)


def test_first_entry_of_an_open_cursor_ledger_counts_while_its_writer_lives(disk):
    """The first entry of an open cursor ledger counts without confirmation, because the node names the ledger."""
    disk.add_ledger(12, [cursor_entry(5, 2)], closed=False, of_topic=False)
    info = cursor_at(5, 1)
    info.cursors_ledger_id = 12
    disk.add_cursor(info)

    assert disk.pending(open_ledgers=OpenLedgers.LIVE).mark_delete == Position(5, 2)


def test_subscriptions_of_any_name(disk):
    """Subscriptions with spaces, slashes and percent signs are found."""
    disk.add_cursor(cursor_at(8, 1), "night shift/50%+")

    with disk.open() as opened:
        assert opened.subscriptions(TOPIC) == ["night shift/50%+", "workers"]
        assert pending(opened.pending(TOPIC, "night shift/50%+")) == [(8, 2, 82)]


entries = st.fixed_dictionaries(
    {},
    optional={
        "deliver_at_ms": st.integers(-5, 100),
        "txn": st.tuples(st.just(0), st.integers(0, 3)),
        "marker": st.sampled_from([10, COMMIT, ABORT]),
    },
)
topics = st.lists(st.lists(entries, max_size=8), max_size=4)


@settings(max_examples=60)
@given(ledgers=topics, mark_delete=st.integers(-1, 30), acked=st.sets(st.integers(0, 30)))
def test_pending_equals_a_loop_over_all_entries(tmp_path_factory, ledgers, mark_delete, acked):
    """For any topic and cursor, the pending columns equal the result of a plain loop."""
    rows = [((ledger, entry), row) for ledger, rows in enumerate(ledgers) for entry, row in enumerate(rows)]
    places = [place for place, _ in rows]
    md = places[min(mark_delete, len(places) - 1)] if places and mark_delete >= 0 else (0, -1)
    singly = {places[number] for number in acked if number < len(places)}
    # Ledgers below the mark-delete position are not read, so a marker there belongs to messages that are gone, too.
    outcome = {
        row["txn"]: row["marker"]
        for place, row in rows
        if row.get("marker") in {COMMIT, ABORT} and "txn" in row and place[0] >= md[0]
    }
    expected = [
        (*place, max(row["deliver_at_ms"], 0))
        for place, row in rows
        if "deliver_at_ms" in row
        and "marker" not in row
        and place > md
        and place not in singly
        and ("txn" not in row or outcome.get(row["txn"]) == COMMIT)
    ]

    files = DiskFiles(tmp_path_factory.mktemp("disk"))
    for ledger_id, payload_rows in enumerate(ledgers):
        files.add_ledger(ledger_id, [message(**row) for row in payload_rows])
    ranges = [acked_range((ledger, entry - 1), (ledger, entry)) for ledger, entry in sorted(singly)]
    files.add_cursor(cursor_at(*md, individual_deleted_messages=ranges))
    report = files.pending()

    assert pending(report) == expected
    assert report.delayed_count == len(report.indexes) + len(report.dropped)
