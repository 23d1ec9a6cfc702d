"""Runs our commands as processes of their own, as an operator beside a cluster does."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from delayed_tracker.spark.runtime.java import find_java

COMMAND_TIMEOUT_S: Final = 500
_SPARK: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
}
"""Options of a small Spark that lives for one command."""


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Return what it printed for ``--json``."""
        return json.loads(self.out)


def run_tracker(*arguments: str) -> Ran:
    """Run ``delayed-tracker ARGUMENTS``."""
    return _run("delayed_tracker.cli", arguments, {})


def run_spark_rebuild(directory: Path, command: str, *arguments: str, nice: bool = False) -> Ran:
    """Run ``spark-rebuild COMMAND ARGUMENTS`` with a small Spark; its temporary files are in the directory.

    With ``nice``, it takes only processor time that the servers leave, as Spark on other machines does.
    """
    options = [part for option in _SPARK.items() for part in ("--spark-option", "=".join(option))]
    options += ["--spark-option", f"spark.local.dir={directory}", "--master", "local[2]"]
    environment = {"JAVA_HOME": str(find_java())}
    return _run("delayed_tracker.cli.spark", (command, *options, *arguments), environment, nice=nice)


def _started(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], *, nice: bool
) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*(("chrt", "--idle", "0") if nice else ()), sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env={**os.environ, **environment},
    )


def _run(module: str, arguments: Sequence[str], environment: Mapping[str, str], *, nice: bool = False) -> Ran:
    with _started(module, arguments, environment, nice=nice) as process:
        try:
            out, err = process.communicate(timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Ran(process.returncode, out, err)
