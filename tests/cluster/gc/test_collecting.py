"""Tests of looks and deletions, with a real ZooKeeper and a real service."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from delayed_tracker.bookkeeper.metadata.errors import ZooKeeperUnavailable
from delayed_tracker.cli.pulsar import missing_cursors
from delayed_tracker.cli.pulsar.collecting import Collected, Request, Shown, collect
from delayed_tracker.cli.pulsar.missing_cursors import Rules, Scope, Verdict
from delayed_tracker.cli.terminal.failures import BadUsage
from delayed_tracker.client import DelayedTrackerClient, Unavailable
from delayed_tracker.cluster.address import ClusterAddress, connected
from delayed_tracker.cluster.errors import TooManyTrackers
from delayed_tracker.core.values.errors import InvalidInput
from tests.bookkeeper.servers.proxy import running_proxy
from tests.cluster.gc.conftest import FOREIGN, GONE, Trackers
from tests.cluster.made_cluster import NOW_MS, TOPIC, MadeCluster

pytestmark = pytest.mark.slow

GRACE_MS = 3_600_000
AN_HOUR = Rules(GRACE_MS)
EVERYTHING = Scope()


async def no_sleep(_seconds: float) -> None:
    """Return at once."""


@dataclass
class Run:
    """Runs of the collection, and what they have shown."""

    made: MadeCluster
    trackers: Trackers
    report: Callable[[str], None] = lambda _sentence: None
    asked: list[int] = field(default_factory=list)
    steps: list[tuple[str, int, int]] = field(default_factory=list)
    consents: bool = True

    async def __call__(
        self,
        *,
        rules: Rules = AN_HOUR,
        scope: Scope = EVERYTHING,
        now_ms: int = NOW_MS,
        sleep: Callable[[float], Awaitable[None]] = no_sleep,
        address: ClusterAddress | None = None,
        **options: object,
    ) -> Collected:
        request = Request("service", scope, rules, **options)
        async with (
            connected(address or self.made.address) as cluster,
            DelayedTrackerClient.connect(self.trackers.service.address) as client,
        ):
            return await collect(cluster, client, request, self._shown(), now_ms=now_ms, sleep=sleep)

    def _shown(self) -> Shown:
        async def consent(count: int) -> None:
            self.asked.append(count)
            if not self.consents:
                raise BadUsage("no")

        def phase(title: str, _unit: str):
            return lambda done, total: self.steps.append((title, done, total))

        return Shown(phase, lambda _found, _judged: None, consent, self.report)


@pytest.fixture
def run(made: MadeCluster, trackers: Trackers) -> Run:
    return Run(made, trackers)


async def test_trackers_of_missing_cursors_are_deleted(made: MadeCluster, trackers: Trackers, run: Run):
    """After the grace time; those with a cursor stay, a damaged one's too, and those that no cluster can have."""
    await made.cursor([], TOPIC, "a b/c")
    await made.set(made.address.cursor_node(TOPIC, "torn"), b"\x08")
    for topic, subscription in (
        (TOPIC, "a b/c"), (TOPIC, "torn"), (TOPIC, "gone"), (GONE, "workers"), ("queue", "x"), ("non-persistent://t/ns/x", "x"),
    ):  # fmt: skip
        await trackers.open(topic, subscription)
    waited, reported = [], []
    run.report = reported.append

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        assert len(await trackers.names()) == 6

    collected = await run(sleep=sleep)
    assert [(one.topic, one.subscription, one.deleted_count) for one in collected.deleted or ()] == [
        (str(GONE), "workers", 1), (str(TOPIC), "gone", 1)
    ]  # fmt: skip
    assert sum(waited) == pytest.approx(3_600)
    assert await trackers.names() == {
        (str(TOPIC), "a b/c"), (str(TOPIC), "torn"), ("queue", "x"), ("non-persistent://t/ns/x", "x")
    }  # fmt: skip
    assert (collected.found.tracker_count, collected.found.other_count) == (4, 2)
    assert run.asked == [2]
    assert len(reported) == 2
    assert [step for step in run.steps if step[0] != "waiting"] == [
        ("looking for cursors", 4, 4), ("looking again", 4, 4), ("deleting", 1, 2), ("deleting", 2, 2)
    ]  # fmt: skip
    assert len([step for step in run.steps if step[0] == "waiting"]) == 100


