"""Starts the service without waiting for kernels: their compilation takes up to a minute for a new version, and numba's
import and the cached kernels take a third of the time in which the service starts.

A moment after the service answers, a thread loads what the cache has. Until then the event loop runs kernels as they
are written, and other threads load those that they call. What the cache lacks runs as it is written, much slower, while
a child process compiles into the cache; then the service loads it from there and calls run machine code from one moment
to the next. Results are the same in both ways. Where the cache cannot be written, a temporary directory takes its
place; where the child fails, a thread of this process compiles what it left.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import get_ident
from time import monotonic
from typing import Any, Final, TypeVar

import structlog

from delayed_tracker.core.kernels.jit import Kernel, cache_directory, cached_in
from delayed_tracker.service.process.garbage_collection import without_collection
from delayed_tracker.service.process.kernels import SERVICE_KERNELS, is_cache_writable

LOG_EVERY_S: Final = 5.0
LOAD_AFTER_S = 0.25
"""Pause before kernels are loaded, in which the first calls have the interpreter for themselves."""
LOADED: Final = "kernels are loaded"
COMPILED: Final = "kernels are compiled"
"""Log lines after which no more memory is taken for kernels; a service writes one of them."""
_SWITCH_S: Final = 0.000_5
"""Time for which loading keeps the interpreter from the event loop: a tenth of Python's default, because a call needs
the interpreter some twenty times.
"""
_CHILD: Final = ("-m", "delayed_tracker.service.process.kernels")
_STDERR_TAIL_BYTES: Final = 2_000

Answer = TypeVar("Answer")

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class KernelLoader:
    """Loader of the kernels of this process. Started once and stopped once, from the event loop."""

    def __init__(self, kernels: Sequence[Kernel[..., Any]] = SERVICE_KERNELS, *, child: Sequence[str] = _CHILD) -> None:
        """See :meth:`start`.

        Args:
            kernels: kernels to load.
            child: arguments for Python of the process that compiles them into the cache.
        """
        self._kernels = kernels
        self._child = child
        # Of the same priority as the event loop: it holds the interpreter most of the time, and on a busy machine the
        # event loop would wait until such a thread runs.
        self._workers = ThreadPoolExecutor(1, thread_name_prefix="delayed-tracker-kernels")
        self._starting: asyncio.Task[None] | None = None
        self._compiling: asyncio.Task[None] | None = None

    def start_later(self) -> None:
        """Let kernels be called from now on, and :meth:`start` after ``LOAD_AFTER_S``."""

        async def start() -> None:
            await asyncio.sleep(LOAD_AFTER_S)
            with _beside_calls():
                await self.start()

        loop_thread = get_ident()
        for kernel in self._kernels:
            kernel.load_or_interpret(may_wait=lambda: get_ident() != loop_thread)
        self._starting = asyncio.create_task(start())

    @property
    def is_compiling(self) -> bool:
        """True while calls run kernels that are not compiled yet."""
        return self._compiling is not None and not self._compiling.done()

    async def start(self) -> None:
        """Return as soon as kernels can be called: compiled, or as Python until they are compiled."""
        started_at_s = monotonic()
        missing_count = await self._run(self._load_what_is_cached)
        if not missing_count:
            self._workers.shutdown()
            _log.info(LOADED, seconds=round(monotonic() - started_at_s, 1))
            return
        _log.info(
            "compiling kernels in the background: the service answers meanwhile, more slowly; once for each version and user",
            missing=missing_count,
            cache=cache_directory(),
            ahead="delayed-tracker warm",
        )
        self._compiling = asyncio.create_task(self._compile())

    async def wait_compiled(self) -> None:
        """Return when calls run machine code, or after :meth:`stop`."""
        for task in (self._starting, self._compiling):
            if task is not None:
                await asyncio.wait([task])
                if not task.cancelled():
                    task.result()

    async def stop(self) -> None:
        """Cancel a load or a compilation that is in progress. May be called if there is none, or if it failed."""
        for task in (self._starting, self._compiling):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled() and (error := task.exception()) is not None:
                    _log.error("kernels were not compiled", exc_info=error)
        self._workers.shutdown(wait=False, cancel_futures=True)

    async def _run(self, function: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._workers, function)

    def _load_what_is_cached(self) -> int:
        missing = [kernel for kernel in self._kernels if not kernel.load_cached()]
        for kernel in missing:
            kernel.interpret()
        return len(missing)

    async def _compile(self) -> None:
        started_at_s = monotonic()
        with contextlib.ExitStack() as cleanup:
            directory = _writable_directory(cleanup)
            if directory is not None:
                try:
                    await self._run_child(directory)
                except (OSError, ValueError) as error:  # no process can be started, or it says what we do not expect
                    _log.warning("the process that compiles kernels failed", said=str(error))
                await self._run(partial(self._load_from, directory))
        left = [kernel for kernel in self._kernels if not kernel.is_loaded]
        if left:
            _log.warning("compiling kernels in this process: calls are slower until it is done", missing=len(left))
            for kernel in left:
                await self._run(kernel.load)
        self._workers.shutdown(wait=False)
        _log.info(COMPILED, seconds=round(monotonic() - started_at_s, 1))

    async def _run_child(self, directory: str) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._child,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "NUMBA_CACHE_DIR": directory},
        )
        try:
            _, said = await asyncio.gather(self._follow(process), _tail(process))
            status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if status:
            _log.warning("the process that compiles kernels failed", exit_status=status, said=said)

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        said_at_s = monotonic()
        async for line in process.stdout:
            if monotonic() - said_at_s >= LOG_EVERY_S:
                said_at_s = monotonic()
                done, total = map(int, line.split())
                _log.info("compiling kernels", done=done, total=total)

    def _load_from(self, directory: str) -> None:
        with cached_in(directory):
            for kernel in self._kernels:
                kernel.load_cached()


@contextlib.contextmanager
def _beside_calls() -> Iterator[None]:
    """Load in this block without delaying calls, and keep what it leaves out of garbage collections.

    So what the calls of this second make, such as hosts of trackers, is not collected later if it is a cycle by then.
    """
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        with without_collection():
            yield
    finally:
        sys.setswitchinterval(before_s)


def _writable_directory(cleanup: contextlib.ExitStack) -> str | None:
    """Return the cache directory if it is writable, else a temporary directory; None if there is neither."""
    if is_cache_writable():
        return cache_directory()
    _log.warning(
        "compiled kernels cannot be kept, each start compiles them anew",
        cache=cache_directory(),
        remedy="name a directory that can be written, in NUMBA_CACHE_DIR or XDG_CACHE_HOME",
    )
    try:
        return cleanup.enter_context(tempfile.TemporaryDirectory(prefix="delayed-tracker-kernels-"))
    except OSError:
        return None


async def _tail(process: asyncio.subprocess.Process) -> str:
    """Read the standard error of a process to its end, and return the last part of it."""
    assert process.stderr is not None
    said = b""
    while piece := await process.stderr.read(_STDERR_TAIL_BYTES):
        said = (said + piece)[-_STDERR_TAIL_BYTES:]
    return said.decode("utf-8", "replace").strip()
