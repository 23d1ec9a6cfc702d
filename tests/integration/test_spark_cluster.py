"""Rebuilding on a real cluster while its processes die: the same result, and nothing half visible."""

import asyncio
import json
import os
import signal
import sys

import pytest

from snapshot_storage.registry import open_storage
from spark_rebuild.java import find_java
from tests.integration.spark_cluster import HOME, spark_cluster
from tracker.cli.demo.sample import BUNDLED_SAMPLE
from tracker.cli.spark.main import SCRIPT
from tracker.service.exit_codes import ExitCode

SOURCE = f"bookkeeper+file:{BUNDLED_SAMPLE / 'bookie'}?metadata={BUNDLED_SAMPLE / 'metadata.jsonl'}"
TOPIC, SUBSCRIPTION = "persistent://lab/main/delayed", "sub-1"
READING = (
    "--source", SOURCE, "--topic", TOPIC, "--now", "2026-11-21T06:00:00Z",
    "--set", "delayedDeliveryMinIndexCountPerBucket=50", "--indexes-per-task", "60",
)  # fmt: skip
POINTS = ("create.commit:2", "replace.commit", "replace.after")
"""Before the commit, during it, and after it."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def rebuild(directory, storage_url):
    return ("rebuild", *READING, "--staging", str(directory / "staging"), "--commit", storage_url, "--json")


async def visible(storage_url):
    """Every catalogued snapshot, byte for byte, by its range."""
    store = open_storage(storage_url)
    await store.start()
    try:
        found = {}
        for entry in (await store.list(TOPIC, SUBSCRIPTION)).entries:
            metadata = await store.get_bucket_snapshot_metadata(entry.bucket_id)
            length = await store.get_bucket_snapshot_length(entry.bucket_id)
            found[entry.first, entry.last] = metadata, length, entry.summary
        return found
    finally:
        await store.close()


async def ended(driver):
    out, err = await driver.communicate()
    return driver.returncode, out, err.decode()


async def test_a_cluster_whose_processes_die_gives_the_same(tmp_path):
    """A worker killed in the middle, the driver killed before, during and after its commit, two jobs at once."""
    async with spark_cluster(tmp_path) as cluster:
        other = f"sqlite:{tmp_path / 'worker.db'}"
        driver = await cluster.driver(*rebuild(tmp_path, other))
        assert driver.stderr is not None
        async for line in driver.stderr:
            if line.startswith(b"read ..."):
                break
        await cluster.workers[0].kill()
        status, out, err = await ended(driver)
        assert status == 0, err
        expected, document = await visible(other), json.loads(out)
        assert document["written"] == 306
        assert len(expected) == document["trackers"][0]["buckets"] == 4

        target = f"sqlite:{tmp_path / 'driver.db'}"
        for point in POINTS:
            driver = await cluster.driver(*rebuild(tmp_path, f"faulty:exit={point};{target}"))
            status, _, err = await ended(driver)
            assert status == -signal.SIGKILL, err
            assert await visible(target) == (expected if point == POINTS[-1] else {})
        first, second = await asyncio.gather(
            cluster.driver(*rebuild(tmp_path, target)), cluster.driver(*rebuild(tmp_path, target))
        )
        (one, out_one, err_one), (two, out_two, err_two) = await asyncio.gather(ended(first), ended(second))
        assert sorted((one, two)) == [0, ExitCode.STORAGE_UNUSABLE], (err_one, err_two)
        assert "STORAGE_IN_USE" in (err_two if one == 0 else err_one)
        again = json.loads(out_one if one == 0 else out_two)
        assert again["trackers"][0]["unchanged"]
        assert await visible(target) == expected


async def test_spark_submit_runs_the_same_commands():
    """With its own Java machine, its own master, and the file that the command names."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    submitted = await asyncio.create_subprocess_exec(
        str(HOME / "bin" / "spark-submit"), "--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=1",
        str(SCRIPT), "inspect", "--source", SOURCE, "--topic", TOPIC, "--json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )  # fmt: skip
    status, out, err = await ended(submitted)
    assert status == 0, err
    assert [topic["delayed"] for topic in json.loads(out)["topics"]] == [586]
