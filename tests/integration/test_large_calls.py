"""A real service under more bytes than it may hold at once."""

from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.benchmarks.abuse.flood import STREAMS, UNARY, flood

CALLS = 24
BUDGET_BYTES = 32 * 2**20
GROWTH_BYTES_MAX = 4 * BUDGET_BYTES
"""A message is in memory two or three times while it is copied and parsed; all messages together exceed this."""


@pytest.mark.deep
async def test_memory_follows_what_may_be_in_flight_and_not_what_is_sent(tmp_path: Path):
    """Unary calls and streams of 15.5 MB, 372 MB together, are received two at a time."""
    settings = {"grpcRequestBytesInFlightMax": str(BUDGET_BYTES)}
    service = await ServiceProcess.start(tmp_path, storage_url="memory:", settings=settings)
    try:
        for method in (UNARY[0], STREAMS[0]):
            found = await flood(service, method, calls=CALLS, message_bytes=15_500_000)
            assert found.codes == {"INVALID_ARGUMENT": CALLS}
            assert found.peak_bytes - found.before_bytes < GROWTH_BYTES_MAX, method
        await service.stop()
    finally:
        await service.ensure_stopped()
