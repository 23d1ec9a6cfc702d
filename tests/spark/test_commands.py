"""Commands of ``spark-rebuild`` as a user types them, run in the Spark session of the tests."""

import asyncio

import pyarrow.parquet as pq
import pytest

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE
from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.spark.main import PROGRAM
from delayed_tracker.cli.spark.service_commit import OWNER, ServiceCommit
from delayed_tracker.client import ClientCredentials, DelayedTrackerClient, Fenced, Position
from delayed_tracker.core.values.columns import BEFORE_ALL
from delayed_tracker.spark.commit.commit import RebuiltTracker, StorageCommit
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from tests.cli.ledger_sources import damaged_sample
from tests.spark.harness.clusters import NOW_MS, Cursor, Entry, Topic, write_cluster

SOURCE = f"bookkeeper+file:{BUNDLED_SAMPLE / 'bookie'}?metadata={BUNDLED_SAMPLE / 'metadata.jsonl'}"
NOW = "2026-11-21T06:00:00Z"
TOPIC, SUBSCRIPTION = "persistent://lab/main/delayed", "sub-1"
SMALL = "delayedDeliveryMinIndexCountPerBucket=50"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def of(name, *arguments):
    """Return a command on one subscription of the sample, at a time when most messages were pending."""
    reading = () if name in {"index", "inspect"} else ("--subscription", SUBSCRIPTION, "--now", NOW, "--set", SMALL)
    return name, "--source", SOURCE, "--topic", TOPIC, *reading, *arguments


@pytest.fixture
def rebuilt(command, tmp_path):
    """Rebuild the sample into a storage; return its URL and the output of the rebuild."""
    target = f"sqlite:{tmp_path / 'tracker.db'}"
    ran = command(*of("rebuild", "--staging", str(tmp_path / "staging"), "--commit", target, "--json"))
    assert ran.status == 0, ran.err
    return target, ran.document


def test_a_rebuild_accounts_for_every_message_and_equals_the_ledgers(command, rebuilt, tmp_path):
    """Every delayed message is in one count, verify finds no difference, and a second rebuild changes nothing."""
    target, document = rebuilt
    counts = ("acknowledged", "aborted", "open_transaction", "due", "beyond_max_delay", "duplicate", "written", "tail")
    assert document["delayed"] == sum(document[name] for name in counts) == 586
    assert document["written"] > 0
    assert document["trackers"][0]["buckets"] > 1
    assert set(document["seconds"]) == {"look", "read", "count", "plan", "stage", "commit"}
    verified = command(*of("verify", "--against", target))
    assert verified.status == 0, verified.out
    assert "the index matches the ledgers" in verified.out
    metrics = tmp_path / "rebuild.prom"
    again = command(
        *of("rebuild", "--staging", str(tmp_path / "staging"), "--commit", target, "--prometheus", str(metrics))
    )
    assert again.status == 0
    assert f"{document['trackers'][0]['epoch']}, as it was" in again.out
    said = dict(line.rsplit(" ", 1) for line in metrics.read_text().splitlines() if not line.startswith("#"))
    assert float(said['delayed_tracker_rebuild_written_indexes{command="rebuild"}']) == document["written"]
    assert float(said['delayed_tracker_rebuild_last_success_timestamp_seconds{command="rebuild"}']) > 1.7e9


def test_a_dry_run_says_the_same_and_writes_nothing(command, tmp_path):
    """A dry run writes neither staged work nor a storage."""
    target = tmp_path / "tracker.db"
    ran = command(*of("rebuild", "--dry-run", "--commit", f"sqlite:{target}", "--json"))
    assert (ran.status, ran.document["dry_run"], ran.document["written"] > 0) == (0, True, True)
    assert not list(tmp_path.iterdir())


async def test_what_differs_is_listed_and_the_status_says_so(command, rebuilt, tmp_path):
    """The indexes of a lost bucket are listed as missing, and the status is 1."""
    target, _ = rebuilt
    storage = SqliteStorage(tmp_path / "tracker.db")
    await storage.start()
    state = await storage.list(TOPIC, SUBSCRIPTION)
    lost = state.entries[0]
    await storage.delete_bucket_snapshot(lost.bucket_id)
    await storage.close()
    # An event loop is running already, and a command runs its own.
    ran = await asyncio.to_thread(command, *of("verify", "--against", target, "--json"))
    assert ran.status == 1
    (tracker,) = ran.document["trackers"]
    assert tracker["missing"] == len(tracker["missing_positions"]) > 0
    assert (tracker["extra"], tracker["differing"]) == (0, 0)
    assert f"bucket {lost.bucket_id}" in ran.document["unreadable_buckets"][0]


