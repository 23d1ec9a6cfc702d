"""Runs the service as a separate process: starts it on free ports, kills it, stops it, restarts it on the same data."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from delayed_tracker.core.values.errors import DelayedTrackerError

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_LOG_TAIL_BYTES = 4_000
_READY_CHECK_S = 0.005


class ServiceDidNotStart(DelayedTrackerError):
    """The service process ended before it was ready, or was not ready in time."""

    reason = "SERVICE_DID_NOT_START"

    def __init__(self, message: str, *, exit_status: int | None) -> None:
        super().__init__(message)
        self.exit_status = exit_status


@dataclass(slots=True)
class ServiceProcess:
    """A running ``delayed-tracker serve``."""

    process: asyncio.subprocess.Process
    grpc_address: str
    http_address: str
    log: Path

    @classmethod
    async def start(
        cls, work_directory: Path, *, storage_url: str, settings: dict[str, str], run_by: Sequence[str] = ()
    ) -> Self:
        """Start the service on free ports of the loopback interface and return when it is ready.

        Args:
            work_directory: directory of its log file.
            storage_url: its snapshot storage.
            settings: further configuration keys.
            run_by: command that becomes the service's process, such as a tracer; its own arguments only.
        Raises:
            ServiceDidNotStart: with the end of the service's log.
        """
        overrides = {
            "grpcListenAddress": "127.0.0.1:0",
            "httpListenAddress": "127.0.0.1:0",
            "bucketSnapshotStorageUrl": storage_url,
            **settings,
        }
        log = work_directory / "service.log"
        ready_file = work_directory / "service.ready"
        ready_file.unlink(missing_ok=True)
        arguments = [option for key, value in overrides.items() for option in ("--set", f"{key}={value}")]
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *run_by, sys.executable, "-m", "delayed_tracker.cli", "serve", "--ready-file", str(ready_file), *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=stderr,
                # The operator's own settings are only for the operator's service.
                env={name: value for name, value in os.environ.items() if not name.startswith("TRACKER_")},
            )  # fmt: skip
        is_ready = False
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not ready_file.exists():
                    if process.returncode is not None:
                        raise ServiceDidNotStart(
                            f"the service ended with status {process.returncode} before it was ready; its log ends:\n"
                            f"{_tail(log)}",
                            exit_status=process.returncode,
                        )
                    await asyncio.sleep(_READY_CHECK_S)
            is_ready = True
        except TimeoutError as error:
            raise ServiceDidNotStart(
                f"the service was not ready within {START_TIMEOUT_S:g} s; its log ends:\n{_tail(log)}", exit_status=None
            ) from error
        finally:
            if not is_ready and process.returncode is None:
                process.kill()
                await process.wait()
        ready = json.loads(ready_file.read_text("utf-8"))
        return cls(process, ready["grpc"], ready["http"], log)

    async def kill(self) -> None:
        """Kill it with -9 and wait until it has ended."""
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """Request it to stop (SIGTERM), wait until it has drained, and return its exit status."""
        self.process.terminate()
        async with asyncio.timeout(STOP_TIMEOUT_S):
            return await self.process.wait()

    async def ensure_stopped(self) -> None:
        """Kill it if it still runs; for clean-up after a failure."""
        if self.process.returncode is None:
            await self.kill()


def _tail(log: Path) -> str:
    return log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").rstrip()
