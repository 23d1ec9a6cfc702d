"""Tests of the commands inspect, adopt and repair: answers for people and machines, exit codes, consent, and restore."""

import asyncio
import json
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cluster.adoption_undo import AdoptedTracker, take_adoption_back
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.storage.maintenance.opening import opened_storage
from tests.cli.conftest import Ran, command
from tests.cluster.made_cluster import SUBSCRIPTION, TOPIC, MadeCluster, indexes_of

__all__ = ["command"]

pytestmark = pytest.mark.slow


@pytest.fixture
def run(command, made: MadeCluster):
    """Return what runs ``delayed-tracker pulsar ARGUMENTS`` beside the test's loop; CLUSTER stands for the address."""

    async def ran(*arguments: str) -> Ran:
        named = [made.address.text if each == "CLUSTER" else each for each in arguments]
        return await asyncio.to_thread(command, "pulsar", *named)

    return ran


async def properties(made: MadeCluster) -> set[BucketProperty]:
    return set(CursorNode.decode((await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)).value).buckets)


async def test_inspect_shows_buckets_and_problems(made: MadeCluster, run):
    """The status is 0 while all is well, and 1 with a problem, which is in the table and in the JSON."""
    named = await made.bucket(indexes_of([3, 4]))
    await made.cursor([named])
    ran = await run("inspect", "CLUSTER")
    assert ran.status == 0, ran.err
    assert f"{SUBSCRIPTION}" in ran.out
    assert "3 to 4" in ran.out
    assert "1 subscription with 1 bucket: 16 messages, " in ran.out
    assert ran.out.endswith("\n0 problems\n")
    orphan = await made.bucket(indexes_of([9]))
    ran = await run("inspect", "CLUSTER", "--json")
    assert (ran.status, ran.err) == (ExitCode.FAILURE, "")
    found = json.loads(ran.out)
    assert (found["sound"], found["message_count"], found["bucket_count"], found["ledger_count"]) == (False, 16, 1, 2)
    assert [each["ledger_id"] for each in found["orphans"]] == [orphan.bucket_id]
    (bucket,) = found["subscriptions"][0]["buckets"]
    assert (bucket["first_ledger_id"], bucket["last_ledger_id"], bucket["bucket_id"]) == (3, 4, named.bucket_id)
    assert bucket["problems"] == []
    assert (await run("inspect", "CLUSTER", "--no-orphans")).status == 0
    await made.delete_ledger(named)
    ran = await run("inspect", "CLUSTER", "--topic", str(TOPIC), "--subscription", SUBSCRIPTION)
    assert ran.status == ExitCode.FAILURE
    assert f"There is no ledger {named.bucket_id}." in ran.out
    assert "orphan" in ran.out
    assert ran.out.endswith("\n2 problems\n")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("inspect", "bookkeeper+etcd:localhost:2379"), ExitCode.USAGE, "the metadata store 'etcd' is not supported"),
        (("inspect", "CLUSTER", "--topic", "persistent://t/ns/no"), ExitCode.BAD_DATA, "has no topic persistent://t/ns/no"),
        (("inspect", "CLUSTER", "--subscription", "no"), ExitCode.BAD_DATA, "has no subscription 'no'"),
        (("repair", "bookkeeper+zk:"), ExitCode.USAGE, "CLUSTER: 'bookkeeper+zk:' is not valid"),
        (("adopt", "--from", "CLUSTER", "--to", "tape:1"), ExitCode.USAGE, "tape"),
    ],
)  # fmt: skip
async def test_bad_options_name_the_remedy(made: MadeCluster, run, arguments, status, words):
    """They end with the status of their kind, and nothing on stdout."""
    await made.cursor([await made.bucket(indexes_of([3]))])
    ran = await run(*arguments)
    assert ran.status == status
    assert words in ran.err
    assert ran.out == ""


async def test_repair_asks_and_restore_takes_it_back(made: MadeCluster, run, tmp_path: Path):
    """Without consent and with --dry-run nothing changes; what a repair has deleted comes back from its file."""
    small, large = await made.bucket(indexes_of([3], count=4)), await made.bucket(indexes_of([3, 4]))
    orphan = await made.bucket(indexes_of([9]))
    await made.cursor([small, large])
    ran = await run("repair", "CLUSTER")
    assert ran.status == ExitCode.USAGE
    assert "nothing was changed" in ran.err
    ran = await run("repair", "CLUSTER", "--dry-run")
    assert ran.status == 0
    assert ran.out.endswith("nothing was changed\n")
    assert await properties(made) == {small, large}
    file = tmp_path / "before.jsonl"
    ran = await run("repair", "CLUSTER", "--yes", "--backup", str(file))
    assert ran.status == 0, ran.err
    assert ran.out.endswith("1 bucket removed from 1 subscription, 2 ledgers deleted; 0 problems left\n")
    assert f"{made.address.cursor_node(TOPIC, SUBSCRIPTION)}: version " in ran.err
    assert f"ledger {orphan.bucket_id}: deleted" in ran.err
    assert await properties(made) == {large}
    ran = await run("repair", "CLUSTER", "--yes", "--json")
    assert json.loads(ran.out)["repaired"] is None
    ran = await run("restore", str(file), "--to", "CLUSTER", "--yes")
    assert ran.status == 0, ran.err
    names = {each.name for each in await properties(made)}
    assert names == {small.name, large.name}
    found = json.loads((await run("inspect", "CLUSTER", "--json")).out)
    assert found["message_count"] == 4 + 16
    assert [each["payload_bytes"] > 0 for each in found["orphans"]] == [True]


