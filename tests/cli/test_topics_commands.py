"""Tests of commands about topics in ledgers: their output and their end."""

import base64
import hashlib
import json
import os
import shutil
from errno import ENOSPC

import pytest

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE
from delayed_tracker.cli.exit_codes import ExitCode, exit_code_of
from delayed_tracker.cli.ledger_source import SourceUnreadable, translate_file_errors
from delayed_tracker.ledger.local.files.disk import Disk
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.pulsar.v1.entry_pb2 import KeyValue
from tests.cli.ledger_sources import KEY, MAIN, PULSAR, SAMPLE, SAMPLE_TOPIC, damaged_sample
from tests.golden.pulsar_pack import METADATA, PACK, expected
from tests.ledger.messages.producer import batch, single, slot

SOURCE = ["--source", PULSAR]


def of(name: str) -> list[str]:
    return [*SOURCE, "--topic", MAIN + name]


def document(ran):
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def lines(ran):
    assert ran.status == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def test_list_prints_a_name_a_line(command):
    """All topics, or those with a prefix, are listed."""
    names = command("topics", "list", *SOURCE).out.splitlines()
    assert names == document(command("topics", "list", *SOURCE, "--json"))["topics"]
    assert names == sorted(names)
    assert {row["topic"] for row in expected("messages")} <= set(names)
    parted = ["topics", "list", *SOURCE, "--topic-prefix", f"{MAIN}parted"]
    assert command(*parted).out.splitlines() == [f"{MAIN}parted-partition-0", f"{MAIN}parted-partition-1"]
    assert command("topics", "list", *SOURCE, "--topic-prefix", "nobody").out == ""


def test_stats_tell_how_much_there_is(command):
    """The stats contain the compaction, and None if the topic was never compacted."""
    told = document(command("topics", "stats", *of("compacted"), "--json"))
    assert (told["topic"], told["ledger_count"], told["entry_count"]) == (f"{MAIN}compacted", 2, 194)
    assert told["last"] == {"ledger_id": 48, "entry_id": 93}
    assert told["compacted"]["horizon"] == {"ledger_id": 45, "entry_id": 96}
    assert "194" in command("topics", "stats", *of("compacted")).out
    assert document(command("topics", "stats", *of("plain"), "--json"))["compacted"] is None


def test_pages_of_entries_make_the_whole_topic(command):
    """Each page begins at the end of the previous one, and the JSON lines end with the start of the next."""
    pages, start = [], []
    while not pages or pages[-1][-1]["next"]:
        pages.append(lines(command("topics", "entries", *of("txn"), "--limit", "50", "--json", *start)))
        behind = pages[-1][-1]["next"]
        start = ["--from", f"{behind['ledger_id']}:{behind['entry_id']}"] if behind else []
    assert [len(page) for page in pages] == [51, 51, 28]
    entries = [line["entry"] for page in pages for line in page[:-1]]
    assert [entry["position"] for entry in entries[98:102]] == [
        {"ledger_id": 54, "entry_id": 98},
        {"ledger_id": 54, "entry_id": 99},
        {"ledger_id": 58, "entry_id": 0},
        {"ledger_id": 58, "entry_id": 1},
    ]
    assert entries[2]["kinds"] == ["batch", "transaction"]
    assert entries[3]["kinds"] == ["marker", "transaction"]
    assert (entries[2]["message_count"], entries[2]["index"]) == (4, 2)
    assert entries[5]["deliver_at_ms"] == 1_795_267_329_442


def test_a_page_of_entries_as_a_table(command):
    """The last line of the table is the option for the next page."""
    ran = command("topics", "entries", *of("comp-lz4-java"), "--limit", "3")
    assert "lz4" in ran.out
    behind = ran.out.splitlines()[-1].removeprefix("next: ").split()
    assert "no more entries" in command("topics", "entries", *of("comp-lz4-java"), *behind, "--limit", "10000").out


