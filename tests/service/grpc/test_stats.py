"""GetTrackerStats over a real gRPC server: what it shows of the add log."""

from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.rpc import add, opened, poll, stats_of
from tests.service.harness.shell import KEY, running_service


async def test_stats_show_the_add_log():
    """The tracker's records, what a crash would hand out again, and the window; without a log they are zero or absent."""
    limits = ServiceLimits(consumption_window_positions=7)
    async with running_service(service_limits=limits, add_log=MemoryAddLog()) as service:
        epoch = await opened(service)
        await service.stub.AddMessages(add(epoch, *((service.clock.now_ms() + 1, 1, entry) for entry in range(3))))
        service.clock.advance(1)
        await service.stub.PollScheduledMessages(poll(epoch, hand_off=True, max_messages=2))
        stats = await stats_of(service)
        assert stats.log_bytes == service.registry.log.log_bytes > 0
        assert (stats.unwritten_consumed_count, stats.consumption_window_positions) == (2, 7)
        assert not stats.HasField("offered_through")
        service.registry.host(KEY).add(epoch, IndexColumns.empty(), offered_through=Position(1, 2))
        stats = await stats_of(service)
        assert (stats.offered_through.ledger_id, stats.offered_through.entry_id) == (1, 2)
    async with running_service() as service:
        await opened(service)
        stats = await stats_of(service)
        assert (stats.log_bytes, stats.HasField("consumption_window_positions")) == (0, False)
