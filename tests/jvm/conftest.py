"""Fixtures of the tests with Pulsar's own classes: one JVM for all tests."""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.jvm.download_time import allow_download
from tests.jvm.pulsar_classes import NoPulsarClasses
from tests.jvm.pulsar_reads import PulsarReads, running_pulsar_reads


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "pulsar" in getattr(item, "fixturenames", ()):
            allow_download(item)


@pytest.fixture(scope="session")
def pulsar() -> Iterator[PulsarReads]:
    """Start the JVM. Without Java the tests are skipped; CI fails instead."""
    with ExitStack() as running:
        try:
            reads = running.enter_context(running_pulsar_reads())
        except NoPulsarClasses as missing:
            if os.environ.get("CI"):
                pytest.fail(str(missing), pytrace=False)
            pytest.skip(str(missing))
        yield reads