def test_an_empty_index_is_not_called_sound(command, tmp_path):
    """If all positions are too recent for a bucket, none is missing, and the answer states that none was compared."""
    with StorageCommit(f"sqlite:{tmp_path / 'tracker.db'}"):
        pass  # Creates an empty storage.
    verify = of("verify", "--against", f"sqlite:{tmp_path / 'tracker.db'}", "--set", SMALL.replace("50", "50000"))
    ran = command(*verify)
    assert ran.status == 0, ran.err
    rows = [[cell.strip() for cell in line.split("│")[2:-1]] for line in ran.out.splitlines() if TOPIC in line]
    assert rows == [[SUBSCRIPTION, "343", "0", "343", "0", "0", "0", "92:16"]]
    assert ran.out.splitlines()[-1] == (
        "nothing was compared: the ledgers and the index share no position that is not due yet; 343 positions of "
        "the ledgers are not in a bucket yet: the dispatcher adds them again"
    )
    (tracker,) = command(*verify, "--json").document["trackers"]
    assert (tracker["too_recent"], tracker["replay_from"]) == (343, {"ledger_id": 92, "entry_id": 16})


def test_verify_with_ignore_acks_reports_acknowledged_messages_as_missing(command, rebuilt):
    """With --ignore-acks, the acknowledged messages that the index lacks are missing."""
    target, _ = rebuilt
    ran = command(*of("verify", "--against", target, "--ignore-acks"))
    assert ran.status == 1
    assert f"{SUBSCRIPTION} of {TOPIC}: missing: " in ran.out
    assert "the index differs from the ledgers" in ran.out


@pytest.mark.long
def test_the_message_index_is_a_table_by_topic(command, tmp_path):
    """The ranges of the table have no gaps, and an existing table is not overwritten without --overwrite."""
    output = tmp_path / "index"
    ran = command(*of("index", "--output", str(output), "--json"))
    assert ran.status == 0, ran.err
    assert (ran.document["written"], ran.document["without_index"]) == (650, 0)
    rows = pq.read_table(output).to_pylist()
    assert {row["topic"] for row in rows} == {TOPIC}
    rows.sort(key=lambda row: (row["ledger_id"], row["entry_id"]))
    ends = [row["last_index"] for row in rows]
    assert [row["first_index"] for row in rows] == [0, *(end + 1 for end in ends[:-1])]
    assert all(row["broker_timestamp"] > 1_700_000_000_000 for row in rows)
    again = command(*of("index", "--output", str(output)))
    assert (again.status, "--overwrite" in again.err) == (2, True)
    assert command(*of("index", "--output", str(output), "--overwrite")).status == 0


@pytest.mark.long
def test_an_inspection_counts_topics_and_draws_deadlines(command):
    """The bars and the counts outside of them add up to all delayed messages."""
    ran = command("inspect", "--source", SOURCE, "--now", NOW, "--json")
    assert ran.status == 0, ran.err
    topics = {one["topic"]: one for one in ran.document["topics"]}
    assert [one["delayed"] for one in topics.values()] == [586, 420, 137]
    assert topics[TOPIC]["due"] == 0
    bars = ran.document["deadlines"]
    assert bars["before"] + sum(bars["counts"]) + bars["after"] == 586 + 420 + 137
    shown = command(*of("inspect", "--now", NOW, "--bars", "3", "--step-s", "86400"))
    assert "2026-11-22 06:00:00" in shown.out
    assert "delayed messages by deadline" in shown.out