async def test_a_cursor_that_appears_between_the_looks_saves_its_tracker(
    made: MadeCluster, trackers: Trackers, run: Run
):
    """The other one is deleted."""
    await made.topic(TOPIC)
    for name in ("back", "gone"):
        await trackers.open(TOPIC, name)

    async def appear(_seconds: float) -> None:
        await made.cursor([], TOPIC, "back")

    collected = await run(sleep=appear)
    assert await trackers.names() == {(str(TOPIC), "back")}
    assert [one.missing.key for one in collected.judged] == [(str(TOPIC), "gone")]


async def test_a_cursor_that_appears_after_the_last_look_saves_its_tracker(
    made: MadeCluster, trackers: Trackers, run: Run, tmp_path: Path
):
    """Each cursor is read again right before the deletion, in the order of the names."""
    await made.topic(TOPIC)
    for name in ("first", "second"):
        await trackers.open(TOPIC, name)

    def reported(_sentence: str) -> None:
        made.set_now(made.address.cursor_node(TOPIC, "second"), b"")

    run.report = reported
    state = tmp_path / "gc.json"
    collected = await run(rules=Rules(0), state=state)
    assert [one.subscription for one in collected.deleted or ()] == ["first"]
    assert [one.key for one in collected.reappeared] == [(str(TOPIC), "second")]
    assert await trackers.names() == {(str(TOPIC), "second")}
    assert "second" not in state.read_text(encoding="utf-8")


async def test_a_tracker_that_is_opened_between_the_looks_is_left(made: MadeCluster, trackers: Trackers, run: Run):
    """Its epoch has changed: somebody uses it, whatever ZooKeeper says."""
    await made.topic(TOPIC)
    await trackers.open(TOPIC)

    async def reopen(_seconds: float) -> None:
        await trackers.open(TOPIC)

    collected = await run(sleep=reopen)
    assert [one.verdict for one in collected.judged] == [Verdict.OPENED]
    assert collected.deleted == []
    assert await trackers.names() == {(str(TOPIC), "workers")}


async def test_two_runs_with_a_state_a_grace_time_apart(
    made: MadeCluster, trackers: Trackers, run: Run, tmp_path: Path
):
    """The second one deletes, without a question before; a cursor that was there in between begins anew."""
    await made.topic(TOPIC)
    for name in ("gone", "flapping"):
        await trackers.open(TOPIC, name)
    state = tmp_path / "gc.json"
    assert (await run(state=state)).deleted is None
    node = made.address.cursor_node(TOPIC, "flapping")
    await made.cursor([], TOPIC, "flapping")
    assert (await run(state=state, now_ms=NOW_MS + GRACE_MS - 1)).deleted is None
    assert run.asked == []
    await made.cluster.client.zookeeper.delete(node)
    collected = await run(state=state, now_ms=NOW_MS + GRACE_MS)
    assert run.asked == [1]
    assert [one.subscription for one in collected.deleted or ()] == ["gone"]
    assert [one.verdict for one in collected.judged] == [Verdict.WAITING, Verdict.GARBAGE]
    assert (await run(state=state, now_ms=NOW_MS + 2 * GRACE_MS)).deleted is not None
    assert await trackers.names() == set()


async def test_a_dry_run_changes_nothing(made: MadeCluster, trackers: Trackers, run: Run, tmp_path: Path):
    """Neither the service nor the file of the state."""
    await made.topic(TOPIC)
    await trackers.open(TOPIC)
    state = tmp_path / "gc.json"
    collected = await run(rules=Rules(0), state=state, dry_run=True)
    assert [one.verdict for one in collected.judged] == [Verdict.GARBAGE]
    assert collected.deleted is None
    assert not state.exists()
    assert run.asked == []
    assert len(await trackers.names()) == 1


async def test_without_consent_nothing_is_deleted(made: MadeCluster, trackers: Trackers, run: Run):
    """The question comes before the wait."""
    await made.topic(TOPIC)
    await trackers.open(TOPIC)
    run.consents = False
    waited = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    with pytest.raises(BadUsage):
        await run(sleep=sleep)
    assert (waited, len(await trackers.names())) == ([], 1)


