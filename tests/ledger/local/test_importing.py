"""Tests of copying topics into local ledgers with the same payloads and positions."""

from dataclasses import replace
from uuid import UUID

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.entry.interceptor_names import load_interceptors
from delayed_tracker.ledger.entry.interceptors import broker_metadata_of
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy, LedgerFileInvalid
from delayed_tracker.ledger.local.errors import LedgerDamaged
from delayed_tracker.ledger.local.files.layout import LedgerDirectory
from delayed_tracker.ledger.local.importing import import_topic
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.offload.blob_source import open_blobs
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.topic_log import TopicLog
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.harness.disks import DiskFiles
from tests.ledger.harness.log_files import entry_log, flipped, message
from tests.ledger.local.disks import TOPIC, FailingDisk, QuickDisk, stored
from tests.ledger.offload.blob_files import BlobWriter

LEDGERS = {3: [message(index=0), message(index=3, batch=3)], 5: [], 9: [b"", b"no message", message(index=9)]}


@pytest.fixture
def disk(tmp_path):
    files = DiskFiles(tmp_path / "bookie")
    files.directory.mkdir()
    for ledger_id, payloads in LEDGERS.items():
        files.add_ledger(ledger_id, payloads, closed=ledger_id < 9)
    return files


@pytest.fixture
def log(disk):
    with disk.open() as opened:
        yield opened.topic_log(TOPIC)


def copied(log: TopicLog, directory, **options):
    return import_topic(log, directory, now_ms=5, **{"disk": QuickDisk(), **options})


def rows(*ledger_ids: int) -> list[tuple[Position, bytes]]:
    return [
        (Position(ledger_id, entry_id), payload)
        for ledger_id in ledger_ids
        for entry_id, payload in enumerate(LEDGERS[ledger_id])
    ]


def test_a_topic_is_copied_as_it_is(log, tmp_path):
    """A topic is copied with its frames; empty ledgers are left out, and an open ledger is closed in the copy."""
    progress = []
    report = copied(log, tmp_path / "copy", progress=lambda done, in_all: progress.append((done, in_all)))
    assert (report.copied, report.present, report.entry_count, report.bad_entries) == ((3, 9), (), 5, ())
    assert progress == [(2, 5), (5, 5)]
    assert stored(tmp_path / "copy") == rows(3, 9)
    with open_local_ledgers(tmp_path / "copy") as source:
        copy = source.topic_log(TOPIC)
    assert [ledger.closed for ledger in copy.ledgers] == [True, True]
    assert [ledger.payload_bytes for ledger in copy.ledgers] == [sum(map(len, LEDGERS[number])) for number in (3, 9)]


def test_entries_appended_later_come_behind(log, tmp_path):
    """Entries appended after an import go to a ledger with a higher id, and their message index continues."""
    copied(log, tmp_path / "copy")
    interceptors = load_interceptors(["index"])
    with open_writer(tmp_path / "copy", TOPIC, now_ms=6, interceptors=interceptors, disk=QuickDisk()) as writer:
        assert list(writer.append_many([b"later"], now_ms=6)) == [Position(10, 0)]
    assert broker_metadata_of(stored(tmp_path / "copy")[-1][1]).index == 10


def test_new_ledgers_of_other_topics_get_higher_ids(log, tmp_path):
    """New ledgers of other topics get higher ids than imported ledgers."""
    for expected in (0, 10):
        with open_writer(tmp_path / "copy", "other", now_ms=1, disk=QuickDisk()) as writer:
            assert list(writer.append_many([b"a"], now_ms=1)) == [Position(expected, 0)]
        copied(log, tmp_path / "copy")


def test_what_is_there_is_passed_over(log, tmp_path):
    """Importing a topic twice changes nothing."""
    copied(log, tmp_path / "copy")
    progress = []
    report = copied(log, tmp_path / "copy", progress=lambda done, in_all: progress.append((done, in_all)))
    assert (report.copied, report.present, report.entry_count) == ((), (3, 9), 0)
    assert progress == [(2, 5), (5, 5)]
    assert stored(tmp_path / "copy") == rows(3, 9)


def test_an_interrupted_import_goes_on(log, tmp_path):
    """If any step fails, each ledger is copied completely or not at all, and the next import copies the rest."""
    tries = 0
    while True:
        target = tmp_path / f"copy-{tries}"
        full = FailingDisk()
        full.refuses = lambda _step, _path, full=full, tries=tries: full.steps > tries
        try:
            copied(log, target, disk=full)
        except OSError:
            copied(log, target)
            assert stored(target) == rows(3, 9)
        else:
            break
        tries += 1
    assert tries > 20


