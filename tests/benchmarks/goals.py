"""Goals of the numbers, and stated numbers of peers for runs that do not measure them.

Peers: BookKeeper's own client (``java client``) and an echo over gRPC (``echo``), measured in every run; Pulsar 4.2.4's own
trackers, in one JVM, storage in memory (``java``), and Redis 7.0.15 over hiredis (``redis``), each measured before on a machine
of two cores; and a broker that replays a topic into its tracker (``broker``), of which the quickest run counts. A number measured in the run replaces a stated one.
"""

import math
from dataclasses import dataclass

from tests.benchmarks.inputs.shapes import Shape


@dataclass(frozen=True, slots=True)
class Goal:
    """At most ``value``, or at least ``value`` if more is better; and a multiple of the peer's number."""

    value: float | None
    times_peer: float | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """Number of another system, in the unit of the row."""

    name: str
    value: float
    is_measured: bool = False


_GOALS: dict[str, Goal] = {
    "add": Goal(40),
    "add that seals": Goal(1),
    "seal": Goal(150),
    "seal/7 days": Goal(300),
    "decode": Goal(20),
    "pop": Goal(80),
    "life": Goal(500),
    "drain passing": Goal(1_000),
    "opens": Goal(5_000),
    "restart": Goal(1_000),
    "contains": Goal(30),
    "contains half drained": Goal(30),
    "grpc add": Goal(3, times_peer=10),
    "grpc add 1": Goal(0.012),
    "grpc add stream 1": Goal(0.05),
    "grpc add sealing": Goal(4, times_peer=10),
    "grpc above echo": Goal(100),
    "grpc poll": Goal(None, times_peer=10),
    "durable share": Goal(0.6),
    "durable add everysec": Goal(None, times_peer=5),
    "durable add always": Goal(None, times_peer=5),
    "durable acks": Goal(0.95),
    "secured adds": Goal(0.8),
    "lateness p99": Goal(100),
    "network lateness p99": Goal(250),
    "memory": Goal(1.5),
    "growth": Goal(0.8),
    "recovery": Goal(200),
    "scrape": Goal(50),
    "metrics add": Goal(0.95),
    "ledger read": Goal(3),
    "ledger parse": Goal(3),
    "inflate and parse": Goal(1.3),
    "look-up": Goal(5),
    "look-up touches": Goal(2 * math.log2(1_000_000)),
    "spark read": Goal(2),
    "spark read blobs": Goal(3),
    "spark beside inflating": Goal(2),
    "spark cores": Goal(1.85),
    "spark rebuild": Goal(2),
    "spark command": Goal(10_000),
    "spark beside reading": Goal(2),
    "stall p99.9": Goal(5),
    "stall max": Goal(20),
    "client": Goal(None, times_peer=0.8),
    "recovery from bookies": Goal(1_000),
    "week passing": Goal(1_000),
    "month memory": Goal(60),
    "month disk columnar": Goal(5),
    "month peak": Goal(150),
    "month open": Goal(1_000),
    "month adds": Goal(0.8),
    "month lateness": Goal(10),
}
"""Goals by key of a row, or by key/shape if the shape matters, in the unit of the row."""

_STATED: dict[str, Peer] = {
    "add": Peer("java", 129),
    "add that seals": Peer("java", 28),
    "add that seals 1M": Peer("java", 913),
    "seal/7 days": Peer("java", 548),
    "life/7 days": Peer("java", 3_630),
    "life/one deadline": Peer("java", 1_559),
    "drain passing": Peer("java", 4_120),
    "contains": Peer("java", 41),
    "contains half drained": Peer("java", 3_050),
    "disk": Peer("java", 20.2),
    "memory": Peer("java", 1.3),
    "recovery 1M": Peer("java", 25.7),
    "recovery": Peer("java", 180),
    "ledger read": Peer("java", 8.6),
    "ledger parse": Peer("java", 8.6),
    "spark replay": Peer("broker", 12_000),
    "grpc add": Peer("redis", 0.38),
    "grpc poll": Peer("redis", 0.79),
}

_SAME_GOAL = {
    "add that seals 1M": "add that seals",
    "recovery 1M": "recovery",
    **{f"client {does} {size}": "client" for does in ("write", "read") for size in ("5 MB", "10 KB", "1 KB")},
}
"""Rows that have their own peer, and the row whose goal they share."""


_SAME_PEER = {"grpc add sealing": "grpc add", "spark command": "spark replay"}
"""Rows that have their own goal, and the row whose peer they share."""


def goal_of(key: str, shape: Shape | None) -> Goal | None:
    """Return the goal of a row, or None."""
    key = _SAME_GOAL.get(key, key)
    return (_GOALS.get(f"{key}/{shape.value}") if shape else None) or _GOALS.get(key)


def peer_of(key: str, shape: Shape | None, measured: dict[str, Peer]) -> Peer | None:
    """Return the peer's number for a row: measured in this run, else stated, else None."""
    key = _SAME_PEER.get(key, key)
    keys = (f"{key}/{shape.value}", key) if shape else (key,)
    known = (known[wanted] for known in (measured, _STATED) for wanted in keys if wanted in known)
    return next(known, None)
