"""Programs that judge the files of conf: on the PATH, or in the environment of ``.ci/deployment/fetch``."""

import os
import shutil
import subprocess

import pytest

from tests.repository.project_tree import ROOT

CONF = ROOT / "conf"


def find_tool(name: str, remedy: str = "run .ci/deployment/fetch") -> str:
    """Return the path of a program. Without it the test is skipped, except in CI, which has fetched it."""
    found = shutil.which(name) or shutil.which(name, path=_fetched())
    if found is None:
        missing = f"there is no {name}: {remedy}, or put it on the PATH"
        if os.environ.get("CI"):
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return found


def _fetched() -> str:
    """Return the directory of fetched programs, which need not exist."""
    answer = subprocess.run(
        [ROOT / ".ci" / "deployment" / "fetch", "--place"], capture_output=True, text=True, check=True
    )
    return f"{answer.stdout.strip()}/bin"