def test_bad_entries_stand_where_they_belong(command, tmp_path):
    """Bad entries are listed at their positions with their reasons, count for the limit, and are not repeated."""
    source = damaged_sample(tmp_path)
    arguments = ["topics", "entries", "--source", source, "--topic", SAMPLE_TOPIC, "--limit", "2"]
    first = lines(command(*arguments, "--json"))
    assert [next(iter(line)) for line in first] == ["bad_entry", "entry", "next"]
    assert (first[0]["bad_entry"]["ledger_id"], first[0]["bad_entry"]["entry_id"]) == (88, 0)
    assert first[-1]["next"] == {"ledger_id": 88, "entry_id": 2}
    ran = command(*arguments)
    assert "bad: entry 88:0" in ran.out


def test_a_message_is_what_a_reader_saw(command):
    """A message is printed whole and decrypted, from whichever chunk is requested."""
    rows = {(row["topic"], row["n"]): row for row in expected("messages")}
    for topic, number, position, more in [
        ("plain", 0, None, []),
        ("chunked", 1, "38:3", []),
        ("encrypted", 1, None, ["--key", KEY]),
    ]:
        row = rows[MAIN + topic, number]
        place = position or f"{row['id']['ledger']}:{row['id']['entry']}"
        (message,) = document(command("topics", "message", *of(topic), place, *more, "--json"))["messages"]
        assert hashlib.sha256(base64.b64decode(message["payload_base64"])).hexdigest() == row["sha256"]
        assert (message["index"], message["key"]) == (row["index"], row.get("key"))
        ran = command("topics", "message", *of(topic), place, *more)
        assert ran.out.startswith(f"{row['id']['ledger']}:{row['id']['entry']} of {MAIN}{topic}\n")


def test_messages_of_a_batch(command):
    """All messages of a batch are listed, or one is printed."""
    rows = [row for row in expected("messages") if row["topic"] == f"{MAIN}batched"]
    assert len(document(command("topics", "message", *of("batched"), "30:0", "--json"))["messages"]) == 7
    (message,) = document(command("topics", "message", *of("batched"), "30:0", "--batch-index", "3", "--json"))[
        "messages"
    ]
    assert hashlib.sha256(base64.b64decode(message["payload_base64"])).hexdigest() == rows[3]["sha256"]
    ran = command("topics", "message", *of("batched"), "30:0")
    assert ran.out.startswith(f"30:0 of {MAIN}batched\n")


def test_payloads_and_names_of_any_kind(command, tmp_path):
    """Text is printed as text, bytes as digits, long values are cut, and a row of a list stays on one line."""
    batched = [
        slot(0, b"two\nlines", partition_key="k\x1b[2J"),
        slot(1, b"\x00\xff", properties=[KeyValue(key="a", value="1")]),
        slot(2, b"", partition_key="gone", null_value=True),
        slot(3, b"x" * 3_000),
    ]
    named = single(
        b"two\nlines", partition_key="AAE=", partition_key_b64_encoded=True, ordering_key=b"\x01", event_time=1
    )
    with open_writer(tmp_path / "local", MAIN + "kinds", now_ms=0) as writer:
        writer.append_many([batch(batched), named, single(b"x" * 3_000), single(b"", null_value=True)], now_ms=0)
    asked = ["topics", "message", "--source", f"ledger:{tmp_path / 'local'}", "--topic", f"{MAIN}kinds"]
    listed = command(*asked, "0:0").out
    assert listed.count("\n") == len(["title", "top", "header", "line", *batched, "bottom"])
    for shown in ("two\\nlines", "0x6b1b5b324a", "0x00ff", "a=1", "(deleted)", "xxx... (cut)"):
        assert shown in listed
    one = command(*asked, "0:1").out
    for shown in ("AAE=", "key (base64)", "0x01", "1970-01-01 00:00:00.001Z", "(9 B)"):
        assert shown in one
    assert "xxx... (cut) (3.0 kB)" in command(*asked, "0:2").out
    assert "none: the key is deleted" in command(*asked, "0:3").out
    first, second, *_ = document(command(*asked, "0:0", "--json"))["messages"]
    assert (first["payload_text"], second["payload_text"], second["payload_base64"]) == ("two\nlines", None, "AP8=")
    assert "0 of 0 to 3" in command(*asked, "0:0", "--batch-index", "0").out


