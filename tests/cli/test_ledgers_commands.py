"""Tests of commands about whole ledgers: their output and their end."""

import json
import os
import shutil
from errno import EACCES, EFBIG, EIO, ENOSPC, EROFS
from pathlib import Path
from uuid import UUID

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.ledger.local.files.disk import Disk
from delayed_tracker.ledger.local.files.layout import LedgerDirectory
from delayed_tracker.ledger.local.ledger_ids import reserve_ledger_ids
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.pulsar.v1.ledger_metadata_pb2 import LedgerMetadataFormat
from tests.cli.ledger_sources import (
    MAIN,
    PULSAR,
    SAMPLE,
    SAMPLE_TOPIC,
    TIERED_TOPIC,
    damaged_sample,
    damaged_tiered,
)
from tests.golden.pulsar_pack import METADATA, PACK
from tests.ledger.harness.log_files import flipped, message
from tests.ledger.offload.blob_files import BlobWriter
from tests.ledger.offload.sequence_files import ledger_metadata

SOURCE = ["--source", PULSAR]
OFFLOADED = [message(payload=b"number %d" % number) for number in range(3)]


def document(ran, *, status: int = 0):
    assert ran.status == status, ran.err
    return json.loads(ran.out)


def test_list_shows_the_ledgers_of_topics(command):
    """The command lists the ledgers of one topic or of all."""
    ledgers = document(command("ledgers", "list", *SOURCE, "--topic", f"{MAIN}txn", "--json"))["ledgers"]
    assert [(ledger["ledger_id"], ledger["entry_count"]) for ledger in ledgers] == [(54, 100), (58, 27)]
    everything = document(command("ledgers", "list", *SOURCE, "--json"))["ledgers"]
    assert all(ledger in everything for ledger in ledgers)
    assert f"{len(everything)} ledgers\n" in command("ledgers", "list", *SOURCE).out


def test_list_goes_on_behind_topics_that_cannot_be_read(command, tmp_path):
    """Unreadable topics are listed after the ledgers of the others; one that was named by --topic is an error."""
    with open_writer(tmp_path / "local", f"{MAIN}there", now_ms=0) as writer:
        writer.append_many([b"a"], now_ms=0)
    sources = ["--source", damaged_tiered(tmp_path), "--source", f"ledger:{tmp_path / 'local'}"]
    told = document(command("ledgers", "list", *sources, "--json"))
    there = [(ledger["topic"], ledger["entry_count"]) for ledger in told["ledgers"] if not ledger["problem"]]
    assert there == [(f"{MAIN}there", 1)]
    ((lost, problem),) = [(row["topic"], row["problem"]) for row in told["unreadable"]]
    assert lost == TIERED_TOPIC
    assert f"unreadable: {lost}: {problem}\n" in command("ledgers", "list", *sources).out
    assert command("ledgers", "list", *sources, "--topic", lost).status == ExitCode.BAD_DATA


def test_ledgers_that_are_nowhere_are_named(command):
    """A ledger that tiered storage lacks is listed as absent; its length is unknown while it is written to."""
    tiered = ["--source", f"offload+mapfile:{PACK / 'offload-filesystem' / 'none'}?metadata={METADATA}"]
    named = [*tiered, "--topic", TIERED_TOPIC]
    *there, absent = document(command("ledgers", "list", *named, "--json"))["ledgers"]
    assert [ledger["problem"] for ledger in there] == [None] * len(there)
    problem = f"{PACK / 'offload-filesystem' / 'none'} has no copy of it"
    assert (absent["entry_count"], absent["problem"]) == (None, problem)
    told = command("ledgers", "list", *named).out
    assert f"absent: {TIERED_TOPIC}, ledger {absent['ledger_id']}: {problem}\n" in told
    counted = document(command("topics", "stats", *named, "--json"))
    assert counted["entry_count"] == sum(ledger["entry_count"] for ledger in there)
    assert (counted["first"]["ledger_id"], counted["last"]) == (there[0]["ledger_id"], None)
    assert counted["absent"] == [{"ledger_id": absent["ledger_id"], "problem": problem}]
    assert f"absent ledger {absent['ledger_id']}" in command("topics", "stats", *named).out
    last = command("topics", "last-message-id", *named)
    assert last.status == ExitCode.BAD_DATA
    assert f"ledger {absent['ledger_id']}: {problem}; give the bookies' disks together with it" in last.err
    found = command("topics", "get-message-id-by-index", *named, "--index", "3")
    assert (found.status, found.out) == (0, f"{there[0]['ledger_id']}:3\n")


