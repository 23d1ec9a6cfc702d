"""One Spark session for all tests, because starting one takes seconds."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.cli.spark.main import run
from delayed_tracker.spark.jobs.session import build_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    directory = tmp_path_factory.mktemp("spark")
    session = build_session(
        "local[2]",
        name="tests",
        options={
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "512m",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(directory),
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.sql.catalogImplementation": "in-memory",
            # The optimizing compiler would take most of the time of a short test.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    yield session
    session.stop()


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out)


@pytest.fixture
def command(spark, monkeypatch, capsys):
    """Return a function that runs ``spark-rebuild ARGUMENTS`` and returns its status and output."""

    def ran(*arguments):
        monkeypatch.setattr(sys, "argv", ["spark-rebuild", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return ran