def test_positions_stand_alone_on_their_line(command):
    """A position is alone on its line, so that --from accepts it; other information follows."""
    assert command("topics", "get-message-id-by-index", *of("batched"), "--index", "40").out == "30:4\n"
    found = document(command("topics", "get-message-id-by-index", *of("batched"), "--index", "40", "--json"))
    assert (found["ledger_id"], found["entry_id"], found["partition"]) == (30, 4, -1)
    row = next(row for row in expected("last_message_id") if row["topic"] == f"{MAIN}batched")
    last = command("topics", "last-message-id", *of("batched"))
    batch_index = row["client"]["batch_index"]
    assert (
        last.out
        == f"{row['client']['ledger']}:{row['client']['entry']}\nmessage {batch_index} of its batch, counted from 0\n"
    )
    assert document(command("topics", "last-message-id", *of("batched"), "--json"))["batch_index"] == batch_index


def test_the_last_message_of_a_compacted_topic(command):
    """Messages newer than the compaction are also last for readers of the compacted topic."""
    row = next(row for row in expected("last_message_id") if row["topic"] == f"{MAIN}compacted")
    for more in ([], ["--read-compacted"]):
        found = document(command("topics", "last-message-id", *of("compacted"), *more, "--json"))
        assert (found["ledger_id"], found["entry_id"]) == (row["client"]["ledger"], row["client"]["entry"])
        assert found["batch_index"] == row["client"]["batch_index"]


def test_the_last_message_that_compaction_kept(command, tmp_path):
    """A deleted key is no message of the compacted topic."""
    with open_writer(tmp_path / "local", MAIN + "prices", now_ms=0) as writer:
        writer.append_many([single(price, partition_key="a") for price in (b"7", b"")], now_ms=0)
        writer.append_many([single(b"8", partition_key="b"), single(b"", partition_key="a")], now_ms=0)
    source = ["--source", f"ledger:{tmp_path / 'local'}", "--topic", f"{MAIN}prices"]
    assert command("topics", "compact", *source).status == 0
    assert command("topics", "last-message-id", *source).out == "0:3\n"
    assert command("topics", "last-message-id", *source, "--read-compacted").out == "0:2\n"
    with open_writer(tmp_path / "local", MAIN + "prices", now_ms=0) as writer:
        writer.append_many([single(b"", partition_key="b")], now_ms=0)
    assert command("topics", "compact", *source).status == 0
    last = command("topics", "last-message-id", *source, "--read-compacted")
    assert last.out == "-1:-1\nreaders of the compacted topic get no message\n"


def test_a_topic_without_entries(command, tmp_path):
    """A topic without entries has no last message, no entry to list, and nothing to compact."""
    with open_writer(tmp_path / "local", MAIN + "empty", now_ms=0):
        pass
    source = ["--source", f"ledger:{tmp_path / 'local'}", "--topic", f"{MAIN}empty"]
    assert command("topics", "last-message-id", *source).out == "-1:-1\nthe topic has no messages\n"
    assert command("topics", "entries", *source).out.splitlines()[-1] == "no more entries"
    assert command("topics", "entries", *source, "--from", "-1:-1", "--json").out == '{"next": null}\n'
    assert command("topics", "compact", *source).out == "nothing to compact\n"
    assert document(command("topics", "compact", *source, "--json")) == {"compacted": None}


