"""Freed memory is returned to the system after work, rarely during it, and not without work."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.process.freed_memory import LOOK_MS, LOOKS_MAX, MemoryTrimmer, trim_of_this_process
from tests.repository.project_tree import ROOT


class Process:
    """Process with controlled processor time, which counts how often memory is returned."""

    def __init__(self) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        self.clock = ManualClock()
        self.cpu_s = 0.0
        self.given_back = 0
        self.freed = MemoryTrimmer(clock=self.clock, cpu_s=lambda: self.cpu_s, trim=self.trim)

    def trim(self) -> None:
        self.given_back += 1

    async def looks(self, count: int, *, cpu_s: float) -> int:
        """Run ``count`` checks with this processor time before each, and return how often memory was returned."""
        before = self.given_back
        for _ in range(count):
            self.cpu_s += cpu_s
            self.clock.advance(LOOK_MS)
        await asyncio.get_running_loop().run_in_executor(None, int)  # one thread: earlier work has ended
        return self.given_back - before


async def test_memory_goes_back_once_when_work_has_ended():
    """Memory is not returned during work, and not again before there was more work."""
    process = Process()
    process.freed.start()
    assert await process.looks(5, cpu_s=1.0) == 0
    assert await process.looks(1, cpu_s=0.05) == 1
    assert await process.looks(3, cpu_s=0.05) == 0
    assert await process.looks(1, cpu_s=1.0) == 0
    assert await process.looks(100, cpu_s=0.0) == 1


async def test_a_process_that_never_rests_gives_back_every_five_minutes():
    """Memory that was freed long ago is returned even during continuous work."""
    process = Process()
    process.freed.start()
    assert await process.looks(LOOKS_MAX - 1, cpu_s=1.0) == 0
    assert await process.looks(1, cpu_s=1.0) == 1
    assert await process.looks(LOOKS_MAX, cpu_s=1.0) == 1


async def test_the_checks_go_on_when_a_thread_cannot_be_started():
    """The error is the event loop's to report; the next check returns the memory."""
    process = Process()
    process.freed.start()
    assert await process.looks(1, cpu_s=1.0) == 0
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    asyncio.get_running_loop().set_default_executor(threads)
    with pytest.raises(RuntimeError, match="cannot schedule"):
        process.clock.advance(LOOK_MS)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    assert await process.looks(1, cpu_s=0.0) == 1


async def test_nobody_looks_after_a_stop_or_before_a_start():
    """No check runs before a start or after a stop, and both may be called twice."""
    process = Process()
    process.cpu_s = 10.0
    assert process.clock.next_timer_in_ms() is None
    process.freed.start()
    process.freed.start()
    assert process.clock.next_timer_in_ms() == LOOK_MS
    process.freed.stop()
    process.freed.stop()
    assert process.clock.next_timer_in_ms() is None
    assert await process.looks(2, cpu_s=0.0) == 0


async def test_a_c_library_without_the_call_is_left_alone():
    """With a C library without ``malloc_trim`` no check runs."""
    clock = ManualClock()
    MemoryTrimmer(clock=clock, trim=None).start()
    assert clock.next_timer_in_ms() is None


GLIBC_ONLY = pytest.mark.skipif(trim_of_this_process() is None, reason="this C library has no malloc_trim")


@GLIBC_ONLY
def test_what_lies_between_held_blocks_goes_back():
    """Memory between blocks in use is returned: here one in a thousand small blocks stays in use."""
    program = """
import os
from pathlib import Path
from delayed_tracker.service.process.freed_memory import trim_of_this_process
def resident(): return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
blocks = [bytes(10_000) for _ in range(10_000)]
held = blocks[::1_000]
del blocks
before = resident()
trim_of_this_process()()
print(before - resident())
"""
    assert said_by(program) > 50_000_000


@GLIBC_ONLY
@pytest.mark.parametrize(("environment", "arena_count"), [({}, 2), ({"MALLOC_ARENA_MAX": "1"}, 1)])
def test_all_other_threads_allocate_in_one_arena(environment, arena_count):
    """All other threads share one arena, unless the environment sets the number of arenas."""
    program = """
import ctypes, os, threading
from delayed_tracker.service.process.freed_memory import allocate_in_two_arenas
def arena_count():
    read, write = os.pipe()
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fdopen(write, b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    return open(read).read().count("<heap nr")
allocate_in_two_arenas()
everyone = threading.Barrier(8)
def allocate():
    everyone.wait()
    block = bytes(10_000)
    everyone.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(arena_count())
"""
    assert said_by(program, environment) == arena_count


def said_by(program: str, environment: dict[str, str] | None = None) -> int:
    """Run a program in a process of its own, and return the number that it prints."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | (environment or {})
    command = [sys.executable, "-c", program]
    return int(subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=True).stdout)
