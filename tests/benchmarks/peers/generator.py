"""A compiled client beside the Python one: grpc-java, whose requests are encoded ahead, so that the service's share shows.

It is one source file, which Java compiles when it starts. Its libraries are those of the dispatcher in Java
(``make other-languages``).
"""

import asyncio
import json
import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks.inputs.serving import PATIENCE_S
from tests.benchmarks.measure import WrongOutput
from tests.client.other_languages.dispatchers import JAVA, NoDispatcher

_SOURCE: Final = Path(__file__).with_name("Generator.java")


@dataclass(frozen=True, slots=True)
class Generated:
    """Times of the calls, without those that warmed up."""

    calls: int
    seconds: float
    p50_us: float
    p99_us: float


def generator() -> list[str] | None:
    """Return the command that runs the generator; None if Java or its libraries are missing."""
    if shutil.which("java") is None:
        return None
    try:
        java, option, path, _ = JAVA.dispatcher()
    except NoDispatcher:
        return None
    return [java, option, path, str(_SOURCE)]


async def generated_calls(
    command: Sequence[str],
    address: str,
    method: str,
    requests: Sequence[bytes],
    *,
    warm_ups: int,
    in_flight: int,
    directory: Path,
) -> Generated:
    """Make unary calls with a compiled client, in the order of the requests.

    Args:
        command: of :func:`generator`.
        address: ``host:port`` of the service.
        method: its full name, with the service.
        requests: encoded.
        warm_ups: number of the first requests that are not measured.
        in_flight: calls at a time.
        directory: for the file with the requests.
    Raises:
        WrongOutput: a call failed.
    """
    file = directory / "requests"
    file.write_bytes(b"".join(struct.pack(">I", len(request)) + request for request in requests))
    process = await asyncio.create_subprocess_exec(
        *command, address, method, str(file), str(warm_ups), str(in_flight),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE_S):
            said, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise WrongOutput(f"the compiled client failed: {complaints.decode().strip()}")
    return Generated(**json.loads(said))