def test_a_time_in_a_compacted_topic(command):
    """For readers of the compacted topic, the first entry that compaction kept is found, as Pulsar's admin does."""
    row = next(row for row in expected("by_timestamp") if row["topic"] == f"{MAIN}compacted")
    asked = ["topics", "seek-by-time", *of("compacted"), "--at", str(row["timestamp"])]
    ident = row["admin_message_id"]
    assert command(*asked, "--read-compacted").out == f"{ident['ledger']}:{ident['entry']}\n"
    assert command(*asked).out != command(*asked, "--read-compacted").out


def test_compacting_what_was_imported(command, tmp_path):
    """The topic stays beside its compacted ledger, and a second compaction ends at the same position."""
    source = ["--source", f"ledger:{tmp_path / 'local'}", "--topic", f"{MAIN}compacted"]
    assert command("ledgers", "import", *of("compacted"), "--into", str(tmp_path / "local")).status == 0
    made = document(command("topics", "compact", *source, "--json"))["compacted"]
    assert made["horizon"] == {"ledger_id": 48, "entry_id": 93}
    stats = document(command("topics", "stats", *source, "--json"))
    assert stats["compacted"] == {
        "ledger_id": made["ledger_id"],
        "entry_count": made["summary"]["entry_count"],
        "horizon": made["horizon"],
    }
    assert stats["entry_count"] == 194
    last = document(command("topics", "last-message-id", *source, "--read-compacted", "--json"))
    assert (last["ledger_id"], last["entry_id"]) == (48, 93)
    assert any(
        ledger["compacted"] for ledger in document(command("ledgers", "verify", *source[:2], "--json"))["ledgers"]
    )
    again = command("topics", "compact", *source)
    assert "48:93" in again.out
    twice = 2 * stats["compacted"]["entry_count"]
    assert f"compacting: {twice} of {twice} entries (two passes)\n" in again.err


def test_several_sources_are_not_compacted(command, monkeypatch, tmp_path):
    """Several sources are refused from the option and from the environment; an option overrides the environment."""
    with open_writer(tmp_path / "local", f"{MAIN}there", now_ms=0) as writer:
        writer.append_many([single(b"a", partition_key="a")], now_ms=0)
    local, other, topic = f"ledger:{tmp_path / 'local'}", PULSAR, ["--topic", f"{MAIN}there"]
    said = f"--source: '{local} {other}' is not valid; a compaction writes into one directory, and these are several"
    for sources in ([local, other], [other, local]):
        monkeypatch.setenv("DELAYED_TRACKER_SOURCE", " ".join(sources))
        refused = command("topics", "compact", *topic)
        assert (refused.status, refused.out) == (2, "")
        assert said.replace(f"{local} {other}", " ".join(sources)) in refused.err
        assert "give only --source ledger:DIR, which also overrides DELAYED_TRACKER_SOURCE" in refused.err
    assert said in command("topics", "compact", *topic, "--source", local, "--source", other).err
    made = command("topics", "compact", *topic, "--source", local)
    assert made.status == 0, made.err
    monkeypatch.setenv("DELAYED_TRACKER_SOURCE", local)
    assert "0:0" in command("topics", "compact", *topic).out


def test_a_full_disk_ends_a_compaction_with_the_status_of_storages(command, monkeypatch, tmp_path):
    """The status is that of an unusable storage, not of a bad option or of bad data."""
    with open_writer(tmp_path / "local", f"{MAIN}there", now_ms=0) as writer:
        writer.append_many([single(b"a", partition_key="a")], now_ms=0)

    def refuse(*_arguments: object) -> int:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr(Disk, "write", refuse)
    ran = command("topics", "compact", "--topic", f"{MAIN}there", "--source", f"ledger:{tmp_path / 'local'}")
    assert (ran.status, ran.out) == (4, "")
    assert f"--source: 'ledger:{tmp_path / 'local'}' cannot be written: No space left on device; make room" in ran.err