@pytest.mark.long
def test_under_spark_submit_json_is_all_that_is_said(command, monkeypatch):
    """spark-submit merges both output streams, so --json prints no progress there; without --json it does."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    ran = command(*of("inspect", "--json"))
    assert (ran.status, ran.err) == (0, "")
    assert "describe ..." in command(*of("inspect")).err


@pytest.mark.parametrize(
    ("place", "said"), [("/proc/x", "No such file"), ("foo://x", 'Unable to recognise URL "foo://x"')]
)
def test_an_unusable_staging_place_is_refused_before_anything_is_read(command, tmp_path, place, said):
    """An unusable staging URL is refused in one line, before anything is read."""
    target = tmp_path / "tracker.db"
    ran = command(*of("rebuild", "--staging", place, "--commit", f"sqlite:{target}"))
    assert (ran.status, target.exists()) == (2, False), ran.err
    (line,) = ran.err.splitlines()
    assert line.startswith("spark-rebuild: --staging: ")
    assert said in line


def test_damage_ends_the_job_or_is_listed(command, tmp_path):
    """``fail`` names the first bad entry; ``skip`` lists all and continues."""
    damaged = damaged_sample(tmp_path)
    failed = command("inspect", "--source", damaged)
    assert failed.status == 7
    assert "88:0" in failed.err
    assert "Traceback" not in failed.err.splitlines()[-1]
    skipped = command("inspect", "--source", damaged, "--on-error", "skip", "--json")
    assert skipped.status == 0, skipped.err
    assert skipped.document["bad_entries"]["count"] == 1
    assert "88:0" in skipped.document["bad_entries"]["errors"][0]


def test_a_rebuild_goes_on_past_damage_if_it_is_to(command, tmp_path):
    """Unreadable entries are named and do not count as read."""
    rebuild = ("rebuild", "--source", damaged_sample(tmp_path), "--now", NOW, "--dry-run", "--json")
    failed = command(*rebuild)
    assert failed.status == 7
    assert "88:0" in failed.err
    skipped = command(*rebuild, "--on-error", "skip")
    assert skipped.status == 0, skipped.err
    assert len(skipped.document["bad_entries"]) == 1
    assert "88:0" in str(skipped.document["bad_entries"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            of("rebuild"),
            "missing option '--commit': give a storage, such as sqlite:PATH, or grpc://HOST:PORT, or --dry-run",
        ),
        (
            of("rebuild", "--commit", "sqlite:x.db"),
            "missing option '--staging': give a directory or URL that the driver",
        ),
        (of("rebuild", "--dry-run", "--spark-option", "x=1"), "--spark-option: 'x=1'"),
        (of("rebuild", "--dry-run", "--set", "noSuchKey=1"), "noSuchKey"),
        (of("rebuild", "--commit", "nosuch:x", "--staging", "s"), "nosuch"),
        (("inspect", "--source", "nosuch:x"), "nosuch"),
        (of("verify", "--against", "grpc://127.0.0.1"), "host:port"),
        (("index", "--source", SOURCE), "--output"),
        (
            of("inspect", "--bars", "10000", "--step-s", "9223372036854775"),
            "--bars: 10000 is not valid; with --step-s 92",
        ),
        (
            of("rebuild", "--dry-run", "--prometheus", "/nope/x.prom"),
            "--prometheus: '/nope/x.prom' is not valid; No such",
        ),
        (of("verify", "--against", "sqlite:x", "--prometheus", "/proc/x"), "--prometheus: '/proc/x' is not valid"),
        (of("index", "--output", "x", "--prometheus", "/nope/x"), "--prometheus: '/nope/x' is not valid"),
        (of("inspect", "--spark-log", "~/log"), "--spark-log: '~/log' is not valid; ~ is not replaced by a home"),
        (
            of("rebuild", "--commit", "sqlite:~/x.db", "--staging", "x"),
            "--commit: 'sqlite:~/x.db' is not valid; ~ is not replaced by a home",
        ),
        (of("index", "--output", "~/table"), "--output: '~/table' is not valid; ~ is not replaced by a home"),
        (of("inspect", "--prometheus", "/proc"), "--prometheus: '/proc' is not valid; Is a directory"),
        (of("inspect", "--on-error", "go"), "--on-error: 'go' is not valid; 'go' is not one of 'fail', 'skip'"),
        (of("rebuild", "--dry-run", "--open-ledgers", "no"), "--open-ledgers: 'no' is not valid; 'no' is not one of"),
        (of("inspect", "--master", "lokal[2]"), "--master: 'lokal[2]' is not valid; give local, local[N], local[*]"),
        (
            ("inspect", "--source", "ledger:/nowhere"),
            "--source: 'ledger:/nowhere' is not valid; /nowhere: give a directory that exists",
        ),
        (
            ("inspect", "--source", "bookkeeper+file:/nowhere?metadata=dump"),
            "/nowhere: give a directory that exists",
        ),
    ],
)
def test_wrong_options_are_named(command, arguments, said):
    """Wrong options end with the status of bad usage before anything is read."""
    ran = command(*arguments)
    assert ran.status == 2
    assert said in ran.err
    assert "read ..." not in ran.err
    assert ran.err.startswith("spark-rebuild: ") or "spark-rebuild: " in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("rebuild", "--dry-run"),
        ("verify", "--against", "sqlite:{}/tracker.db"),
        ("inspect", "--json"),
        ("index", "--output", "{}/index"),
    ],
)
def test_metadata_that_cannot_be_read_is_named(command, tmp_path, words):
    """Unreadable metadata is named, if the driver finds it and if a worker of Spark finds it."""
    with StorageCommit(f"sqlite:{tmp_path / 'tracker.db'}"):
        pass  # Creates the storage.
    bookie = BUNDLED_SAMPLE / "bookie"
    for file, reason in ((tmp_path / "nope.jsonl", "No such file or directory"), (tmp_path, "Is a directory")):
        ran = command(
            *(word.format(tmp_path) for word in words), "--source", f"bookkeeper+file:{bookie}?metadata={file}"
        )
        assert ran.status == 2, ran.err
        assert "--source: 'bookkeeper+file:" in ran.err.splitlines()[-1]
        assert f"is not valid; metadata={file}: {reason}; name files that can be read" in ran.err.splitlines()[-1]


@pytest.mark.deep
@pytest.mark.parametrize("words", [("rebuild", "--dry-run"), ("inspect",)])
def test_a_zookeeper_that_does_not_answer_is_named(command, words):
    """A ZooKeeper that does not answer gives one line and the status of an unreachable service."""
    ran = command(*words, "--source", f"bookkeeper+file:{BUNDLED_SAMPLE / 'bookie'}", "--metadata", "zk:127.0.0.1:1")
    assert ran.status == 5, ran.err
    assert "zk:127.0.0.1:1 does not answer within 15 s; start it or correct the address" in ran.err.splitlines()[-1]
    assert "Connection" not in ran.err


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("/proc/x", "nothing can be made there (No such file or directory)"),
        ("file:///proc/x/y", "nothing can be made there (No such file or directory)"),
        ("/dev/null/x", "nothing can be made there (Not a directory)"),
        ("a" * 300, "nothing can be made there (File name too long)"),
        ("foo://x/y", 'No FileSystem for scheme "foo"'),
    ],
)
def test_a_place_that_takes_no_table_is_refused_before_the_job(command, tmp_path, monkeypatch, output, why):
    """An unusable output is refused with the option and the reason, not a Java class, and leaves nothing behind."""
    monkeypatch.chdir(tmp_path)
    ran = command(*of("index", "--output", output))
    assert ran.status == 2, ran.err
    assert ran.err.splitlines()[-1] == (
        f"spark-rebuild: --output: '{output}' is not valid; {why}: give a place that the driver and all workers can write to"
    )
    assert "write ..." not in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_fails_while_it_is_written_is_named(command):
    """If only the job can try the output, the error states the first cause; Spark's own messages are in its log."""
    ran = command(*of("index", "--output", "ftp://127.0.0.1:1/x"))
    assert ran.status == 2, ran.err
    assert ran.err.splitlines()[-1] == (
        "spark-rebuild: --output: 'ftp://127.0.0.1:1/x' is not valid; Connection refused: "
        "give a place that the driver and all workers can write to"
    )