def test_stats_count_what_ledgers_hold(command):
    """Counts are printed for each ledger or for one, and progress goes to stderr without --json only."""
    ran = command("ledgers", "stats", *SOURCE, "--topic", f"{MAIN}txn", "--json")
    first, second = document(ran)["ledgers"]
    assert ran.err == ""
    assert (first["entry_count"], first["message_count"], first["marker_count"]) == (100, 102, 22)
    assert (first["delayed_count"], first["transaction_count"], first["bad_count"]) == (19, 57, 0)
    assert (second["first_index"], second["last_index"]) == (100, 136)
    one = document(command("ledgers", "stats", *SOURCE, "--topic", f"{MAIN}txn", "--ledger", "58", "--json"))
    assert one["ledgers"] == [second]
    shown = command("ledgers", "stats", *SOURCE, "--topic", f"{MAIN}txn")
    assert "100 to 136" in shown.out
    assert "counting: 127 of 127 entries\n" in shown.err


def test_verify_finds_everything_sound(command):
    """All ledgers of the sample are sound, transaction logs and empty ledgers included."""
    ran = command("ledgers", "verify", *SOURCE, "--json")
    told = document(ran)
    assert told["sound"]
    assert all(ledger["sound"] and ledger["bad_entries"] == [] for ledger in told["ledgers"])
    total = sum(ledger["entry_count"] for ledger in told["ledgers"])
    assert f"verifying: {total} of {total} entries\n" in command("ledgers", "verify", *SOURCE).err


def test_verify_names_what_is_damaged(command, tmp_path):
    """Damage is reported with entry, file and byte; the rest is read, and the status is 1."""
    arguments = ["ledgers", "verify", "--source", damaged_sample(tmp_path), "--topic", SAMPLE_TOPIC]
    told = document(command(*arguments, "--json"), status=ExitCode.FAILURE)
    damaged = [ledger for ledger in told["ledgers"] if not ledger["sound"]]
    assert [(ledger["ledger_id"], ledger["bad_count"]) for ledger in damaged] == [(88, 1)]
    assert damaged[0]["sound_count"] == damaged[0]["entry_count"] - 1
    assert damaged[0]["bad_entries"][0]["entry_id"] == 0
    ran = command(*arguments)
    assert ran.status == ExitCode.FAILURE
    assert "bad: entry 88:0" in ran.out
    total = sum(ledger["entry_count"] for ledger in told["ledgers"])
    counted = f"{total - 1} of {total} entries are sound, 1 missing, damaged or not read; "
    assert ran.out.endswith(f"{counted}1 of {len(told['ledgers'])} ledgers with problems\n")


def test_verify_goes_on_behind_what_cannot_be_read(command, tmp_path):
    """Missing topics and ledgers are reported one by one, and the status is 1."""
    tiered = damaged_tiered(tmp_path)
    ran = command("ledgers", "verify", "--source", tiered)
    assert ran.status == ExitCode.FAILURE
    assert f"unreadable: {TIERED_TOPIC}: " in ran.out
    told = document(command("ledgers", "verify", "--source", tiered, "--json"), status=ExitCode.FAILURE)
    by_topic = {ledger["topic"]: ledger for ledger in told["ledgers"]}
    assert by_topic[TIERED_TOPIC]["problem"]
    assert by_topic[TIERED_TOPIC]["ledger_id"] is None
    absent = by_topic["persistent://lab/s3/stored"]
    assert absent["ledger_id"] is not None
    assert not absent["sound"]


def test_an_import_is_done_once(command, tmp_path):
    """A second import skips existing ledgers, and the copy reads the same as the source."""
    arguments = ["ledgers", "import", *SOURCE, "--topic", f"{MAIN}txn", "--into", str(tmp_path / "local"), "--json"]
    assert document(command(*arguments))["topics"] == [
        {
            "topic": f"{MAIN}txn",
            "copied_ledger_ids": [54, 58],
            "present_ledger_ids": [],
            "entry_count": 127,
            "bad_entries": [],
        }
    ]
    assert document(command(*arguments))["topics"][0]["present_ledger_ids"] == [54, 58]
    entries = ["topics", "entries", "--topic", f"{MAIN}txn", "--limit", "1000", "--json"]
    copied = command(*entries, "--source", f"ledger:{tmp_path / 'local'}")
    assert copied.status == 0
    assert copied.out == command(*entries, *SOURCE).out