def test_several_sources_are_one(command):
    """Ledgers that one source lacks are read from another."""
    tiered = f"offload+mapfile:{PACK / 'offload-filesystem' / 'none'}?metadata={METADATA}"
    stored = ["topics", "entries", "--topic", "persistent://lab/fs-none/stored", "--limit", "5", "--json"]
    assert lines(command(*stored, "--source", tiered, *SOURCE)) == lines(command(*stored, *SOURCE))


def test_an_index_by_the_rules_of_either(command):
    """A system message's index gives the next user message by the proposal, and its own by Pulsar's rules."""
    asked = ["topics", "get-message-id-by-index", *of("txn"), "--index", "3"]
    assert command(*asked).out == "54:4\n"
    assert command(*asked, "--mode", "pulsar-compatible").out == "54:3\n"


def test_a_time_leads_to_a_position(command):
    """The position is that of Pulsar's admin; a position behind the end is reported."""
    for row in [row for row in expected("by_timestamp") if row["topic"] == f"{MAIN}plain"][1:3]:
        ident = row["admin_message_id"]
        found = document(command("topics", "seek-by-time", *of("plain"), "--at", str(row["timestamp"]), "--json"))
        assert found == {
            "position": {"ledger_id": ident["ledger"], "entry_id": ident["entry"]},
            "behind_end": False,
        }
    late = command("topics", "seek-by-time", *of("plain"), "--at", "2100-01-01")
    assert late.out.splitlines()[1] == "all entries are earlier: this is the position of the next entry"


WRONG = [
    (["list", "--source", "nowhere:x"], 2, "--source: 'nowhere:x' is not valid; known schemes are "),
    (["list"], 2, "missing option '--source' (env var: 'DELAYED_TRACKER_SOURCE'); see `delayed-tracker topics list"),
    (["list", "--source", "bookkeeper+file:x"], 2, "--source: 'bookkeeper+file:x' is not valid; add metadata=...: "),
    (
        ["list", "--source", "offload+blob:ftp://x"],
        2,
        "az:// or file:// and what it needs: Generic URL error: Unable to",
    ),
    (["fly"], 2, "no such command 'fly'; see `delayed-tracker topics --help`"),
    ([], 2, "missing command; see `delayed-tracker topics --help`"),
    (["stats", *of("plane")], 7, f"no topic {MAIN}plane; similar names: {MAIN}plain"),
    (["stats", *SOURCE, "--topic", "a/b"], 2, "--topic: 'a/b' is not valid; give persistent://tenant/namespace/name"),
    (
        ["stats", *SOURCE, "--topic", "\udcff"],
        2,
        "--topic: '\\udcff' is not valid; give a name that can be written in UTF",
    ),
    (["stats", *of("parted")], 2, f"{MAIN}parted is partitioned; name one of its partitions: {MAIN}parted-partition-0"),
    (["entries", *of("plain"), "--from", "7"], 2, "--from: '7' is not valid; give LEDGER:ENTRY, such as 7:3"),
    (["entries", *of("plain"), "--limit", "0"], 2, "--limit: '0' is not valid; input should be greater than or"),
    (["message", *of("plain"), "7"], 2, "LEDGER:ENTRY: '7' is not valid; give one position, such as 7:3"),
    (["message", *of("chunked"), "7:0"], 7, f"{MAIN}chunked has no ledger 7; it has 38"),
    (["message", *of("chunked"), "38:91"], 2, "LEDGER:ENTRY: '38:91' is not valid; ledger 38 has entries 0 to 90"),
    (["message", *of("txn"), "54:3"], 7, "no consumer gets to see entry 54:3: it is a marker of the broker's"),
    (["message", *of("encrypted"), "39:0"], 7, "entry 39:0: the payload is encrypted: give private key 'test-key'"),
    (["message", *of("plain"), "7:0", "--key", "x"], 2, "--key: 'x' is not valid; give NAME=FILE, such as"),
    (["message", *of("plain"), "7:0", "--key", "x=/nowhere"], 2, "--key: '/nowhere' is not valid; give a PEM file"),
    (["message", *of("batched"), "30:0", "--batch-index", "7"], 2, "--batch-index: 7 is not valid; the entry has mess"),
    (["message", *of("chunked"), "38:0", "--batch-index", "0"], 2, "--batch-index: 0 is not valid; leave it out"),
    (["get-message-id-by-index", *of("plain"), "--index", "-1"], 2, "--index: '-1' is not valid; input should be"),
    (["get-message-id-by-index", *of("plain"), "--index", "99999"], 7, f"{MAIN}plain has no user message at or behind"),
    (["get-message-id-by-index", *of("no-frames"), "--index", "1"], 7, f"entries of {MAIN}no-frames carry no message"),
    (["compact", *of("plain")], 2, "only local ledgers can be compacted: import it, and give ledger:DIR"),
    (
        ["compact", "--source", "ledger:/nowhere", "--topic", "t"],
        2,
        "--source: 'ledger:/nowhere' is not valid; /nowhere: give a directory of local ledgers; it has topics/",
    ),
    (["seek-by-time", *of("plain"), "--at", "soon"], 2, "--at: 'soon' is not valid; give ISO-8601, such as"),
]


