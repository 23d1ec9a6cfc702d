"""Tests of the commands about a storage's files: answers, and one line with a remedy for each wrong input."""

import asyncio
import json
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.registry import open_storage
from tests.snapshot_storage.sqlite.sqlite_files import ask


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return the file of a storage with one tracker, which no process has open."""

    async def make(url: str) -> None:
        store, log = open_storage(url), open_add_log(url)
        await store.start()
        await log.start()
        await store.replace("t", "c", remove=[], add=[], epoch=1)
        await log.append([LogAppend("t", "c", 1, 1, [b"record"])], writer="w")
        await log.close()
        await store.close()

    asyncio.run(make(f"sqlite:{tmp_path / 'db'}"))
    return tmp_path / "db"


def test_a_storage_goes_through_backup_restore_and_compact(command, storage, tmp_path):
    """Answers list the files; progress goes to stderr."""
    copy, restored = tmp_path / "copy", tmp_path / "restored"
    ran = command("backup", str(copy), "--storage", f"sqlite:{storage}")
    assert (ran.status, ran.out.splitlines()) == (0, [f"{copy}: 163.8 kB", f"{copy}.add-log: 28.7 kB"])
    assert "copying: 192512 of 192512 bytes" in ran.err
    ran = command("restore", str(copy), "--storage", f"sqlite:{restored}")
    assert ran.status == 0
    assert ran.out.splitlines()[:2] == [f"{restored}: restored", f"{restored}.add-log: restored"]
    assert ran.out.splitlines()[2].startswith("1 tracker with a new epoch;")
    ran = command("compact", "--storage", f"sqlite:{restored}")
    assert (ran.status, ran.err) == (0, "")
    assert [line.partition(":")[0] for line in ran.out.splitlines()] == [str(restored), f"{restored}.add-log"]


def test_a_damaged_backup_is_restored_only_when_asked(command, storage, tmp_path):
    """The error names what is damaged and the option; with it, the answer lists what is missing."""
    copy, restored = tmp_path / "copy", tmp_path / "restored"
    command("backup", str(copy), "--storage", f"sqlite:{storage}")
    ask(Path(f"{copy}.add-log"), "UPDATE records SET payload = zeroblob(length(payload))")
    damage = "subscription 'c' of 't': records 1 to 1 of the add log are damaged or missing"
    ran = command("restore", str(copy), "--storage", f"sqlite:{restored}")
    assert (ran.status, ran.out, restored.exists()) == (ExitCode.STORAGE_UNUSABLE, "", False)
    assert f"{copy} is damaged ({damage}); name another backup, or give --accept-damage" in ran.err
    ran = command("restore", str(copy), "--storage", f"sqlite:{restored}", "--accept-damage")
    assert ran.status == 0
    assert f"not restored: {damage}" in ran.out.splitlines()


def test_answers_for_machines(command, storage, tmp_path):
    """With --json the answers are objects and there is no progress."""
    copy, restored = tmp_path / "copy", tmp_path / "restored"
    ran = command("backup", str(copy), "--storage", f"sqlite:{storage}", "--json")
    assert ran.err == ""
    paths = [str(copy), f"{copy}.add-log"]
    assert json.loads(ran.out) == {"files": [{"path": path, "bytes": Path(path).stat().st_size} for path in paths]}
    ran = command("restore", str(copy), "--storage", f"sqlite:{restored}", "--json")
    assert json.loads(ran.out) == {"files": [str(restored), f"{restored}.add-log"], "tracker_count": 1, "damage": []}
    ran = command("compact", "--storage", f"sqlite:{restored}", "--json")
    for file, path in zip(json.loads(ran.out)["files"], (restored, Path(f"{restored}.add-log")), strict=True):
        assert (file["path"], file["bytes_after"]) == (str(path), path.stat().st_size)
        assert file["bytes_before"] >= file["bytes_after"]


def test_the_storage_of_a_configuration_is_meant(command, storage, tmp_path):
    """The file names it as for the service; naming two storages is refused."""
    conf = tmp_path / "tracker.conf"
    # The key of tokens is in the environment of the service alone.
    secured = "grpcListenAddress=tls://0.0.0.0:7650\nauthenticationEnabled=true\nauthenticationProviders=token\n"
    conf.write_text(f"bucketSnapshotStorageUrl=sqlite:{storage}\n{secured}")
    assert command("backup", str(tmp_path / "copy"), "--config", str(conf)).status == 0
    ran = command("backup", str(tmp_path / "other"), "--config", str(conf), "--storage", f"sqlite:{storage}")
    assert (ran.status, ran.err.count("\n")) == (ExitCode.USAGE, 1)
    assert "--config names a storage, too; give one of the two" in ran.err
    assert command("compact", "--config", str(conf)).status == 0
    assert command("restore", str(tmp_path / "copy"), "--config", str(conf), "--force").status == 0
    conf.write_text("bucketSnapshotStorageUrl=memory:\n")
    for arguments in (["backup", str(tmp_path / "other")], ["restore", str(tmp_path / "copy")], ["compact"]):
        ran = command(*arguments, "--config", str(conf))
        assert ran.status == ExitCode.USAGE
        assert ran.err.startswith(
            "delayed-tracker: bucketSnapshotStorageUrl: 'memory:' is not valid; only a SQLite storage"
        )


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["backup", "{0}/copy", "--storage", "sqlite:{0}/none"], 2, "there is no such file; name the storage"),
        (["backup", "{0}/copy", "--storage", "memory:"], 2, "--storage: 'memory:' is not valid; only a SQLite storage"),
        (["backup", "{0}/copy", "--storage", "sqlite:"], 2, "write sqlite:PATH"),
        (["backup", "{0}/copy", "--storage", "sqlite:~/db"], 2, "~ is not replaced by a home directory"),
        (["backup", "~/copy", "--storage", "sqlite:{0}/db"], 2, "~ is not replaced by a home directory"),
        (["backup", "{0}/no/copy", "--storage", "sqlite:{0}/db"], 2, "create the directory {0}/no first"),
        (["backup", "{0}/text", "--storage", "sqlite:{0}/db"], 2, "{0}/text exists; give another name, or --force"),
        (["backup", "{0}/copy", "--storage", "sqlite:{0}/text"], 4, "{0}/text: file is not a database"),
        (["backup", "/proc/self/copy", "--storage", "sqlite:{0}/db"], 4, "/proc/self/copy: "),
        (["restore", "{0}/none", "--storage", "sqlite:{0}/new"], 2, "FILE: '{0}/none' is not valid; there is no such"),
        (["restore", "{0}/text", "--storage", "sqlite:{0}/new"], 4, "{0}/text is not a SQLite database"),
        (["restore", "{0}/db.add-log", "--storage", "sqlite:{0}/new"], 4, "database of another program"),
        (["restore", "{0}/db", "--storage", "ledger:{0}"], 2, "--storage: 'ledger:{0}' is not valid; only a SQLite"),
        (["restore", "{0}/db", "--storage", "sqlite:{0}/text"], 2, "{0}/text exists; give another, or --force"),
        (["restore", "{0}/db", "--storage", "sqlite:{0}/db"], 2, "this is the storage itself"),
        (["restore", "{0}/db", "--storage", "sqlite:{0}/no/where/db"], 2, "create the directory {0}/no first"),
        (["compact", "--storage", "sqlite:{0}/none"], 2, "there is no such file; name the storage"),
        (["compact", "--storage", "sqlite:{0}/text"], 4, "{0}/text is not a SQLite database"),
        (["compact", "--storage", "faulty:;sqlite:{0}/db"], 2, "only a SQLite storage has files"),
    ],
)
def test_wrong_input_is_one_line_with_a_remedy(command, storage, arguments, status, message):
    """The line names the file or the option; no file is made or changed."""
    directory = storage.parent
    (directory / "text").write_text("some text\n")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    ran = command(*(argument.format(directory) for argument in arguments))
    assert (ran.status, ran.out) == (status, "")
    assert ran.err.count("\n") == 1
    assert message.format(directory) in ran.err
    after = {path.name: path.read_bytes() for path in directory.iterdir() if not path.name.startswith("new.")}
    assert after == before


def test_a_storage_in_use_is_one_line_with_its_status(command, storage, tmp_path):
    """Restore and compact name the process that has it open; a backup is made nevertheless."""

    async def with_storage() -> None:
        store = open_storage(f"sqlite:{storage}")
        await store.start()
        copy = str(tmp_path / "copy")
        assert (await asyncio.to_thread(command, "backup", copy, "--storage", f"sqlite:{storage}")).status == 0
        for arguments in (["restore", copy, "--force"], ["compact"]):
            ran = await asyncio.to_thread(command, *arguments, "--storage", f"sqlite:{storage}")
            assert (ran.status, ran.err.count("\n")) == (ExitCode.STORAGE_UNUSABLE, 1)
            assert f"this process has {storage} open already" in ran.err
        await store.close()

    asyncio.run(with_storage())
