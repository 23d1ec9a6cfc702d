"""Settings of the BookKeeper client: times, bounds, TLS."""

import ssl
from dataclasses import dataclass, fields
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput

FRAME_BYTES_MIN: Final = 64 * 1024
REPLY_BYTES_MAX: Final = 5_253_120 + 64 * 1024
"""Default of ``reply_bytes_max``: what Pulsar's bookies take at most (5 MiB and 10 KiB), and room for the rest of a reply."""
_RANGES: Final = {
    "connect_timeout_ms": (1, 600_000),
    "add_timeout_ms": (1, 600_000),
    "read_timeout_ms": (1, 600_000),
    "speculative_read_ms": (1, 600_000),
    "backoff_min_ms": (1, 600_000),
    "backoff_max_ms": (1, 3_600_000),
    "frame_bytes_max": (FRAME_BYTES_MIN, 2**31 - 1),
    "reply_bytes_max": (FRAME_BYTES_MIN, 2**31 - 1),
    "in_flight_bytes_max": (FRAME_BYTES_MIN, 2**40),
    "in_flight_requests_max": (1, 1_000_000),
    "pending_bytes_max": (FRAME_BYTES_MIN, 2**40),
    "pending_entries_max": (1, 1_000_000),
    "quarantine_ms": (0, 3_600_000),
}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Times in milliseconds, and bounds of each connection to a bookie and of each writer.

    Raises:
        InvalidInput: a value is out of range, or contradicts another one.
    """

    connect_timeout_ms: int = 5_000
    """Longest time from the first packet to the end of the TLS handshake; 1 ms to 10 min."""
    add_timeout_ms: int = 5_000
    """Longest time until the reply to an add or to an explicit last-add-confirmed; 1 ms to 10 min."""
    read_timeout_ms: int = 5_000
    """Longest time until the reply to a read, fencing included; 1 ms to 10 min."""
    speculative_read_ms: int = 500
    """Time after which a second bookie is asked for an entry, while the first one may still answer; 1 ms to 10 min."""
    backoff_min_ms: int = 100
    """Time until the next attempt after a connection failed; doubles with each failure in a row. 1 ms to 10 min."""
    backoff_max_ms: int = 10_000
    """Longest time between two attempts; 1 ms to 1 h."""
    frame_bytes_max: int = 5 * 1024 * 1024
    """Most bytes of a request, its length included: the bookies' ``nettyMaxFrameSizeBytes``. A bookie ends the connection at a
    larger request. 64 KiB to 2 GiB."""
    reply_bytes_max: int = REPLY_BYTES_MAX
    """Most bytes of a reply, its length included; the connection ends at a larger one. Entries of other clients may be larger
    than what this one writes. 64 KiB to 2 GiB."""
    in_flight_bytes_max: int = 32 * 1024 * 1024
    """Most bytes of requests that one bookie has not answered; at least ``frame_bytes_max``."""
    in_flight_requests_max: int = 4_096
    """Most requests that one bookie has not answered; 1 to 1,000,000."""
    pending_bytes_max: int = 32 * 1024 * 1024
    """Most payload bytes that one writer has taken and not answered; at least ``frame_bytes_max``."""
    pending_entries_max: int = 4_096
    """Most entries that one writer has taken and not answered; 1 to 1,000,000."""
    change_early: bool = True
    """True to replace a bookie at its first failure, if there are others; False to wait, where the ack quorum is smaller
    than the write quorum, until an add cannot be answered without it."""
    quarantine_ms: int = 60_000
    """Time for which new ledgers and ensembles avoid a bookie that failed, if there are others; 0 to 1 h."""
    batch_reads: bool = True
    """True to read small entries that follow each other by one request, where all bookies of a ledger have all of its entries
    and are of version 4.17 or later. Those before close a connection at the first such request, and are asked for each
    entry."""
    tls: ssl.SSLContext | None = None
    """Context of connections to bookies; None connects in the clear."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name not in _RANGES:
                continue
            value, (low, high) = getattr(self, field.name), _RANGES[field.name]
            if type(value) is not int or not low <= value <= high:
                raise InvalidInput(field.name, value, f"give an integer from {low} to {high}")
        if self.backoff_max_ms < self.backoff_min_ms:
            raise InvalidInput("backoff_max_ms", self.backoff_max_ms, "give at least backoff_min_ms")
        for name in ("in_flight_bytes_max", "pending_bytes_max"):
            if getattr(self, name) < self.frame_bytes_max:
                raise InvalidInput(name, getattr(self, name), "give at least frame_bytes_max")
