"""Freed memory goes back to the system after work, rarely during it, and never for nothing."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.project_tree import ROOT
from tracker.service.clock import ManualClock
from tracker.service.freed_memory import LOOK_MS, LOOKS_MAX, FreedMemory, trim_of_this_process


class Process:
    """Processor time as the test says, and how often memory was given back."""

    def __init__(self) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        self.clock = ManualClock()
        self.cpu_s = 0.0
        self.given_back = 0
        self.freed = FreedMemory(clock=self.clock, cpu_s=lambda: self.cpu_s, give_back=self.give_back)

    def give_back(self) -> None:
        self.given_back += 1

    async def looks(self, count: int, *, cpu_s: float) -> int:
        """Let it look so often, using so much time before each look; how often memory was given back meanwhile."""
        before = self.given_back
        for _ in range(count):
            self.cpu_s += cpu_s
            self.clock.advance(LOOK_MS)
        await asyncio.get_running_loop().run_in_executor(None, int)  # one thread: what came before has ended
        return self.given_back - before


async def test_memory_goes_back_once_when_work_has_ended():
    """Not while it goes on, and not again until there was more."""
    process = Process()
    process.freed.start()
    assert await process.looks(5, cpu_s=1.0) == 0
    assert await process.looks(1, cpu_s=0.05) == 1
    assert await process.looks(3, cpu_s=0.05) == 0
    assert await process.looks(1, cpu_s=1.0) == 0
    assert await process.looks(100, cpu_s=0.0) == 1


async def test_a_process_that_never_rests_gives_back_every_five_minutes():
    """What was drained long ago must not stay for ever."""
    process = Process()
    process.freed.start()
    assert await process.looks(LOOKS_MAX - 1, cpu_s=1.0) == 0
    assert await process.looks(1, cpu_s=1.0) == 1
    assert await process.looks(LOOKS_MAX, cpu_s=1.0) == 1


async def test_nobody_looks_after_a_stop_or_before_a_start():
    """And both may be said twice."""
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
    """Nobody looks for nothing."""
    clock = ManualClock()
    FreedMemory(clock=clock, give_back=None).start()
    assert clock.next_timer_in_ms() is None


@pytest.mark.skipif(trim_of_this_process() is None, reason="this C library has no malloc_trim")
def test_what_lies_between_held_blocks_goes_back():
    """Of 100 MB in blocks too small for mappings of their own, every thousandth is held."""
    program = """
import os
from pathlib import Path
from tracker.service.freed_memory import trim_of_this_process
def resident(): return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
blocks = [bytes(10_000) for _ in range(10_000)]
held = blocks[::1_000]
del blocks
before = resident()
trim_of_this_process()()
print(before - resident())
"""
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert int(said) > 50_000_000