def test_a_ledger_that_grew_is_refused(disk, tmp_path):
    """A ledger that grew after its import is refused, because its copy is closed."""
    with disk.open() as opened:
        copied(opened.topic_log(TOPIC), tmp_path / "copy")
    disk.add_ledger(9, [*LEDGERS[9], b"more"], closed=False)
    with disk.open() as opened, pytest.raises(InvalidInput, match="there with 3 entries, and has 4 now"):
        copied(opened.topic_log(TOPIC), tmp_path / "copy")
    assert stored(tmp_path / "copy") == rows(3, 9)


def test_ledger_ids_of_other_topics_are_refused(log, tmp_path):
    """A ledger id that another topic of the directory has is refused."""
    with open_writer(tmp_path / "copy", "other", now_ms=1, disk=QuickDisk()) as writer:
        for _ in range(4):
            writer.append_many([b"a"], now_ms=1)
            writer.roll_over(now_ms=1)
    with pytest.raises(InvalidInput, match=r"ledger_id: 3 .*persistent%2Fother has a ledger of this id"):
        copied(log, tmp_path / "copy")


def test_ids_of_compacted_ledgers_are_refused(log, tmp_path):
    """A ledger id that a compacted ledger has is refused, even one of the same topic."""
    open_writer(tmp_path / "copy", TOPIC, now_ms=1, disk=QuickDisk()).close()
    compacted = LedgerDirectory(tmp_path / "copy").topic(TopicName.parse(TOPIC)).compacted
    compacted.path.mkdir()
    compacted.log(9).touch()
    with pytest.raises(InvalidInput, match=r"ledger_id: 9 .*persistent%2Forders has a ledger of this id"):
        copied(log, tmp_path / "copy")


def test_bad_entries_leave_their_ids_free(disk, tmp_path):
    """Bad entries are an error by default; if they are skipped, all other entries keep their positions."""
    content = entry_log(disk.records)
    for payload in (b"no message", LEDGERS[3][1]):
        content = flipped(content, content.index(payload) + len(payload) - 1)
    with disk.open(log=content) as opened:
        log = opened.topic_log(TOPIC)
        with pytest.raises(EntriesUnreadable):
            copied(log, tmp_path / "copy")
        report = copied(log, tmp_path / "copy", on_error=ErrorPolicy.SKIP)
    assert [(bad.ledger_id, bad.entry_id) for bad in report.bad_entries] == [(3, 1), (9, 1)]
    assert report.entry_count == 3
    with open_local_ledgers(tmp_path / "copy") as source:
        copy = source.topic_log(TOPIC)
    found = [copy.ledger(3).read(0, 1), copy.ledger(9).read(0, 2)]
    assert [read.entries.entry_id.tolist() for read in found] == [[0], [0, 2]]
    assert [bad.entry_id for read in found for bad in read.bad_entries] == [1, 1]
    assert found[1].bad_entries[0].reason == "the log does not have it"
    with pytest.raises(EntriesUnreadable, match="; restore the file from a copy, or on_error=skip to go on"):
        raise EntriesUnreadable(found[1].bad_entries)
    assert copy.entry_count == 5


def offloaded(tmp_path, *damaged: int) -> TopicLog:
    """Return a topic of two ledgers in a bucket; some payloads of the second ledger have a wrong byte."""
    payloads = [message(payload=b"number %d" % number) for number in range(4)]
    for ledger_id in (3, 9):
        writer = BlobWriter(payloads)
        for entry_id in damaged if ledger_id == 9 else ():
            writer.data = flipped(writer.data, writer.offsets[entry_id] + 12 + len(payloads[entry_id]) - 1)
        writer.save(tmp_path / "bucket", UUID(int=ledger_id), ledger_id)
    with open_blobs(str(tmp_path / "bucket")) as source:
        return source.topic_log(TOPIC)


def test_storage_without_digests_is_not_believed(tmp_path):
    """A wrong CRC32C in storage without digests is an error with position, file and byte, and nothing is imported."""
    log = offloaded(tmp_path, 2)
    with pytest.raises(
        EntriesUnreadable, match=r"entry 9:2 in .*-ledger-9 at byte \d+: CRC32C .* not the stored .* copy"
    ):
        copied(log, tmp_path / "copy")
    with open_local_ledgers(tmp_path / "copy") as source:
        assert source.topics() == []
    files = LedgerDirectory(tmp_path / "copy").topic(TopicName.parse(TOPIC))
    assert files.ledger_ids() == []

    report = copied(log, tmp_path / "copy", on_error=ErrorPolicy.SKIP)
    assert (report.copied, report.entry_count) == ((3, 9), 7)
    assert [(bad.ledger_id, bad.entry_id, bad.entry_count) for bad in report.bad_entries] == [(9, 2, 1)]
    with open_local_ledgers(tmp_path / "copy") as source:
        assert source.topic_log(TOPIC).ledger(9).read(0, 3).entries.entry_id.tolist() == [0, 1, 3]


