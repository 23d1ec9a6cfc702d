"""strace on this machine: it records what the service writes, and makes its fsyncs fail or hang."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bookkeeper.servers.fixtures import without

# Calls that change a file or a directory, or make that durable.
_RECORDED = (
    "openat,open,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,copy_file_range,"
    "rename,renameat,renameat2,unlink,unlinkat,link,linkat,fsync,fdatasync,sync_file_range"
)


def debian_tools() -> Path:
    """Return where ``.ci/debian-tools`` leaves what it fetches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "delayed-tracker" / "debian"


def find_strace() -> str:
    """Return its path. Without it the test is skipped, except in CI, which has installed it."""
    found = shutil.which("strace") or shutil.which("strace", path=str(debian_tools()))
    if found is None:
        without("there is no strace: run .ci/debian-tools, or put it on the PATH")
    return found


def recorder(recording: Path) -> list[str]:
    """Return the command under which a process is recorded; the process keeps the id of the command."""
    return [
        find_strace(), "-D", "-f", "--seccomp-bpf", "-q", "-ttt", "-T", "-y", "-xx", "-s", str(2**21),
        "-e", f"trace={_RECORDED}", "-e", "signal=SIGKILL", "-o", str(recording), "--",
    ]  # fmt: skip


async def until_recorded(recording: Path, pid: int) -> None:
    """Return when the recording of a killed process is complete."""
    last = f"{pid} "
    with recording.open(encoding="ascii") as file:
        while not (line := file.readline()).startswith(last) or not line.endswith("+++ killed by SIGKILL +++\n"):
            if not line:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def injected(pid: int, path: Path, fault: str) -> AsyncIterator[None]:
    """Let the next fsync of a file fail or hang.

    Args:
        pid: of the running service.
        path: of the file; other files are not touched.
        fault: as strace's ``inject`` has it: ``error=EIO``, or ``delay_enter=`` and microseconds.
    """
    tracer = await asyncio.create_subprocess_exec(
        find_strace(), "-f", "-p", str(pid), "-P", str(path), "-e", "trace=fsync,fdatasync",
        "-e", f"inject=fsync,fdatasync:{fault}:when=1",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert tracer.stderr is not None
    try:
        async for line in tracer.stderr:
            if b"attached" in line:
                break
        yield
    finally:
        if tracer.returncode is None:
            tracer.terminate()
        said = await tracer.stderr.read()
        await tracer.wait()
    assert b"(INJECTED)" in said or b"(DELAYED)" in said, said