@pytest.mark.parametrize("node", ["managed-ledgers/elsewhere/ns/persistent", "admin/policies/elsewhere/ns", "admin/local-policies/elsewhere/ns"])  # fmt: skip
async def test_trackers_of_another_cluster_are_left(made: MadeCluster, trackers: Trackers, run: Run, node: str):
    """A namespace is known by its topics or its policies; without any, its trackers stay unless they are included."""
    await trackers.open(FOREIGN)
    await trackers.open("persistent://../ns/orders")
    collected = await run(rules=Rules(0))
    assert {one.verdict for one in collected.judged} == {Verdict.NO_NAMESPACE}
    assert len(await trackers.names()) == 2
    await made.set(f"{made.address.root}/{node}", b"{}")
    await run(rules=Rules(0))
    assert await trackers.names() == {("persistent://../ns/orders", "workers")}
    await run(rules=Rules(0, missing_namespaces=True))
    assert await trackers.names() == set()


async def test_the_scope_is_kept(made: MadeCluster, trackers: Trackers, run: Run):
    """One topic with its partitions, or a prefix."""
    await made.topic(TOPIC)
    names = [str(TOPIC), f"{TOPIC}-partition-0", f"{TOPIC}-old", str(GONE)]
    for name in names:
        await trackers.open(name)
    await run(rules=Rules(0), scope=Scope.parse(str(TOPIC), ""))
    assert {topic for topic, _ in await trackers.names()} == set(names[2:])
    await run(rules=Rules(0), scope=Scope.parse(None, str(GONE)))
    assert {topic for topic, _ in await trackers.names()} == {names[2]}


async def test_many_pages_are_looked_for(made: MadeCluster, trackers: Trackers, run: Run, monkeypatch):
    """A page that is not full ends the list; more missing cursors than the bound delete nothing."""
    monkeypatch.setattr(missing_cursors, "_PAGE", 2)
    await made.topic(TOPIC)
    for number in range(5):
        await trackers.open(TOPIC, f"s{number}")
    await made.cursor([], TOPIC, "s2")
    monkeypatch.setattr(missing_cursors, "MISSING_MAX", 3)
    with pytest.raises(TooManyTrackers, match="more than 3 trackers have no cursor"):
        await run(rules=Rules(0))
    assert len(await trackers.names()) == 5
    monkeypatch.setattr(missing_cursors, "MISSING_MAX", 4)
    collected = await run(rules=Rules(0))
    assert [step for step in run.steps if step[0].startswith("looking")][-3:] == [
        ("looking for cursors", count, count) for count in (2, 4, 5)
    ]
    assert (len(collected.deleted or ()), await trackers.names()) == (4, {(str(TOPIC), "s2")})


async def test_zookeeper_away_at_the_second_look_deletes_nothing(made: MadeCluster, trackers: Trackers, run: Run):
    """A cursor that cannot be read is not one that is missing."""
    await made.topic(TOPIC)
    await trackers.open(TOPIC)
    host, _, port = made.address.zookeeper.partition(":")
    async with running_proxy(int(port)) as between:
        address = ClusterAddress.parse(made.address.text.replace(f"{host}:{port}", between.address))

        async def cut(_seconds: float) -> None:
            between.turn_away()

        with pytest.raises(ZooKeeperUnavailable):
            await run(sleep=cut, address=address)
        between.serve_again()
    assert len(await trackers.names()) == 1


async def test_metadata_that_are_lost_between_the_looks_delete_nothing(made: MadeCluster, trackers: Trackers, run: Run):
    """Then every cursor is missing; the second look refuses as the first one would."""
    await made.topic(TOPIC)
    await trackers.open(TOPIC)
    zookeeper = made.cluster.client.zookeeper

    async def lose(_seconds: float) -> None:
        path = made.address.topic_node(TOPIC)
        while path != made.address.root:
            if await zookeeper.exists(path):
                await zookeeper.delete(path)
            path = path.rpartition("/")[0]

    with pytest.raises(InvalidInput, match="ZooKeeper has no node"):
        await run(sleep=lose, rules=Rules(GRACE_MS, missing_namespaces=True))
    assert len(await trackers.names()) == 1


@pytest.mark.long
async def test_a_service_away_at_the_second_look_is_an_error(made: MadeCluster, trackers: Trackers, run: Run):
    """The run does not end as if there were no trackers left."""
    await made.topic(TOPIC)
    await trackers.open(TOPIC)
    async with running_proxy(int(trackers.service.address.rpartition(":")[2])) as between:
        run.trackers = Trackers(replace(trackers.service, address=between.address))

        async def cut(_seconds: float) -> None:
            between.turn_away()

        with pytest.raises(Unavailable):
            await run(sleep=cut)
    assert len(await trackers.names()) == 1
