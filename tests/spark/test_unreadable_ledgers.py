"""Commands that skip unreadable ledgers report the lacking entries and the start of the replay."""

from pathlib import Path

import pytest

from tests.spark.harness.clusters import Cursor, Entry, Topic, write_cluster

TOPIC, SUBSCRIPTION = "persistent://lab/main/far", "billing"
LEDGERS = {ledger: [Entry(10**12 + 1_000 * entry) for entry in range(60)] for ledger in (1, 2, 3)}
SMALL = "delayedDeliveryMinIndexCountPerBucket=50"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Cluster:
    """One subscription with a storage, and a source that can lack ledgers."""

    def __init__(self, directory: Path, command) -> None:
        self._command = command
        self._whole = self._source(directory / "whole", LEDGERS)
        self._directory = directory
        self.target = f"sqlite:{directory / 'tracker.db'}"
        assert self.rebuild(self._whole).status == 0

    @staticmethod
    def _source(directory: Path, ledgers) -> str:
        return write_cluster(directory, [Topic(TOPIC, ledgers, {SUBSCRIPTION: Cursor((1, 3))})])

    def without(self, *lost: int) -> str:
        """Return a source with whole metadata whose disk lacks some ledgers."""
        part = self._source(
            self._directory / "part", {ledger: LEDGERS[ledger] for ledger in LEDGERS if ledger not in lost}
        )
        return f"{part.partition('?')[0]}?{self._whole.partition('?')[2]}"

    def rebuild(self, source: str, *arguments: str):
        staging = ("--staging", str(self._directory / "staging"), "--commit", self.target)
        return self._command("rebuild", "--source", source, "--set", SMALL, *staging, *arguments)

    def verify(self, source: str, *arguments: str):
        return self._command("verify", "--source", source, "--set", SMALL, "--against", self.target, *arguments)


@pytest.fixture
def cluster(command, tmp_path) -> Cluster:
    return Cluster(tmp_path, command)


@pytest.mark.parametrize(
    ("lost", "unread", "replay_from"),
    [((1, 2, 3), 176, "1:4"), ((2,), 60, "2:0"), ((1,), 56, "1:4"), ((3,), 60, "2:0")],
    ids=["all", "middle", "first", "last"],
)
def test_replay_begins_no_later_than_what_could_not_be_read(cluster, lost, unread, replay_from):
    """The replay begins at the first unreadable or unstored entry that is not acknowledged."""
    ran = cluster.rebuild(cluster.without(*lost), "--on-error", "skip", "--json")
    assert ran.status == 0, ran.err
    (tracker,) = ran.document["trackers"]
    assert (tracker["unread"], tracker["replay_from"]) == (unread, replay_from)


def test_a_rebuild_that_removes_an_index_prints_a_warning(cluster):
    """The number of unreadable entries and the start of the replay are printed apart from the result."""
    ran = cluster.rebuild(cluster.without(1, 2, 3), "--on-error", "skip")
    assert ran.status == 0, ran.err
    assert (
        f"{SUBSCRIPTION} of {TOPIC}: 2 buckets were deleted, none written; 176 entries could not be read: replay from 1:4"
        in ran.err
    )
    assert "180 entries cannot be read" in ran.out


@pytest.mark.long
@pytest.mark.parametrize("again", [False, True], ids=["as it was", "rebuilt from the same"])
def test_verify_fails_if_entries_are_unreadable(cluster, again):
    """The comparison covers only readable entries, lists the others, and fails."""
    part = cluster.without(2)
    if again:
        assert cluster.rebuild(part, "--on-error", "skip").status == 0
    ran = cluster.verify(part, "--on-error", "skip")
    assert ran.status == 1
    assert "bad: entries 2:0 to 59: " in ran.out
    assert "matches all readable entries, but 60 entries are unreadable" in ran.out
    assert "the index matches the ledgers" not in ran.out
    document = cluster.verify(part, "--on-error", "skip", "--json").document
    assert (document["equal"], len(document["bad_entries"]), document["trackers"][0]["extra"]) == (False, 1, 0)
    assert document["bad_count"] == 60