def test_a_refused_import_leaves_what_was_there(tmp_path):
    """A refused import leaves the ledgers of an earlier import and removes its own."""
    log = offloaded(tmp_path, 0)
    copied(replace(log, ledgers=log.ledgers[:1]), tmp_path / "copy")
    before = stored(tmp_path / "copy")
    more = replace(log, ledgers=(log.ledgers[0], replace(log.ledgers[0], ledger_id=5), log.ledgers[1]))
    with pytest.raises(EntriesUnreadable):
        copied(more, tmp_path / "copy")
    assert stored(tmp_path / "copy") == before
    assert LedgerDirectory(tmp_path / "copy").topic(TopicName.parse(TOPIC)).ledger_ids() == [3]


def test_more_missing_entries_than_anything_lacks(log, tmp_path):
    """An entry count that damaged metadata claims allocates no memory."""
    claims = replace(log, ledgers=(*log.ledgers[:1], AbsentLedger(6, 1 << 40, "gone")))
    with pytest.raises(LedgerFileInvalid, match=r"ledger 6 lacks 1099511627776 entries .* a copy may lack 16777216"):
        copied(claims, tmp_path / "copy", on_error=ErrorPolicy.SKIP)
    with open_local_ledgers(tmp_path / "copy") as source:
        assert source.topics() == []


def test_a_ledger_that_is_nowhere(log, tmp_path):
    """An absent ledger is an error; if it is skipped and its length is unknown, nothing of it is copied."""
    gone = [AbsentLedger(4, None, "gone"), AbsentLedger(6, 2, "gone")]
    log = replace(log, ledgers=tuple(sorted([*log.ledgers, *gone], key=lambda ledger: ledger.ledger_id)))
    with pytest.raises(EntriesUnreadable, match=r"ledger 4: gone \(and 1 more\); give on_error=skip"):
        copied(log, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    progress = []
    report = copied(
        log,
        tmp_path / "copy",
        on_error=ErrorPolicy.SKIP,
        progress=lambda done, in_all: progress.append((done, in_all)),
    )
    assert (report.copied, report.present, report.entry_count) == ((3, 6, 9), (), 5)
    assert progress[-1] == (8, 8)
    assert list(map(str, report.bad_entries)) == ["ledger 4: gone", "entries 6:0 to 1: gone"]
    with open_local_ledgers(tmp_path / "copy") as source:
        copy = source.topic_log(TOPIC)
    assert [ledger.ledger_id for ledger in copy.ledgers if ledger.closed] == [3, 6, 9]
    assert sum(bad.entry_count for bad in copy.ledger(6).read(0, 1).bad_entries) == 2


def test_an_import_that_lacks_its_last_entry_goes_on(log, tmp_path):
    """Importing again with skipped errors succeeds for a ledger without its last entry, and fails without skipping."""
    lacking = replace(log, ledgers=(*log.ledgers[:1], AbsentLedger(6, 2, "gone")))
    copied(lacking, tmp_path / "copy", on_error=ErrorPolicy.SKIP)
    with pytest.raises(LedgerDamaged, match="entry 6:"):
        copied(replace(log, ledgers=log.ledgers[:1]), tmp_path / "copy")
    assert copied(lacking, tmp_path / "copy", on_error=ErrorPolicy.SKIP).present == (3, 6)


def test_properties_and_the_end_come_along(tmp_path):
    """An import copies properties and termination, and keeps the larger message index."""
    source = tmp_path / "source"
    with open_writer(source, TOPIC, now_ms=1, interceptors=load_interceptors(["index"]), disk=QuickDisk()) as writer:
        writer.append_many([b"a"] * 3, now_ms=1)
        writer.set_properties({"colour": "red"})
        writer.terminate(now_ms=1)
    with open_local_ledgers(source) as opened:
        log = opened.topic_log(TOPIC)
    copied(log, tmp_path / "copy")
    with open_local_ledgers(tmp_path / "copy") as opened:
        copy = opened.topic_log(TOPIC)
    assert copy.properties == {"index": "2", "colour": "red"}
    assert copy.terminated_at == Position(0, 2)
    assert stored(tmp_path / "copy") == stored(source)