@pytest.mark.parametrize(("arguments", "status", "said"), WRONG, ids=[f"{row[0][:1]}-{row[2][:30]}" for row in WRONG])
def test_wrong_input_is_one_line(command, arguments, status, said):
    """The line contains option, value and remedy, and stdout is empty."""
    ran = command("topics", *arguments)
    assert (ran.status, ran.out) == (status, "")
    errors = [line for line in ran.err.splitlines() if not line.startswith("looking through files: ")]
    assert len(errors) == 1
    assert errors[0].startswith("delayed-tracker: ")
    assert said in errors[0]


def test_errors_are_objects_for_machines(command):
    """Errors of ledgers contain the names of options, too."""
    ran = command("topics", "stats", "--source", "nowhere:x", "--topic", "t", "--json")
    error = json.loads(ran.err)["error"]
    assert (ran.status, error["reason"], error["metadata"]["field"]) == (ExitCode.USAGE, "INVALID_INPUT", "--source")


def test_a_file_that_cannot_be_read_is_named(command, tmp_path):
    """An unreadable input file is not reported as a failed output."""
    ran = command("topics", "list", "--source", f"{SAMPLE.partition('?')[0]}?metadata={tmp_path}")
    assert ran.status == ExitCode.USAGE
    said = f"is not valid; metadata={tmp_path}: Is a directory; name files that can be read"
    assert f"--source: '{SAMPLE.partition('?')[0]}?metadata={tmp_path}' {said}" in ran.err


def test_a_bucket_that_cannot_be_read_is_said_so():
    """The error of an unreadable bucket contains no file name."""
    with (
        pytest.raises(SourceUnreadable, match="s3://b cannot be listed: timeout; try again") as caught,
        translate_file_errors("s3://b", "try again"),
    ):
        raise OSError("s3://b cannot be listed: timeout\n\nDebug source:\n...")
    assert exit_code_of(caught.value) is ExitCode.BAD_DATA


def test_the_source_can_be_named_once(command, monkeypatch):
    """The environment variable gives the source of many commands."""
    monkeypatch.setenv("DELAYED_TRACKER_SOURCE", SAMPLE)
    assert SAMPLE_TOPIC in command("topics", "list").out


def test_a_path_that_a_space_has_cut_is_said_so(command, monkeypatch, tmp_path):
    """Spaces divide sources in the environment, so a space in a path must be percent-encoded."""
    monkeypatch.setenv("DELAYED_TRACKER_SOURCE", "bookkeeper+file:/with space/x?metadata=y")
    ran = command("topics", "list")
    assert ran.status == 2
    assert ran.err.endswith(
        "DELAYED_TRACKER_SOURCE: 'bookkeeper+file:/with space/x?metadata=y' is not valid; sources are separated by "
        "spaces, and 'space/x?metadata=y' is not a source: write %20 for a space in a path\n"
    )
    shutil.copytree(BUNDLED_SAMPLE, tmp_path / "with space")
    place = f"{tmp_path}/with%20space"
    monkeypatch.setenv("DELAYED_TRACKER_SOURCE", f"bookkeeper+file:{place}/bookie?metadata={place}/metadata.jsonl")
    assert SAMPLE_TOPIC in command("topics", "list").out