def test_a_table_without_rows_is_valid(command, tmp_path):
    """If no message has an index, as when everything is damaged, the table is empty but valid."""
    url = write_cluster(tmp_path / "cluster", [Topic(TOPIC, {1: [Entry(1)]}, {})])
    for log in (tmp_path / "cluster").rglob("*.log"):
        log.write_bytes(log.read_bytes()[:-1])
    ran = command("index", "--source", url, "--on-error", "skip", "--output", str(tmp_path / "table"), "--json")
    assert ran.status == 0, ran.err
    assert (ran.document["written"], ran.document["bad_entries"]["count"]) == (0, 1)


@pytest.mark.parametrize("words", [("rebuild", "--dry-run"), ("inspect",), ("index", "--output", "{}/table")])
def test_a_pattern_that_no_topic_fits_is_named(command, tmp_path, words):
    """Every command refuses a pattern that matches no topic, before anything is written."""
    ran = command(*(word.format(tmp_path) for word in words), "--source", SOURCE, "--topics-pattern", "zzz")
    assert ran.status == 2, ran.err
    assert ran.err.splitlines()[-1] == (
        "spark-rebuild: --topics-pattern: 'zzz' is not valid; no topic fits; give another"
    )
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize("name", PROGRAM.command_names())
def test_every_command_has_help_with_an_example(command, name):
    """The help of every command has an example, and the option for JSON."""
    ran = command(name, "--help")
    assert ran.status == 0
    assert "Example: spark-" in ran.out
    assert "--json" in ran.out


