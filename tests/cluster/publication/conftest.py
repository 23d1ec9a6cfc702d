"""Fixtures for tests of publications."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.protocol import SnapshotStore


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SnapshotStore]:
    """Yield a storage of the service, without trackers."""
    async with opened_storage("--from", f"sqlite:{tmp_path / 'tracker.db'}", creates=True) as whole:
        yield whole.snapshots
