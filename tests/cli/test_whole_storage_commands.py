"""Tests of the commands about whole storages: answers for people and machines, exit codes, and remedies."""

import asyncio
import json
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.maintenance.copy_marker import begin_copy
from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.registry import open_storage
from tests.snapshot_storage.shared.maintenance.stores import KEY, OWNER, add_bucket, at_once, log_records

TOPIC, SUBSCRIPTION = KEY


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a SQLite storage with one tracker of two buckets, which no process has open."""
    made = f"sqlite:{tmp_path / 'tracker.db'}"

    async def make() -> None:
        async with opened_storage("--to", made, creates=True) as storage:
            for ledger in (1, 2):
                await add_bucket(storage.snapshots, ledger, seal=ledger)

    asyncio.run(make())
    return made


async def change(url: str, work) -> None:
    async with opened_storage("URL", url, creates=True) as storage:
        await work(storage)


def test_a_storage_is_copied_checked_and_measured(command, url, tmp_path):
    """Answers are tables and sentences; progress goes to stderr."""
    target = f"file://{tmp_path / 'moved'}"
    ran = command("storage", "copy", "--from", url, "--to", target)
    assert ran.status == 0, ran.err
    assert ran.out.startswith("1 tracker copied and verified: 2 snapshots of ")
    assert "copying: 2 of 2 snapshots" in ran.err
    ran = command("storage", "check", target)
    assert ran.status == 0
    assert ran.out.startswith("1 tracker, 2 snapshots, ")
    assert ran.out.endswith("; 0 problems\n")
    ran = command("storage", "stat", target)
    assert ran.status == 0
    assert SUBSCRIPTION in ran.out
    assert ", 16 messages remaining\n" in ran.out
    assert "in the add log" in command("storage", "stat", url).out


def test_a_copy_in_pulsar_codec(command, tmp_path):
    """Columnar snapshots become larger on the way; the copy is as sound as any other."""
    url, copies = (
        f"sqlite:{tmp_path / 'columnar.db'}",
        [f"sqlite:{tmp_path / name}" for name in ("as-is.db", "pulsar.db")],
    )

    async def add(storage) -> None:
        await add_bucket(storage.snapshots, 1, 200, codec=SnapshotCodec.COLUMNAR)

    asyncio.run(change(url, add))
    sizes = []
    for target, options in zip(copies, ([], ["--pulsar-codec"]), strict=True):
        ran = command("storage", "copy", "--from", url, "--to", target, "--json", *options)
        assert ran.status == 0, ran.err
        sizes.append(json.loads(ran.out)["byte_count"])
        assert json.loads(command("storage", "check", target, "--json").out)["sound"]
    assert sizes[1] > 2 * sizes[0]


def test_answers_for_machines(command, url, tmp_path):
    """With --json each answer is one object, and there is no progress."""
    target = f"file://{tmp_path / 'moved'}"
    ran = command("storage", "copy", "--from", url, "--to", target, "--json")
    assert ran.err == ""
    copied = json.loads(ran.out)
    assert (copied["tracker_count"], copied["snapshot_count"], copied["record_count"]) == (1, 2, 0)
    checked = json.loads(command("storage", "check", target, "--json").out)
    assert checked == {
        "sound": True,
        "tracker_count": 1,
        "snapshot_count": 2,
        "snapshot_bytes": copied["byte_count"],
        "trackers_with_problems": [],
        "unknown_places": [],
        "repaired": [],
    }
    measured = json.loads(command("storage", "stat", target, "--json").out)
    assert (measured["snapshot_bytes"], measured["remaining_count"]) == (copied["byte_count"], 16)
    assert measured["log_bytes"] is None
    (tracker,) = measured["trackers"]
    assert (tracker["topic"], tracker["subscription"], tracker["epoch"]) == (TOPIC, SUBSCRIPTION, 2)
    assert tracker["mark_delete"] == {"ledger_id": 0, "entry_id": 7}


def test_damage_is_status_1_until_it_is_repaired(command, url):
    """A repair says what it dropped, and exits with 0; the next check finds nothing."""
    asyncio.run(change(url, lambda storage: storage.snapshots.delete_bucket_snapshot(1)))
    ran = command("storage", "check", url)
    assert ran.status == ExitCode.FAILURE
    assert "It is missing, or part of it" in ran.out
    found = json.loads(command("storage", "check", url, "--json").out)
    (tracker,) = found["trackers_with_problems"]
    assert (found["sound"], tracker["snapshots"][0]["bucket_id"]) == (False, 1)
    ran = command("storage", "check", url, "--repair")
    assert ran.status == 0
    assert "has epoch 2 now: 1 bucket dropped, 0 written anew in the catalogue, 0 orphans deleted" in ran.out
    assert command("storage", "check", url).status == 0


def test_wrong_input_is_one_line_with_a_remedy(command, url, tmp_path):
    """The line names the option, and nothing is made."""
    none, empty = f"sqlite:{tmp_path / 'none.db'}", f"file://{tmp_path / 'empty'}"
    before = sorted(tmp_path.iterdir())
    for arguments, status, message in (
        (
            ["copy", "--from", none, "--to", empty],
            ExitCode.USAGE,
            f"--from: '{none}' is not valid; there is no storage",
        ),
        (["copy", "--from", url, "--to", url], ExitCode.USAGE, "it is the source; give another storage"),
        (["copy", "--from", url, "--to", "tape:"], ExitCode.USAGE, "the scheme 'tape' is not one of"),
        (["copy", "--from", url, "--to", "file:relative"], ExitCode.USAGE, "write file:///DIR"),
        (["check", none], ExitCode.USAGE, "there is no storage; give the service's bucketSnapshotStorageUrl"),
        (["stat", empty], ExitCode.USAGE, "there is no storage; give the service's bucketSnapshotStorageUrl"),
    ):
        ran = command("storage", *arguments)
        assert (ran.status, ran.out, ran.err.count("\n")) == (status, "", 1)
        assert message in ran.err
    assert sorted(tmp_path.iterdir()) == before


def test_what_cannot_be_copied_now_says_why(command, url, tmp_path):
    """Records in the log need a target with a log; storages in use, in part or not, are named."""
    target = f"file://{tmp_path / 'moved'}"

    async def logged(storage) -> None:
        await log_records(storage.log)

    asyncio.run(change(url, logged))
    ran = command("storage", "copy", "--from", url, "--to", target)
    assert (ran.status, ran.err.count("\n")) == (ExitCode.USAGE, 1)
    assert "3 records that no snapshot contains" in ran.err

    async def in_use() -> None:
        store = open_storage(url)
        await store.start()
        ran = await asyncio.to_thread(command, "storage", "copy", "--from", url, "--to", f"sqlite:{tmp_path / 'b'}")
        await store.close()
        assert (ran.status, ran.err.count("\n")) == (ExitCode.STORAGE_UNUSABLE, 1)

    asyncio.run(in_use())

    async def begun(storage) -> None:
        await begin_copy(storage.snapshots, "b", "sqlite:/elsewhere", at_once)

    asyncio.run(change(f"sqlite:{tmp_path / 'b'}", begun))
    ran = command("storage", "check", f"sqlite:{tmp_path / 'b'}")
    assert ran.status == ExitCode.STORAGE_UNUSABLE
    assert "an unfinished copy of sqlite:/elsewhere" in ran.err


def test_an_owner_that_is_alive_ends_the_copy_with_its_status(command, url, tmp_path):
    """A target that another process writes to is a conflict: stop that process."""
    target = f"sqlite:{tmp_path / 'b'}"

    async def claimed(storage) -> None:
        await begin_copy(storage.snapshots, target, url, at_once)
        await add_bucket(storage.snapshots, 5)

    asyncio.run(change(target, claimed))
    ran = command("storage", "copy", "--from", url, "--to", target)
    assert (ran.status, ran.err.count("\n")) == (ExitCode.TRACKER_CONFLICT, 1)
    assert f"another process has opened {SUBSCRIPTION!r} of {TOPIC!r} at the target" in ran.err
    assert OWNER not in ran.err
