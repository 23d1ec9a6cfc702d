"""How a client behaves: timeouts, batches, buffers. The same for both shells."""

from dataclasses import dataclass, fields

from delayed_tracker.client.model.bounds import UINT32_MAX, bounded, flag, seconds


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client behaves; the defaults suit a dispatcher next to its service."""

    connect_timeout_s: float = 5.0
    """How long to wait for the first connection."""
    call_timeout_s: float = 10.0
    """How long a call may take, its retries included; a poll has its waiting time on top."""
    open_timeout_s: float = 60.0
    """How long opening or deleting a tracker may take: recovery may read snapshots."""
    verify_timeout_s: float = 600.0
    """How long verifying snapshots may take: it reads all of them."""
    import_timeout_s: float = 3_600.0
    """How long an import of snapshots may take, with the making of what is sent."""
    wait_for_ready: bool = True
    """Whether calls wait, within their time, for a service that is being restarted; if not, they fail at once."""
    batch_max: int = 10_000
    """Columns longer than this travel in several calls."""
    flush_count: int = 1_000
    """Single adds leave when this many are buffered ..."""
    flush_delay_s: float = 0.002
    """... or this long after the first of them."""
    buffer_max: int = 50_000
    """Single adds buffered or on their way; more wait for room."""
    stream_batches_max: int = 16
    """Batches of a stream that are on their way; the next one is not even asked for before one is answered."""

    def __post_init__(self) -> None:
        """Refuse values no client can work with; raises InvalidInput."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is bool:
                flag(field.name, value)
            elif field.type is int:
                bounded(field.name, value, minimum=1, maximum=UINT32_MAX)
            else:
                seconds(field.name, value, zero=field.name == "flush_delay_s")
