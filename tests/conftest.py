"""Hypothesis profiles, the wheel, kernels compiled before the first test, and how tests are spread over processes."""

import gc
import os
import signal
import subprocess
import sys
import zipfile

import pytest
from hypothesis import HealthCheck, settings
from xdist import is_xdist_worker
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from delayed_tracker.service.process.kernels import load_kernels
from tests.repository.project_tree import ROOT

# dev: quick, new examples each run. ci: the same examples each run, so that a red build is red again on a laptop.
# deep: `make test-deep`, many more examples. The tests of tests/property, where a whole life of a tracker is an example,
# take 20,000 (tests/property/examples.py): at 15 to 35 ms each they are half of the deep run. Those of codecs,
# columns and readers have small inputs, whose shapes 2,000 examples exhaust; ten times as many would double that run.
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "deep",
    max_examples=2_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# PySpark forks to start Java. What gRPC does in the child of a process that has channels open breaks it; it is told so
# before it is loaded.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# A shell starts jobs in the background with Ctrl-C ignored, and what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """What users install, built from the checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    return zipfile.ZipFile(built)


ONE_PROCESS = ("spark", "prometheus", "jvm")
"""Directories of tests whose session fixture is a Spark, a Prometheus or a Java: one of each, not one for each process."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile kernels once, before any test and any service that one starts would do so beside the others."""
    if not is_xdist_worker(session):
        load_kernels()


WORKERS_MAX = 8


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: at any time one of them waits, for Spark, a kill, or a timer."""
    return min(len(os.sched_getaffinity(0)) + 1, WORKERS_MAX)


def pytest_collection_finish() -> None:
    """Leave what was imported and collected, half a million objects, out of each collection of garbage in a test."""
    gc.collect()
    gc.freeze()


class OneOfEach(LoadScopeScheduling):
    """Spreads tests one by one, but for those that share a costly process. The largest groups come first."""

    def _split_scope(self, nodeid: str) -> str:
        directory = nodeid.split("/")[1]
        if directory in ONE_PROCESS:
            return directory
        # Tests of one file share a service.
        return nodeid.split("::", maxsplit=1)[0] if directory == "integration" else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneOfEach:
    """Take the place of ``--dist=loadgroup``, whose marks this pytest does not show to xdist."""
    return OneOfEach(config, log)
