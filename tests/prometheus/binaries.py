"""Prometheus' own programs on this machine: on the PATH, or in the directory of ``.ci/prometheus``."""

import os
import shutil
from pathlib import Path

import pytest


def find_program(name: str) -> str:
    """Return its path. Without it the test is skipped, except in CI, which has installed it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    fetched = cache / "delayed-tracker" / "prometheus" / "usr" / "bin"
    found = shutil.which(name) or shutil.which(name, path=str(fetched))
    if found is None:
        missing = f"there is no {name}: run .ci/prometheus, or put it on the PATH"
        if os.environ.get("CI"):
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return found