async def test_restore_leaves_out_a_subscription_that_was_deleted(made: MadeCluster, run, tmp_path: Path):
    """It is named in the output and in the JSON, and the other one is restored."""
    large = await made.bucket(indexes_of([3, 4]))
    small = await made.bucket(indexes_of([3], count=4))
    await made.cursor([large, small])
    await made.cursor([BucketProperty.of(3, 4, 2**40)], subscription="gone")
    file = str(tmp_path / "before.jsonl")
    ran = await run("repair", "CLUSTER", "--yes", "--backup", file)
    assert ran.status == 0, ran.err
    await made.cluster.client.zookeeper.delete(made.address.cursor_node(TOPIC, "gone"))
    planned = json.loads((await run("restore", file, "--to", "CLUSTER", "--dry-run", "--json")).out)
    assert {one["subscription"]: one["is_deleted"] for one in planned["subscriptions"]} == {
        SUBSCRIPTION: False,
        "gone": True,
    }
    ran = await run("restore", file, "--to", "CLUSTER", "--yes")
    assert ran.status == 0, ran.err
    assert "1 subscription restored, 0 as before already; 1 ledger written again" in ran.out
    assert f"left out, since it was deleted: 'gone' of {TOPIC}" in ran.out
    assert {each.name for each in await properties(made)} == {small.name, large.name}


async def test_adopt_into_a_new_storage(made: MadeCluster, run, tmp_path: Path):
    """A dry run makes no file; the storage is then sound, and a second run changes nothing."""
    await made.cursor([await made.bucket(indexes_of([3])), await made.bucket(indexes_of([5]))])
    file = tmp_path / "tracker.db"
    target = ("--from", "CLUSTER", "--to", f"sqlite:{file}")
    ran = await run("adopt", *target, "--dry-run")
    assert ran.status == 0, ran.err
    assert ran.out.endswith("nothing was changed\n")
    assert (await run("adopt", *target)).status == ExitCode.USAGE
    assert not file.exists()
    ran = await run("adopt", *target, "--yes")
    assert ran.status == 0, ran.err
    assert "2 buckets of 1 subscription adopted and verified: 16 messages, " in ran.out
    assert "adopting: 2 of 2 buckets" in ran.err
    adopted = json.loads((await run("adopt", *target, "--yes", "--json")).out)
    (one,) = adopted["subscriptions"]
    assert (one["there_already"], one["bucket_count"], one["left_out"]) == (True, 2, [])


async def test_an_adoption_is_taken_back(made: MadeCluster, run, tmp_path: Path):
    """The storage has no tracker afterwards; one that was opened since stays."""
    await made.cursor([await made.bucket(indexes_of([3]))])
    target, file = f"sqlite:{tmp_path / 'tracker.db'}", str(tmp_path / "adopted.jsonl")
    ran = await run("adopt", "--from", "CLUSTER", "--to", target, "--yes", "--backup", file)
    assert ran.status == 0, ran.err
    key = (str(TOPIC), SUBSCRIPTION)
    async with opened_storage("--to", target) as storage:
        state = await storage.snapshots.list(*key)
        await storage.snapshots.replace(*key, remove=(), add=(), epoch=state.epoch + 1, writer="owner")
    ran = await run("restore", file, "--to", "CLUSTER", "--yes")
    assert ran.status == ExitCode.TRACKER_CONFLICT
    assert "was opened in sqlite:" in ran.err
    async with opened_storage("--to", target) as storage:
        assert len((await storage.snapshots.list(*key)).entries) == 1
    back = AdoptedTracker(target, *key, state.epoch + 1)
    assert await take_adoption_back(back)
    assert not await take_adoption_back(back)
    async with opened_storage("--to", target) as storage:
        assert await storage.snapshots.list_bucket_snapshots(*key) == []
        assert (await storage.snapshots.list(*key)).entries == ()
    ran = await run("restore", file, "--to", "CLUSTER", "--yes")
    assert ran.status == 0, ran.err
    assert ran.out.endswith("; 0 adopted trackers removed\n")


async def test_buckets_that_are_left_out_are_status_1(made: MadeCluster, run, tmp_path: Path):
    """They are listed with their reasons; the others are adopted."""
    good, bad = await made.bucket(indexes_of([3])), await made.bucket(indexes_of([5]), entries=[b"\xff"])
    await made.cursor([good, bad])
    ran = await run("adopt", "--from", "CLUSTER", "--to", f"sqlite:{tmp_path / 'tracker.db'}", "--yes")
    assert ran.status == ExitCode.FAILURE
    assert "1 bucket of 1 subscription adopted" in ran.out
    assert f"{bad.value}" in ran.out
    assert "0 subscriptions there already, 1 bucket left out" in ran.out
