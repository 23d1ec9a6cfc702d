"""Kernels are compiled once, kept in a cache, and not compiled again by any caller."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, get_ident

import numpy as np
import pytest
from numba import config

from delayed_tracker.core.kernels import compiled as kernels
from delayed_tracker.core.kernels import machine_code
from delayed_tracker.core.kernels.jit import COLUMN, INT64, INTERPRETED_MAX, Kernel, Kernels, cached_in
from tests.repository.project_tree import ROOT

SUM = """
import sys
from pathlib import Path
import numpy as np
from delayed_tracker.core.kernels.compile_notice import call_once_before_compiling
from delayed_tracker.core.kernels.jit import COLUMN, Kernels

kernels = Kernels()
call_once_before_compiling(lambda: print("compiling"))

@kernels.add(COLUMN)
def total(values):
    found = 0
    for value in values:
        found += value
    return found

kernels.load()
print(total(np.arange(5)))
"""

jit_only = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled with NUMBA_DISABLE_JIT=1")


def run_sum(script: Path, *, run_by: tuple[str, ...] = (), **environment: str) -> list[str]:
    script.write_text(SUM, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [*run_by, sys.executable, "-W", "error", str(script)],
        cwd=ROOT,
        env={**variables, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@jit_only
@pytest.mark.long
@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "NUMBA_CACHE_DIR"])
def test_a_kernel_is_compiled_once_and_announced(tmp_path: Path, variable: str):
    """The second process finds the kernel in the user's cache; nothing is written beside the source."""
    script, cache = tmp_path / "source" / "sums.py", tmp_path / "cache"
    script.parent.mkdir()
    assert run_sum(script, **{variable: str(cache)}) == ["compiling", "10"]
    assert run_sum(script, **{variable: str(cache)}) == ["10"]
    assert list(script.parent.iterdir()) == [script]
    assert list(cache.rglob("*.nbc"))


@jit_only
@pytest.mark.long
def test_without_a_place_for_a_cache_each_process_compiles(tmp_path: Path):
    """A read-only bucket directory causes no failure, and nothing is written beside the source."""
    script = tmp_path / "sums.py"
    for _ in range(2):
        assert run_sum(script, XDG_CACHE_HOME="/dev/null/nowhere") == ["compiling", "10"]
    assert list(tmp_path.iterdir()) == [script]


@jit_only
@pytest.mark.long
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv of util-linux")
def test_a_cache_that_cannot_be_written_is_read(tmp_path: Path):
    """A kernel of an image with a read-only root is loaded; one that the image lacks is compiled and not kept."""
    script, cache = tmp_path / "sums.py", tmp_path / "cache"
    assert run_sum(script, NUMBA_CACHE_DIR=str(cache)) == ["compiling", "10"]
    kept = sorted(cache.rglob("*"))
    for path in (cache, *kept):
        path.chmod(0o555)
    # Without capabilities, root cannot write there either.
    plain_user = ("setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all") if os.geteuid() == 0 else ()
    assert run_sum(script, run_by=plain_user, NUMBA_CACHE_DIR=str(cache)) == ["10"]
    other = tmp_path / "others.py"
    assert run_sum(other, run_by=plain_user, NUMBA_CACHE_DIR=str(cache)) == ["compiling", "10"]
    assert sorted(cache.rglob("*")) == kept


@jit_only
@pytest.mark.long
def test_a_damaged_cache_is_replaced(tmp_path: Path):
    """A damaged cache, as a crash of the machine may leave it, is treated as an empty one, by one process."""
    script, cache = tmp_path / "sums.py", tmp_path / "cache"
    run_sum(script, XDG_CACHE_HOME=str(cache))
    for kept in (*cache.rglob("*.nbc"), *cache.rglob("*.nbi")):
        for left in (100, 0):
            kept.write_bytes(kept.read_bytes()[:left])
            assert run_sum(script, XDG_CACHE_HOME=str(cache)) == ["compiling", "10"]
            assert run_sum(script, XDG_CACHE_HOME=str(cache)) == ["10"]


@pytest.mark.slow
def test_without_the_jit_the_function_runs_as_written(tmp_path: Path):
    """Without the JIT nothing is compiled, and the result is the same."""
    assert run_sum(tmp_path / "sums.py", NUMBA_DISABLE_JIT="1") == ["10"]


def test_settings_of_numba_stay_as_they_were():
    """The settings of numba stay the same for other code in this process."""
    before = config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES
    kernels.KERNELS.load()
    assert before == (config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES)