def test_all_topics_are_imported_unless_some_are_named(command, tmp_path):
    """A table contains the counts of each topic."""
    ran = command("ledgers", "import", "--source", SAMPLE, "--into", str(tmp_path / "local"))
    assert ran.status == 0, ran.err
    names = command("topics", "list", "--source", SAMPLE).out
    assert names == command("topics", "list", "--source", f"ledger:{tmp_path / 'local'}").out
    assert all(name in ran.out for name in names.splitlines())


def test_a_directory_of_something_else_is_not_imported_into(command, tmp_path):
    """Nothing is written to a directory with other content; an empty directory is accepted like a new one."""
    bookie = damaged_sample(tmp_path).removeprefix("bookkeeper+file:").partition("?")[0]
    files = sorted(Path(bookie).iterdir())
    ran = command("ledgers", "import", "--source", SAMPLE, "--into", bookie)
    assert (ran.status, ran.out) == (ExitCode.USAGE, "")
    assert (
        f"--into: '{bookie}' is not valid; give a directory of local ledgers, an empty or a new one: this has "
        in ran.err
    )
    assert sorted(Path(bookie).iterdir()) == files
    (tmp_path / "empty").mkdir()
    assert command("ledgers", "import", "--source", SAMPLE, "--into", str(tmp_path / "empty")).status == 0


@pytest.mark.parametrize(
    ("errno", "status", "said"),
    [
        (ENOSPC, 4, "cannot be written: No space left on device; make room for what is written, and run it again"),
        (EFBIG, 4, "cannot be written: File too large; make room for what is written, and run it again"),
        (EIO, 4, "cannot be written: Input/output error; repair the disk, or give a directory on another disk"),
        (EROFS, 2, "is not valid; Read-only file system; give a directory that can be written to"),
        (EACCES, 2, "is not valid; Permission denied; give a directory that can be written to"),
    ],
)
def test_what_keeps_an_import_from_writing_is_said_of_its_directory(
    command, tmp_path, monkeypatch, *, errno, status, said
):
    """A write error, also of an open file, is reported with the directory; a full disk is no usage error."""

    def refuse(*_arguments: object) -> int:
        raise OSError(errno, os.strerror(errno))

    monkeypatch.setattr(Disk, "write", refuse)
    ran = command("ledgers", "import", "--source", SAMPLE, "--into", str(tmp_path / "local"))
    assert (ran.status, ran.out) == (status, "")
    assert f"--into: '{tmp_path / 'local'}' {said}\n" in ran.err


def test_a_damaged_copy_is_passed_over_and_can_be_made_anew(command, tmp_path):
    """An import does not check existing ledgers, verify does; a topic without its directory is copied again."""
    local = tmp_path / "local"
    arguments = ["ledgers", "import", *SOURCE, "--topic", f"{MAIN}txn", "--into", str(local), "--json"]
    command(*arguments)
    (log,) = local.rglob("36.log")  # 54
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    (again,) = document(command(*arguments))["topics"]
    assert (again["present_ledger_ids"], again["bad_entries"]) == ([54, 58], [])
    verify = ["ledgers", "verify", "--source", f"ledger:{local}"]
    assert command(*verify).status == ExitCode.FAILURE
    shutil.rmtree(log.parent)
    (again,) = document(command(*arguments))["topics"]
    assert (again["copied_ledger_ids"], again["present_ledger_ids"]) == ([54, 58], [])
    assert command(*verify).status == ExitCode.OK


@pytest.mark.parametrize("place", ["ledger:{0}", "ledger:{0}/../local", "ledger:file://{0}"])
def test_a_source_is_not_imported_into_itself(command, tmp_path, place):
    """A source is refused as the target in every spelling of its directory."""
    into = tmp_path / "local"
    with open_writer(into, f"{MAIN}there", now_ms=0) as writer:
        writer.append_many([b"a"], now_ms=0)
    ran = command("ledgers", "import", *SOURCE, "--source", place.format(into), "--into", str(into))
    assert (ran.status, ran.out) == (ExitCode.USAGE, "")
    assert f"--into: '{into}' is not valid; a source is stored there: give another directory" in ran.err


def test_damage_ends_an_import_unless_it_is_skipped(command, tmp_path):
    """Damage ends an import; with --on-error skip it is listed."""
    arguments = ["ledgers", "import", "--source", damaged_sample(tmp_path), "--topic", SAMPLE_TOPIC]
    refused = command(*arguments, "--into", str(tmp_path / "refused"))
    assert refused.status == ExitCode.BAD_DATA
    assert "entry 88:0" in refused.err
    skipped = command(*arguments, "--into", str(tmp_path / "skipped"), "--on-error", "skip")
    assert skipped.status == 0
    assert "bad: entry 88:0" in skipped.out


