"""The service says what it is doing while it compiles."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from tests.project_tree import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled with NUMBA_DISABLE_JIT=1"),
]
WARM_UP = "from tracker.service.kernels import warm_up_kernels; warm_up_kernels()"

FIRST_USE = f"""
import sys
import numpy as np
{WARM_UP}
from tracker.core.columns import index_columns
frozen = index_columns(np.arange(9), np.arange(9), np.arange(9))
before = set(sys.modules)
frozen.sorted()
print(sorted(set(sys.modules) - before))
"""


def test_compiling_is_logged_once_and_never_when_warm(tmp_path: Path):
    """Several modules of kernels, one announcement."""
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", WARM_UP],
            cwd=ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(done.stdout + done.stderr)
    cold, warm = printed
    assert cold.count("compiling kernels") == cold.count("kernels are compiled") == 1
    assert not warm


def test_the_first_call_imports_nothing():
    """Whoever waits for it would wait for that, too."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST_USE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