@jit_only
def test_read_only_and_writable_columns_share_one_compilation():
    """Read-only and writable columns share one compilation: a second one would happen during the work."""
    family = Kernels()

    @family.add(COLUMN, INT64)
    def above(values, least):
        return (values > least).sum()

    frozen = np.arange(5)
    frozen.flags.writeable = False
    assert above(np.arange(5), 2) == above(frozen, np.int64(2)) == 2
    with pytest.raises(TypeError, match="No matching definition"):
        above(np.arange(5.0), 2)


@jit_only
def test_a_kernel_that_is_not_cached_is_not_compiled_unless_it_is_loaded(tmp_path: Path):
    """A kernel that is not cached runs as Python, with the same results, until it is loaded."""
    family = Kernels()

    @family.add(COLUMN)
    def doubled(values):
        return values * 2

    with cached_in(str(tmp_path)):
        assert not doubled.load_cached()
        doubled.interpret()
        assert doubled(np.arange(3)).tolist() == [0, 2, 4]
        assert not doubled.is_loaded
        doubled.load()
    assert doubled.is_loaded
    assert doubled(np.arange(3)).tolist() == [0, 2, 4]
    with pytest.raises(TypeError, match="No matching definition"):
        doubled(np.arange(3.0))


def summing_kernel() -> Kernel:
    """Return a kernel that no process has loaded."""
    family = Kernels()

    @family.add(COLUMN)
    def total(values):
        found = 0
        for value in values:
            found += value
        return found

    return total


def other_threads_than(thread: int) -> Callable[[], bool]:
    """Return what is true in every thread but one."""
    return lambda: get_ident() != thread


@jit_only
def test_a_thread_that_interprets_does_not_undo_a_load(tmp_path: Path):
    """It may have looked at the kernel just before another thread loaded it."""
    total = summing_kernel()
    with cached_in(str(tmp_path)):
        total.load()
        total.interpret()
    assert total.is_loaded
    with pytest.raises(TypeError, match="No matching definition"):
        total(np.arange(3.0))


@jit_only
def test_a_kernel_that_is_not_cached_runs_as_written_until_it_is_loaded(tmp_path: Path):
    """A call that comes before the kernels are loaded does not compile."""
    total = summing_kernel()
    with cached_in(str(tmp_path)), ThreadPoolExecutor(1) as other:
        total.load_or_interpret(may_wait=other_threads_than(get_ident()))
        assert total(np.arange(5)) == 10
        assert not total.is_loaded
        assert other.submit(total, np.ones(INTERPRETED_MAX + 1, np.int64)).result() == INTERPRETED_MAX + 1
        assert not total.is_loaded
        total.load()
        assert total.is_loaded
        assert total(np.arange(5)) == 10


@jit_only
def test_an_event_loop_does_not_wait_for_a_thread_that_loads(tmp_path: Path):
    """While another thread has the compiler, the first one runs the function as it is written."""
    total = summing_kernel()
    with cached_in(str(tmp_path)), ThreadPoolExecutor(2) as others:
        machine_code.compiled(total.function, [COLUMN], keep=True)
        total.load_or_interpret(may_wait=other_threads_than(get_ident()))
        held, release = Event(), Event()

        def hold() -> None:
            with machine_code.COMPILER_LOCK:
                held.set()
                release.wait(60)

        holding = others.submit(hold)
        try:
            assert held.wait(60)
            long = np.ones(INTERPRETED_MAX + 1, np.int64)
            waiting = others.submit(total, long)
            assert total(long) == long.size
            assert not total.is_loaded
            assert not waiting.done()
        finally:
            release.set()
        holding.result()
        assert waiting.result() == long.size
    assert total.is_loaded


@jit_only
def test_a_thread_does_not_load_for_short_columns(tmp_path: Path):
    """Sealing a small bucket does not wait for numba either."""
    total = summing_kernel()
    with cached_in(str(tmp_path)), ThreadPoolExecutor(1) as other:
        machine_code.compiled(total.function, [COLUMN], keep=True)
        total.load_or_interpret(may_wait=lambda: True)
        assert other.submit(total, np.ones(INTERPRETED_MAX, np.int64)).result() == INTERPRETED_MAX
        assert not total.is_loaded
        other.submit(total, np.ones(INTERPRETED_MAX + 1, np.int64)).result()
        assert total.is_loaded
