"""A real standalone Spark cluster: a master and workers as processes of pyspark's own distribution."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyspark

from delayed_tracker.spark.runtime.java import find_java

HOME: Final = Path(pyspark.__file__).parent
CONDITION_TIMEOUT_S: Final = 280
JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""No process lives long enough to need the optimizing compiler."""
_LOOK_EVERY_S: Final = 0.05
_MASTER_READY: Final = r"Starting Spark master at (spark://\S+)"
_WORKER_READY: Final = r"Successfully registered with master"
_KINDS: Final = "org.apache.spark.deploy"


@dataclass(frozen=True)
class Member:
    """A process of the cluster or a driver, with the processes that it has started."""

    process: asyncio.subprocess.Process
    out_path: Path
    err_path: Path

    @property
    def out(self) -> str:
        return self.out_path.read_text()

    @property
    def err(self) -> str:
        return self.err_path.read_text()

    async def said(self, pattern: str) -> re.Match[str]:
        """Wait until the process prints a match on its standard error."""
        async with asyncio.timeout(CONDITION_TIMEOUT_S):
            while (found := re.search(pattern, self.err)) is None:
                assert self.process.returncode is None, self.err
                await asyncio.sleep(_LOOK_EVERY_S)
        return found

    async def ended(self) -> int:
        """Wait until the process ends, and return its status."""
        async with asyncio.timeout(CONDITION_TIMEOUT_S):
            return await self.process.wait()

    async def kill(self) -> None:
        """Kill the process and those that it has started, with SIGKILL."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()


@dataclass
class StandaloneCluster:
    """One master, two workers with one core each, and drivers. All end with the block or with this process."""

    directory: Path
    stack: AsyncExitStack
    java_home: Path = field(default_factory=find_java)
    url: str = ""
    workers: list[Member] = field(default_factory=list)
    _started_count: int = 0

    async def driver(self, *arguments: str, options: Mapping[str, str] | None = None) -> Member:
        """Start ``spark-rebuild ARGUMENTS`` on this cluster."""
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": JAVA_OPTIONS,
            "spark.sql.shuffle.partitions": "4",
            "spark.local.dir": str(self.directory),
            **(options or {}),
        }
        given = [argument for item in settings.items() for argument in ("--spark-option", "=".join(item))]
        return await self.start(
            "driver", sys.executable, "-m", "delayed_tracker.cli.spark", *arguments, "--master", self.url, *given
        )

    async def start(self, name: str, *command: str) -> Member:
        """Start a program in its own process group; the kernel kills it when this process ends for any reason."""
        self._started_count += 1
        paths = [self.directory / f"{self._started_count}-{name}.{stream}" for stream in ("out", "err")]
        with paths[0].open("wb") as out, paths[1].open("wb") as err:
            process = await asyncio.create_subprocess_exec(
                "setpriv", "--pdeathsig", "KILL", "--", *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._environment(),
                start_new_session=True,
            )  # fmt: skip
        member = Member(process, *paths)
        self.stack.push_async_callback(member.kill)
        return member

    async def start_all(self) -> None:
        """Start the master and the workers, and wait until they are connected."""
        master = await self._start_java("master", f"{_KINDS}.master.Master", "127.0.0.1")
        self.url = (await master.said(_MASTER_READY))[1]
        for number in (1, 2):
            place = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / f"work{number}"), self.url)
            # Speculation runs no second attempt on the host of the first one.
            self.workers.append(
                await self._start_java(f"worker{number}", f"{_KINDS}.worker.Worker", f"127.0.0.{number}", *place)
            )
        for worker in self.workers:
            await worker.said(_WORKER_READY)

    async def _start_java(self, name: str, kind: str, host: str, *arguments: str) -> Member:
        opens = (f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.nio", "sun.nio.ch"))
        return await self.start(
            name, str(self.java_home / "bin" / "java"), "-cp", f"{HOME}/jars/*", "-Xmx256m", *JAVA_OPTIONS.split(),
            *opens, kind, "--host", host, "--port", "0", "--webui-port", "0", *arguments,
        )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "JAVA_HOME": str(self.java_home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(HOME),
            # Spark's own scripts derive it from the names of the jars; they do not start the workers here.
            "SPARK_SCALA_VERSION": "2.13",
        }


async def first_to_say(pattern: str, members: Sequence[Member]) -> Member:
    """Wait until one of them prints a match on its standard error, and return it."""
    async with asyncio.timeout(CONDITION_TIMEOUT_S):
        while True:
            for member in members:
                if re.search(pattern, member.err):
                    return member
            await asyncio.sleep(_LOOK_EVERY_S)


@asynccontextmanager
async def standalone_cluster(directory: Path) -> AsyncIterator[StandaloneCluster]:
    """Start a cluster, and end all of its processes after the block."""
    async with AsyncExitStack() as stack:
        cluster = StandaloneCluster(directory, stack)
        await cluster.start_all()
        yield cluster
