"""Fixtures: a started registry, or a whole service, on a manual clock and a controlled storage."""

import asyncio
import io
import logging
from collections.abc import Callable, Iterator

import pytest
import structlog

from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.telemetry.logs import configure_logging
from tests.service.harness.imports import FAR_MS, snapshot
from tests.service.harness.shell import ControlledStorage, elapse, make_registry, running_service


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def storage():
    return ControlledStorage()


@pytest.fixture
async def registry(storage, clock):
    registry = make_registry(storage, clock)
    await registry.start()
    yield registry
    closing = asyncio.create_task(registry.close())
    await elapse(clock, 0)
    await closing


@pytest.fixture
async def service():
    async with running_service() as running:
        yield running


@pytest.fixture
def two(service):
    """Return two buckets with distant deadlines, of ledgers 10 and 11."""
    far = service.clock.now_ms() + FAR_MS
    return [snapshot(*((far + 400 * entry, ledger, entry) for entry in range(7))) for ledger in (10, 11)]


@pytest.fixture
def unchanged_logging() -> Iterator[None]:
    """Restore the logging configuration after the test."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def written_log(unchanged_logging: None) -> Callable[[str, str], io.StringIO]:
    """Return a function that configures logging with a format and a level, and returns the stream of the lines."""

    def configured(log_format: str, level: str) -> io.StringIO:
        stream = io.StringIO()
        configure_logging(log_format, level, stream=stream)
        return stream

    return configured