def test_the_script_for_spark_submit_is_a_path_for_machines_too(command):
    assert command("script", "--json").document == {"path": command("script").out.removesuffix("\n")}


@pytest.mark.long
async def test_a_running_service_imports_what_was_rebuilt(command, tmp_path):
    """An import swaps the tracker live; its owner is fenced, opens again, and has the messages of the ledgers."""
    topic = "persistent://lab/main/far"
    delays_ms = range(10**12, 10**12 + 60_000, 1_000)  # decades in the future
    ledgers = {ledger: [Entry(delay_ms) for delay_ms in delays_ms] for ledger in (1, 2, 3)}
    url = write_cluster(tmp_path / "cluster", [Topic(topic, ledgers, {SUBSCRIPTION: Cursor((1, 3))})])
    service = await ServiceProcess.start(tmp_path, storage_url=f"sqlite:{tmp_path / 't.db'}", settings={})
    target = f"grpc://{service.grpc_address}"
    reading = ("--source", url, "--set", SMALL)
    rebuild = ("rebuild", *reading, "--staging", str(tmp_path / "staging"), "--commit", target, "--json")
    verify = ("verify", *reading, "--against", target, "--json")
    try:
        async with DelayedTrackerClient.connect(service.grpc_address) as client:
            old = await client.open_tracker(topic, SUBSCRIPTION)
            ran = await asyncio.to_thread(command, *rebuild)
            assert ran.status == 0, ran.err
            (tracker,) = ran.document["trackers"]
            assert tracker["epoch"] > old.epoch
            assert (tracker["written"], tracker["tail"], tracker["buckets"]) == (116, 60, 2)
            with pytest.raises(Fenced):
                await old.add_columns([1], [9], [9])
            session = await client.open_tracker(topic, SUBSCRIPTION)
            assert session.opened.replay_from == Position(3, 0)  # ledger 3 is not in the buckets
            assert (await session.stats()).pending_count == 116
            verified = await asyncio.to_thread(command, *verify)
            assert verified.status == 0, verified.out
            await session.cancel([2], [5])
            verified = await asyncio.to_thread(command, *verify)
            assert verified.status == 1
            assert verified.document["trackers"][0]["missing_positions"] == [{"ledger_id": 2, "entry_id": 5}]
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()


