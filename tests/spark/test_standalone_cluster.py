"""Rebuilds on a real cluster while its processes die: the result is the same, and no partial tracker is visible."""

import asyncio
import json
import os
import signal

import pytest
import pytest_asyncio

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE
from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.spark.main import SCRIPT
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.spark.commit.commit import StorageCommit
from delayed_tracker.spark.jobs.rebuild import rebuild
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.registry import open_storage
from tests.spark.harness.standalone_cluster import HOME, first_to_say, standalone_cluster

SOURCE = f"bookkeeper+file:{BUNDLED_SAMPLE / 'bookie'}?metadata={BUNDLED_SAMPLE / 'metadata.jsonl'}"
TOPIC, SUBSCRIPTION = "persistent://lab/main/delayed", "sub-1"
NOW_MS = 1_795_240_800_000
READING = (
    "--source", SOURCE, "--topic", TOPIC, "--now", str(NOW_MS),
    "--set", "delayedDeliveryMinIndexCountPerBucket=50", "--indexes-per-task", "60",
)  # fmt: skip
BOTH_WORKERS = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}
"""Spark runs nothing before each worker has an executor."""
SPECULATION = {
    **BOTH_WORKERS,
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    # A stage's only task is also run twice if it takes longer than this.
    "spark.speculation.task.duration.threshold": "100ms",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory):
    async with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed(spark, tmp_path_factory):
    """Return the result of an undisturbed job on this machine."""
    directory = tmp_path_factory.mktemp("undisturbed")
    settings = RebuildSettings(
        {"url": SOURCE, "topic": TOPIC},
        now_ms=NOW_MS,
        staging=str(directory / "staging"),
        limits=TrackerLimits(min_index_count_per_bucket=50),
        indexes_per_task=60,
    )
    url = f"sqlite:{directory / 'tracker.db'}"
    summary = await asyncio.to_thread(rebuild, spark, settings, target=StorageCommit(url))
    assert summary.document()["written"] == 306
    found = await visible(url)
    assert len(found) == 4
    return found


def arguments(directory, storage_url):
    return ("rebuild", *READING, "--staging", str(directory / "staging"), "--commit", storage_url)


async def visible(storage_url):
    """Return every catalogued snapshot, byte for byte, by its range."""
    store = open_storage(storage_url)
    await store.start()
    try:
        found = {}
        for entry in (await store.list(TOPIC, SUBSCRIPTION)).entries:
            metadata = await store.get_bucket_snapshot_metadata(entry.bucket_id)
            segments = await store.get_bucket_snapshot_segments(
                entry.bucket_id, 1, len(decode_metadata(metadata).bounds)
            )
            found[entry.first, entry.last] = metadata, segments, entry.summary
        return found
    finally:
        await store.close()


@pytest.mark.deep
async def test_drivers_that_die_and_jobs_that_race(cluster, undisturbed, tmp_path):
    """After kills before, during and after the commit, one of two racing jobs completes it and the other fails."""
    target = f"sqlite:{tmp_path / 'tracker.db'}"
    events = tmp_path / "events"
    events.mkdir()
    speculation = {**SPECULATION, "spark.eventLog.dir": events.as_uri()}
    for point, options, expected in (
        ("create.commit:2", speculation, {}),
        # The first replacement claims the epoch, the second one names the snapshots.
        ("replace.after", {}, {}),
        ("replace.commit:2", {}, {}),
        ("replace.after:2", {}, undisturbed),
    ):
        driver = await cluster.driver(*arguments(tmp_path, f"faulty:exit={point};{target}"), options=options)
        assert await driver.ended() == -signal.SIGKILL, driver.err
        assert await visible(target) == expected, point
        # The first driver staged what the later ones use, some of it twice.
        assert any('"Speculative":true' in log.read_text() for log in events.iterdir())

    both = [await cluster.driver(*arguments(tmp_path, target)) for _ in range(2)]
    winner = await first_to_say(r"(?m)^read \.\.\.", both)
    loser = both[both.index(winner) - 1]
    # Stopped, the winner holds the storage until the other one has found that out.
    winner.process.send_signal(signal.SIGSTOP)
    await asyncio.to_thread(os.waitid, os.P_PID, winner.process.pid, os.WSTOPPED)
    assert await loser.ended() == ExitCode.STORAGE_UNUSABLE, loser.err
    (*_, said) = loser.err.splitlines()
    assert said.startswith("spark-rebuild: ")
    assert "open already; stop it, or give this one another path" in said
    winner.process.send_signal(signal.SIGCONT)
    assert await winner.ended() == 0, winner.err
    assert ", as it was" in winner.out
    assert await visible(target) == undisturbed


async def test_a_worker_that_dies_in_the_middle(cluster, undisturbed, tmp_path):
    """The tasks and the read data of a killed worker are redone by the other one."""
    target = f"sqlite:{tmp_path / 'tracker.db'}"
    log = tmp_path / "spark.log"
    # The commit is slow, so that the loss is noticed while the job runs.
    slow = f"faulty:latency_ms=2000;{target}"
    driver = await cluster.driver(*arguments(tmp_path, slow), "--spark-log", str(log), options=BOTH_WORKERS)
    await driver.said(r"(?m)^stage \.\.\.")
    await cluster.workers[0].kill()
    assert await driver.ended() == 0, driver.err
    assert "Lost executor" in log.read_text()
    assert await visible(target) == undisturbed


async def test_spark_submit_runs_the_same_commands(cluster):
    """spark-submit uses its own Java process, its own master, and the file that the command names."""
    submitted = await cluster.start(
        "submit", str(HOME / "bin" / "spark-submit"), "--master", "local[1]", "--conf", "spark.ui.enabled=false",
        "--conf", "spark.sql.shuffle.partitions=1", "--conf", "spark.driver.host=127.0.0.1",
        str(SCRIPT), "inspect", "--source", SOURCE, "--topic", TOPIC, "--json",
    )  # fmt: skip
    assert await submitted.ended() == 0, submitted.err
    # spark-submit prints the standard error of a program to its own standard output.
    document = json.loads(submitted.out[submitted.out.index("{\n") :])
    assert [topic["delayed"] for topic in document["topics"]] == [586]