def test_topics_that_cannot_be_opened_end_an_import_unless_they_are_skipped(command, tmp_path):
    """Unreadable topics end an import before it copies; --on-error skip lists them, unless --topic names one."""
    with open_writer(tmp_path / "local", f"{MAIN}there", now_ms=0) as writer:
        writer.append_many([b"a"], now_ms=0)
    tiered = damaged_tiered(tmp_path)
    arguments = ["ledgers", "import", "--source", tiered, "--source", f"ledger:{tmp_path / 'local'}"]
    refused, skipped = ["--into", str(tmp_path / "refused")], ["--into", str(tmp_path / "skipped")]
    lost, lost_ledgers = TIERED_TOPIC, "persistent://lab/fs-block/stored"

    ran = command(*arguments, *refused)
    (first, *_) = document(command("ledgers", "list", *arguments[2:], "--json"))["unreadable"]
    assert (ran.status, ran.out) == (ExitCode.BAD_DATA, "")
    assert f"{first['topic']} cannot be read" in ran.err
    assert first["problem"] in ran.err
    assert not (tmp_path / "refused").exists()
    absent = command("ledgers", "import", *arguments[2:], *refused, "--topic", f"{MAIN}there", "--topic", lost_ledgers)
    assert absent.status == ExitCode.BAD_DATA
    assert "entries 159:0 to 99: " in absent.err
    assert not (tmp_path / "refused").exists()

    told = document(command(*arguments, *skipped, "--on-error", "skip", "--json"))
    assert [(row["topic"], row["entry_count"]) for row in told["topics"] if row["entry_count"]] == [(f"{MAIN}there", 1)]
    (problem,) = [row["problem"] for row in told["unreadable"] if row["topic"] == lost]
    again = command(*arguments, *skipped, "--on-error", "skip")
    assert again.status == 0
    assert f"unreadable: {lost}: {problem}\n" in again.out
    named = command(*arguments, *skipped, "--on-error", "skip", "--topic", lost)
    assert named.status == ExitCode.BAD_DATA


def test_what_somebody_writes_to_is_left_alone(command, tmp_path):
    """A topic with another writer is not changed; the error contains the topic."""
    arguments = ["ledgers", "import", *SOURCE, "--topic", f"{MAIN}txn", "--into", str(tmp_path / "local")]
    with open_writer(tmp_path / "local", f"{MAIN}txn", now_ms=0):
        ran = command(*arguments)
    assert (ran.status, ran.out) == (ExitCode.STORAGE_UNUSABLE, "")
    assert f"{MAIN}txn" in ran.err.splitlines()[-1]


def test_an_id_that_is_taken_is_refused(command, tmp_path):
    """A ledger id of another topic, or one with other entries, is refused."""
    with open_writer(tmp_path / "local", f"{MAIN}txn", now_ms=0) as writer:
        reserve_ledger_ids(LedgerDirectory(tmp_path / "local"), [53], Disk())
        writer.append_many([b"entry"], now_ms=0)
    ran = command("ledgers", "import", *SOURCE, "--topic", f"{MAIN}txn", "--into", str(tmp_path / "local"))
    assert (ran.status, ran.out) == (ExitCode.USAGE, "")
    assert "54 is not valid; it is there with 1 entries, and has 100 now; import into another directory" in ran.err


WRONG = [
    (["list", *SOURCE, "--topic", f"{MAIN}plane"], 7, f"similar names: {MAIN}plain"),
    (["stats", *SOURCE, "--topic", f"{MAIN}txn", "--ledger", "7"], 7, f"{MAIN}txn has no ledger 7; it has 54, 58"),
    (["stats", *SOURCE, "--topic", f"{MAIN}txn", "--ledger", "x"], 2, "--ledger: 'x' is not valid; input should be a"),
    (["verify", *SOURCE, "--topic", f"{MAIN}plane"], 7, f"similar names: {MAIN}plain"),
    (["import", *SOURCE], 2, "missing option '--into'; see `delayed-tracker ledgers import --help`"),
    (
        ["import", *SOURCE, "--into", "/nowhere/local"],
        2,
        "--into: '/nowhere/local' is not valid; make the directory /no",
    ),
    (["import", *SOURCE, "--into", __file__], 2, "is a file"),
    (
        ["import", *SOURCE, "--into", "/proc/x"],
        2,
        "--into: '/proc/x' is not valid; No such file or directory; give a directory that can be written to",
    ),
]


