"""Runs a server in a process of its own, which tests kill, freeze and start again; and the options of those in Java."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.jvm.pulsar_classes import SERVERS_POM, class_path, find_java

STOP_TIMEOUT_S: Final = 120.0
# The servers live for minutes at most, so better compilation would cost more than it saves. The packages are those that
# BookKeeper's own start script opens, for its buffers outside the heap.
JVM_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dzookeeper.admin.enableServer=false",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.nio", "java.util.zip", "jdk.internal.misc", "sun.nio.ch")
    ),
)


def java_command(options: Sequence[str], program: Sequence[str]) -> list[str]:
    """Return the command of a Java with BookKeeper's and ZooKeeper's classes.

    Raises:
        NoPulsarClasses: there is no Java, or the classes cannot be fetched.
    """
    return [find_java(), *JVM_OPTIONS, *options, "-cp", class_path(SERVERS_POM), *program]


def free_port() -> int:
    """Return a TCP port that nothing listened on a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class ServerProcess:
    """One server; it keeps its command, so that it can be started again after it was killed."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the process, which appends to its log; the caller waits until it serves.

        Args:
            environment: variables of this start alone.
        """
        assert not self.running, self._command
        variables = {**os.environ, **(environment or {})}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=variables)

    @property
    def running(self) -> bool:
        """True until the process ends."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End the process with SIGKILL, as a power failure would, and wait until it is gone."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """End the process with SIGTERM, if it runs, and wait until it is gone."""
        if self.running:
            self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop the process without closing its connections; nothing answers until :meth:`thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # On a busy machine the other threads answer until the one that took the signal has run.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def last_lines(self) -> str:
        """Return the end of the log, for the message of a failure."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:]) if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except BaseException:
            # A frozen or hanging server must not outlive the tests, even if the test's own time is over before.
            self._process.kill()
            self._process.wait()
            raise
