"""A real standalone Spark cluster: a master and workers as processes of pyspark's own distribution."""

import asyncio
import os
import re
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from spark_rebuild.java import find_java

HOME = Path(pyspark.__file__).parent
START_TIMEOUT_S = 120
_MASTER_READY = re.compile(rb"Starting Spark master at (spark://\S+)")
_WORKER_READY = re.compile(rb"Successfully registered with master")


@dataclass
class Member:
    """A master or a worker."""

    process: asyncio.subprocess.Process
    log: Path

    async def said(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """What it says once it is ready."""
        async with asyncio.timeout(START_TIMEOUT_S):
            while (found := pattern.search(self.log.read_bytes())) is None:
                assert self.process.returncode is None, self.log.read_text()
                await asyncio.sleep(0.05)
        return found

    async def kill(self) -> None:
        """Kill it with -9, and what it has started."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()


@dataclass
class SparkCluster:
    """One master, two workers with a core each."""

    directory: Path
    url: str = ""
    workers: list[Member] = field(default_factory=list)

    async def driver(self, *arguments: str) -> asyncio.subprocess.Process:
        """``spark-rebuild ARGUMENTS`` on this cluster."""
        options = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "4",
            "spark.local.dir": str(self.directory),
            "spark.speculation": "true",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.25",
            "spark.cores.max": "2",
        }
        settings = [option for key, value in options.items() for option in ("--spark-option", f"{key}={value}")]
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tracker.cli.spark", *arguments, "--master", self.url, *settings,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip


@asynccontextmanager
async def spark_cluster(directory: Path):
    """Start a cluster, and end every process of it."""
    cluster = SparkCluster(directory)
    async with AsyncExitStack() as stack:
        master = await _start(stack, directory, "master", "org.apache.spark.deploy.master.Master", "--port", "0")
        cluster.url = (await master.said(_MASTER_READY))[1].decode()
        for number in range(2):
            place = ("--port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"work{number}"))
            name = "org.apache.spark.deploy.worker.Worker"
            cluster.workers.append(await _start(stack, directory, f"worker{number}", name, *place, cluster.url))
        for worker in cluster.workers:
            await worker.said(_WORKER_READY)
        yield cluster


async def _start(stack: AsyncExitStack, directory: Path, name: str, kind: str, *arguments: str) -> Member:
    log = directory / f"{name}.log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            str(find_java() / "bin" / "java"), "-cp", f"{HOME}/jars/*", "-Xmx256m",
            "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
            kind, "--host", "127.0.0.1", "--webui-port", "0", *arguments,
            stdout=stderr,
            stderr=stderr,
            env={
                **os.environ,
                "SPARK_HOME": str(HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                # Spark's scripts, which are not used here, find it out from the names of the jars.
                "SPARK_SCALA_VERSION": "2.13",
            },
            # Executors are the workers' children: they must not outlive them.
            start_new_session=True,
        )  # fmt: skip
    member = Member(process, log)
    stack.push_async_callback(member.kill)
    return member
