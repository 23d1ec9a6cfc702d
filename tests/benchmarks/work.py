"""Work in counts that are the same on every machine: calls, allocations, storage operations."""

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import TypeVar

from delayed_tracker.core.kernels.jit import Kernel
from delayed_tracker.storage.memory import MemoryStorage

State = TypeVar("State")

_KERNEL_CODE = Kernel.__call__.__code__


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one thread."""

    python_calls: int
    """Calls of functions written in Python."""
    native_calls: int
    """Calls of functions written in C that the interpreter reports: numpy's, pyroaring's, built-in ones."""
    kernel_calls: int
    lines: int
    """Executed lines of Python: shows a loop without calls."""
    peak_objects: int
    """Peak number of blocks of Python's allocator above those before: shows a list of integers."""
    kept_bytes: int
    """Bytes in use afterwards and not before, arrays included."""
    peak_bytes: int
    """Peak bytes in use above those before, arrays included."""


def work_of(prepare: Callable[[], State], run: Callable[[State], object]) -> Work:
    """Run on fresh state once to fill caches, then once for each way of counting; keep the results of ``run``."""
    run(prepare())
    calls, lines = _CallCounter(), _LineCounter()
    for counter in (calls, lines):
        state = prepare()
        gc.collect()
        counter.watch(lambda state=state: run(state))
    state = prepare()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        kept = run(state)
        after, peak = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return Work(
        python_calls=calls.python_calls,
        native_calls=calls.native_calls,
        kernel_calls=calls.kernel_calls,
        lines=lines.lines,
        peak_objects=calls.peak_objects,
        kept_bytes=after - before,
        peak_bytes=peak - before,
    )


class _CallCounter:
    """Counter of calls; it reads the number of objects after each call of a function written in C, which made them."""

    def __init__(self) -> None:
        self.python_calls = 0
        self.native_calls = 0
        self.kernel_calls = 0
        self.peak_objects = 0
        self._objects = 0

    def watch(self, run: Callable[[], object]) -> None:
        earlier = sys.getprofile()
        self._objects = sys.getallocatedblocks()
        sys.setprofile(self._note)
        try:
            run()
        finally:
            sys.setprofile(earlier)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "c_return":
            self.native_calls += 1
            self.peak_objects = max(self.peak_objects, sys.getallocatedblocks() - self._objects)
        elif event == "call":
            self.python_calls += 1
            self.kernel_calls += frame.f_code is _KERNEL_CODE


class _LineCounter:
    """Counter of executed lines of Python."""

    def __init__(self) -> None:
        self.lines = 0

    def watch(self, run: Callable[[], object]) -> None:
        earlier = sys.gettrace()
        sys.settrace(self._note)
        try:
            run()
        finally:
            sys.settrace(earlier)

    def _note(self, _frame: FrameType, event: str, _argument: object) -> "Callable[..., object]":
        self.lines += event == "line"
        return self._note


@dataclass(frozen=True, slots=True)
class StorageWork:
    """Operations on a storage."""

    calls: int
    """Calls of any kind."""
    segment_reads: int
    catalogue_writes: int
    written_bytes: int
    """Bytes of metadata and segments."""
    read_bytes: int
    """Bytes of segments."""
    catalogue_bytes: int


@dataclass(slots=True)
class CountingStorage:
    """Reference storage that counts its operations."""

    inner: MemoryStorage = field(default_factory=MemoryStorage)
    calls: Counter[str] = field(default_factory=Counter)
    written_bytes: int = 0
    read_bytes: int = 0
    catalogue_bytes: int = 0

    @property
    def work(self) -> "StorageWork":
        """The counts so far."""
        return StorageWork(
            calls=self.calls.total(),
            segment_reads=self.calls["get_bucket_snapshot_segments"],
            catalogue_writes=self.calls["replace"],
            written_bytes=self.written_bytes,
            read_bytes=self.read_bytes,
            catalogue_bytes=self.catalogue_bytes,
        )

    async def create_bucket_snapshot(self, metadata: bytes, segments: AsyncIterable[bytes], **names) -> int:
        """See the protocol."""
        self.calls["create_bucket_snapshot"] += 1
        self.written_bytes += len(metadata)

        async def counted() -> AsyncIterator[bytes]:
            async for segment in segments:
                self.written_bytes += len(segment)
                yield segment

        return await self.inner.create_bucket_snapshot(metadata, counted(), **names)

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """See the protocol."""
        self.calls["get_bucket_snapshot_segments"] += 1
        segments = await self.inner.get_bucket_snapshot_segments(bucket_id, first, last)
        self.read_bytes += sum(map(len, segments))
        return segments

    async def replace(self, *key, add, **names) -> None:
        """See the protocol."""
        self.calls["replace"] += 1
        self.catalogue_bytes += sum(len(entry.summary) + len(entry.consumed) for entry in add)
        await self.inner.replace(*key, add=add, **names)

    def __getattr__(self, name: str) -> object:
        self.calls[name] += 1
        return getattr(self.inner, name)
