"""Settings of a client: timeouts, batches, buffers. The same for the asyncio and the blocking client."""

from dataclasses import dataclass, fields

from delayed_tracker.client.model.bounds import UINT32_MAX, bounded, flag, seconds


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a client; the defaults suit a dispatcher near its service."""

    connect_timeout_s: float = 5.0
    """Longest wait for the first connection, in seconds."""
    call_timeout_s: float = 10.0
    """Time limit of a call in seconds, retries included; a poll has its waiting time in addition."""
    open_timeout_s: float = 60.0
    """Time limit of opening or deleting a tracker, in seconds: recovery may read snapshots."""
    verify_timeout_s: float = 600.0
    """Time limit of verifying snapshots, in seconds: it reads all of them."""
    import_timeout_s: float = 3_600.0
    """Time limit of an import of snapshots, in seconds; includes the time to make the requests."""
    wait_for_ready: bool = True
    """True if calls wait, within their time limit, for a service that is being restarted; otherwise they fail at once.
    """
    batch_max: int = 10_000
    """Positions in one call; longer columns are sent in several calls."""
    flush_count: int = 1_000
    """Single adds are sent when this many are buffered ..."""
    flush_delay_s: float = 0.002
    """... or this many seconds after the first of them."""
    buffer_max: int = 50_000
    """Single adds that are buffered or in flight; further adds wait for room."""
    stream_batches_max: int = 1_000
    """Batches of a stream in flight; the next one is not requested from the caller before one is answered ..."""
    stream_positions_max: int = 100_000
    """... nor while the batches in flight have this many positions."""

    def __post_init__(self) -> None:
        """Refuse values that no client can use; raises InvalidInput."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is bool:
                flag(field.name, value)
            elif field.type is int:
                bounded(field.name, value, minimum=1, maximum=UINT32_MAX)
            else:
                seconds(field.name, value, zero=field.name == "flush_delay_s")