@pytest.mark.long
async def test_trackers_that_are_not_open_are_named_and_the_others_compared(command, tmp_path):
    """A closed tracker sets the status unless there is a difference; one without pending messages need not be open."""
    topic = "persistent://lab/main/far"
    cursors = {"open": Cursor((1, -1)), "closed": Cursor((1, 0)), "finished": Cursor((1, 2))}
    cluster = [Topic(topic, {1: [Entry(10**12), Entry(10**12 + 1), Entry(10**12 + 2)]}, cursors)]
    url = write_cluster(tmp_path / "cluster", cluster)
    service = await ServiceProcess.start(tmp_path, storage_url="memory:", settings={})
    verify = ("verify", "--source", url, "--against", f"grpc://{service.grpc_address}")
    due_ms = [NOW_MS + 10**12 + number for number in range(3)]
    try:
        async with DelayedTrackerClient.connect(service.grpc_address) as client:
            session = await client.open_tracker(topic, "open")
            await session.add_columns(due_ms, [1, 1, 1], [0, 1, 2])
            ran = await asyncio.to_thread(command, *verify)
            assert ran.status == ExitCode.TRACKER_CONFLICT, ran.err
            rows = [[cell.strip() for cell in line.split("│")[2:-1]] for line in ran.out.splitlines() if topic in line]
            assert [row for row in rows if row] == [
                ["open", "3", "3", "0", "0", "0", "0", "1:0"],
                ["closed", "2", "not open", "-", "-", "-", "-", "-"],
                ["finished", "0", "not open", "-", "-", "-", "-", "-"],
            ]
            assert "agrees with the ledgers where it was compared; 1 tracker was not" in ran.out
            # Below the end of the topic: what is above it may have been published meanwhile.
            await session.add_columns([due_ms[0]], [0], [9])
            ran = await asyncio.to_thread(command, *verify, "--json", "--prometheus", str(tmp_path / "verify.prom"))
            assert (ran.status, ran.document["equal"]) == (ExitCode.FAILURE, False)
            assert [(one["subscription"], one["extra"]) for one in ran.document["trackers"]] == [("open", 1)]
            skipped = {one["subscription"]: (one["expected"], one["reason"]) for one in ran.document["not_compared"]}
            assert skipped == {"closed": (2, "TRACKER_NOT_OPEN"), "finished": (0, "TRACKER_NOT_OPEN")}
            assert 'uncompared_trackers{command="verify"} 1.0' in (tmp_path / "verify.prom").read_text()
            ran = await asyncio.to_thread(command, *verify, "--subscription", "finished", "--json")
            assert (ran.status, ran.document["equal"]) == (0, True)
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()


def test_of_two_jobs_on_one_tracker_one_wins(command, tmp_path):
    """A job whose storage is in use fails and changes nothing."""
    target = tmp_path / "tracker.db"
    with StorageCommit(f"sqlite:{target}"):
        ran = command(*of("rebuild", "--staging", str(tmp_path / "staging"), "--commit", f"sqlite:{target}"))
    assert ran.status == 4
    assert "open" in ran.err
    assert "look ..." not in ran.err


@pytest.mark.parametrize("name", ["typo.db", "no/such/dir/typo.db", "empty.db"])
def test_a_storage_that_is_not_there_is_not_made_to_be_compared(command, tmp_path, name):
    """A mistyped path is refused before anything is read, and nothing is created."""
    empty = tmp_path / "empty.db"
    empty.touch()
    target = f"sqlite:{tmp_path / name}"
    ran = command(*of("verify", "--against", target))
    assert ran.status == 2
    assert f"--against: '{target}' is not valid; the file " in ran.err
    assert "bucketSnapshotStorageUrl" in ran.err
    assert list(tmp_path.iterdir()) == [empty]


@pytest.mark.long
async def test_a_job_that_was_overtaken_on_a_service_changes_nothing(tmp_path):
    """If two jobs began on one tracker, the second to commit is fenced."""
    service = await ServiceProcess.start(tmp_path, storage_url="memory:", settings={})
    empty = RebuiltTracker(TOPIC, SUBSCRIPTION, BEFORE_ALL, ())
    try:
        async with DelayedTrackerClient.connect(service.grpc_address) as client:
            await client.open_tracker(TOPIC, SUBSCRIPTION)
        first, second = (ServiceCommit(service.grpc_address, ClientCredentials()) for _ in range(2))

        def race():
            with first, second:
                first.begin([(TOPIC, SUBSCRIPTION)])
                second.begin([(TOPIC, SUBSCRIPTION)])
                won = second.commit(empty)
                with pytest.raises(Fenced, match=OWNER):
                    first.commit(empty)
                return won.epoch

        epoch = await asyncio.to_thread(race)
        async with DelayedTrackerClient.connect(service.grpc_address) as client:
            assert (await client.open_tracker(TOPIC, SUBSCRIPTION)).epoch == epoch + 1
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()