def test_a_source_that_the_environment_names_is_said_to_be_wrong_there(command, monkeypatch):
    """An error about a source from the environment contains the variable and not --source."""
    monkeypatch.setenv("DELAYED_TRACKER_SOURCE", "ledger:/nowhere")
    assert "DELAYED_TRACKER_SOURCE: 'ledger:/nowhere' is not valid; /nowhere: give a" in command("topics", "list").err
    typed = command("topics", "list", "--source", "ledger:/elsewhere")
    assert "--source: 'ledger:/elsewhere' is not valid; /elsewhere: give a" in typed.err


def test_a_file_that_cannot_be_read_later_is_named(command, tmp_path):
    """The error contains the file and its source."""
    made = command("ledgers", "import", "--source", SAMPLE, "--topic", SAMPLE_TOPIC, "--into", str(tmp_path / "local"))
    assert made.status == 0
    log = min((tmp_path / "local").glob("topics/*/*.log"))
    log.unlink()
    log.symlink_to(log)
    url = f"ledger:{tmp_path / 'local'}"
    ran = command("topics", "entries", "--source", url, "--topic", SAMPLE_TOPIC)
    assert ran.status == ExitCode.USAGE
    assert (
        f"--source: '{url}' is not valid; {log}: Too many levels of symbolic links; name files that can be read"
        in ran.err
    )


def test_with_json_an_error_is_alone_on_stderr(command):
    """No progress is printed before the error object."""
    ran = command("topics", "entries", *SOURCE, "--topic", "persistent://lab/main/nope", "--json")
    assert ran.status == ExitCode.BAD_DATA
    assert json.loads(ran.err)["error"]["reason"] == "TOPIC_NOT_FOUND"


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["config", "--config", "~/tracker.conf"], "--config"),
        (["config", "--broker-conf", "~/broker.conf"], "--broker-conf"),
        (["demo", "--sample", "~/sample"], "--sample"),
        (["assets", "~/monitoring"], "directory"),
        (["topics", "message", *SOURCE, "--topic", "t", "1:0", "--key", "a=~/k.pem"], "--key"),
        (["ledgers", "import", *SOURCE, "--into", "~/ledgers"], "--into"),
        (["replay", "--bookie", "/", "--metadata", "~/d", "--topic", "t", "--subscription", "s"], "--metadata"),
        (["topics", "list", "--source", "ledger:~/ledgers"], "--source"),
        (["topics", "list", "--source", "bookkeeper+file:/ledgers?metadata=~/dump"], "--source"),
    ],
)
def test_a_path_below_a_home_is_refused_by_every_option(command, tmp_path, monkeypatch, arguments, option):
    """A path with an unexpanded ~ is refused and not created."""
    monkeypatch.chdir(tmp_path)
    ran = command(*arguments)
    assert ran.status == ExitCode.USAGE
    assert ran.err.startswith(f"delayed-tracker: {option}: ")
    assert "write the path out" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a" * 300, "a" * 300 + "/inner"])
def test_a_name_too_long_is_refused_by_every_option(command, tmp_path, monkeypatch, name):
    """The status is that of a bad option, and the message contains the system's reason."""
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["config", "--config", name],
        ["ledgers", "import", *SOURCE, "--into", name],
        ["topics", "list", "--source", f"bookkeeper+file:{name}?metadata={name}"],
    ):
        ran = command(*arguments)
        assert ran.status == ExitCode.USAGE, arguments
        assert "File name too long" in ran.err or "make the directory" in ran.err