@pytest.mark.parametrize(("arguments", "status", "said"), WRONG, ids=[f"{row[0][0]}-{row[2][:20]}" for row in WRONG])
def test_wrong_input_is_one_line(command, arguments, status, said):
    """The line contains option, value and remedy, and stdout is empty."""
    ran = command("ledgers", *arguments)
    assert (ran.status, ran.out) == (status, "")
    errors = [line for line in ran.err.splitlines() if line.startswith("delayed-tracker: ")]
    assert len(errors) == 1
    assert said in errors[0]


def bucket(directory: Path) -> str:
    """Write two ledgers of a topic in the form of the blob store driver; return the source's URL."""
    for ledger_id in (1, 2):
        BlobWriter(OFFLOADED).save(directory, UUID(int=ledger_id), ledger_id)
    return f"offload+blob:{directory}"


def test_verify_lists_what_no_topic_claims(command, tmp_path):
    """Data without its index is a problem although no topic misses it."""
    place, copy = tmp_path / "bucket", str(tmp_path / "copy")
    source = bucket(place)
    assert command("ledgers", "verify", "--source", source).status == 0
    (place / f"{UUID(int=2)}-ledger-2-index").unlink()
    ran = command("ledgers", "verify", "--source", source)
    assert ran.status == 1
    assert f"(no topic), ledger 2: {place}/{UUID(int=2)}-ledger-2 has no index; restore the index" in ran.out
    (document,) = json.loads(command("ledgers", "verify", "--json", "--source", source).out)["ledgers"][1:]
    assert (document["topic"], document["ledger_id"], document["sound"]) == (None, 2, False)

    refused = command("ledgers", "import", "--source", source, "--into", copy)
    assert refused.status == ExitCode.BAD_DATA
    assert "has no index" in refused.err
    skipped = command("ledgers", "import", "--source", source, "--into", copy, "--on-error", "skip")
    assert skipped.status == 0
    assert f"of no topic: ledger 2: {place}" in skipped.out


@pytest.mark.parametrize(("field", "to"), [("last entry", 0), ("length", 7)])
def test_verify_compares_an_index_with_its_data(command, tmp_path, field, to):
    """An index that ends the ledger too early, or has a wrong byte count, is a problem."""
    source = bucket(tmp_path)
    metadata = LedgerMetadataFormat.FromString(ledger_metadata(OFFLOADED))
    if field == "last entry":
        metadata.lastEntryId = to
    else:
        metadata.length = to
    BlobWriter(OFFLOADED, metadata=metadata.SerializeToString()).save(tmp_path, UUID(int=2), 2)
    ran = command("ledgers", "verify", "--source", source)
    assert ran.status == 1
    assert ("by the index entry 0 is the last" if field == "last entry" else "its metadata says 7") in ran.out


def test_verify_continues_after_a_damaged_index_of_unknown_topic(command, tmp_path):
    """A damaged index is reported, and the other ledgers are verified."""
    source = bucket(tmp_path)
    (tmp_path / f"{UUID(int=2)}-ledger-2-index").write_bytes(b"not this")
    ran = command("ledgers", "verify", "--source", source)
    assert ran.status == 1
    assert "cut short" in ran.out
    assert "3 of 3 entries are sound" in ran.out


def test_import_refuses_entries_whose_checksum_is_wrong(command, tmp_path):
    """The error contains position, file and byte, and nothing of the topic is copied."""
    source, copy = bucket(tmp_path / "bucket"), tmp_path / "copy"
    writer = BlobWriter(OFFLOADED)
    writer.data = flipped(writer.data, writer.offsets[2] - 1)
    writer.save(tmp_path / "bucket", UUID(int=2), 2)
    ran = command("ledgers", "import", "--source", source, "--into", str(copy))
    assert ran.status == ExitCode.BAD_DATA
    assert f"entry 2:1 in {tmp_path}/bucket/{UUID(int=2)}-ledger-2 at byte" in ran.err
    assert "CRC32C of the message is not the stored" in ran.err
    assert command("topics", "list", "--source", f"ledger:{copy}").out == ""
    ran = command("ledgers", "import", "--source", source, "--into", str(copy), "--on-error", "skip")
    assert ran.status == 0
    assert "bad: entry 2:1 in" in ran.out
