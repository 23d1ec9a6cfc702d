"""The kernels of the service are loaded before its first call."""

import subprocess
import sys

import pytest
from numba import config

from tests.repository.project_tree import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled with NUMBA_DISABLE_JIT=1"),
]
WARM_UP = "from delayed_tracker.service.process.kernels import load_kernels; load_kernels()"

FIRST_USE = f"""
import sys
import numpy as np
{WARM_UP}
from delayed_tracker.core.values.columns import index_columns
frozen = index_columns(np.arange(9), np.arange(9), np.arange(9))
before = set(sys.modules)
frozen.sorted()
print(sorted(set(sys.modules) - before))
"""


def test_the_first_call_imports_nothing():
    """The first call does not wait for an import."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST_USE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
