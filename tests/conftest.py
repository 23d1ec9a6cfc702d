"""Hypothesis profiles, the wheel, kernels compiled before the first test, and the spread of tests over processes."""

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

# dev: quick, new examples each run.
# ci: the same examples each run, so that a failure can be reproduced.
# deep: `make test-deep`, many more examples. The tests of tests/property, where an example is the whole life of a
# tracker, take 7,000 (tests/property/examples.py): at 15 to 35 ms each they are half of the deep run. Those of codecs,
# columns and readers have small inputs, whose shapes 2,000 examples exhaust; ten times as many would double that run.
# Deadlines and the time of drawing judge the machine, which may be busy.
settings.register_profile("dev", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("deep", settings.get_profile("dev"), max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# PySpark forks to start Java. gRPC's fork handlers break the child of a process with open channels; this turns them off
# and must be set before gRPC is loaded.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# A shell starts background jobs with Ctrl-C ignored, and the processes of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel that users install from the checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    return zipfile.ZipFile(built)


ONE_PROCESS = {
    "spark/": "Spark",
    "prometheus/": "Prometheus",
    "jvm/": "Java",
    "bookkeeper/": "BookKeeper",
    "ledger/live/": "BookKeeper",
    "cluster/pulsar/": "Pulsar",
    "cluster/plugin/": "the plugin",
    "cluster/": "BookKeeper",
    "snapshot_storage/shared/bookkeeper/test_footprint.py": "BookKeeper",
    "snapshot_storage/shared/bookkeeper/test_real_cluster.py": "BookKeeper",
    "snapshot_storage/shared/bookkeeper/test_requests.py": "BookKeeper",
    "integration/crashes/test_kill_over_bookkeeper.py": "BookKeeper",
    "snapshot_storage/shared/clouds/": "object stores",
}
"""The server, or servers, that a session fixture starts for tests: one of each, not one for each process."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the kernels once, before tests and the services that they start would do so at the same time."""
    if not is_xdist_worker(session):
        load_kernels()


WORKERS_MAX = 8


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return two more than the number of cores: at any time two processes wait for Spark, a kill, or a timer."""
    return min(len(os.sched_getaffinity(0)) + 2, WORKERS_MAX)


def pytest_collection_finish() -> None:
    """Exclude the half million imported and collected objects from garbage collections in tests."""
    gc.collect()
    gc.freeze()


class OneOfEach(LoadScopeScheduling):
    """Scheduler that spreads single tests, except those that share a costly process. The largest groups come first."""

    def _split_scope(self, nodeid: str) -> str:
        for path, server in ONE_PROCESS.items():
            if nodeid.startswith(f"tests/{path}"):
                return server
        # Tests of one file share a service; those that kill one have their own.
        shares = nodeid.startswith("tests/integration/") and not nodeid.startswith("tests/integration/crashes/")
        return nodeid.split("::", maxsplit=1)[0] if shares else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneOfEach:
    """Replace ``--dist=loadgroup``, whose marks this pytest does not pass to xdist."""
    return OneOfEach(config, log)
