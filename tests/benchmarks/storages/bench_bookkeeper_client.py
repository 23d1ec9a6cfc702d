"""The BookKeeper client beside BookKeeper's own: entries of three sizes, written and read."""

import statistics
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from delayed_tracker.bookkeeper.client import BookKeeper
from tests.benchmarks.goals import Peer
from tests.benchmarks.measure import Reading, Run, Stopwatch, require
from tests.benchmarks.rows import Row, Unit
from tests.benchmarks.storages.places import bookies
from tests.bookkeeper.servers.java_ledgers import JavaLedgers, running_java_ledgers
from tests.jvm.pulsar_classes import NoPulsarClasses

ABOUT = (
    "One bookie, ledgers with CRC32C; each repeat writes one ledger with our client and one with BookKeeper's own, Java's "
    "client in a JVM of its own, and then each client reads what the other one wrote, so that repeats alternate. Both "
    "clients keep at most 32 MB and 4,096 entries pending while they write, and 8 MB and 1,024 entries on their way while "
    "they read; ours gets all entries in one call (`add_all`), Java's has no such call. Java's limit of 5,000 requests a "
    "second is off, as in Pulsar. Writing ends with the last answer; the bookie syncs its journal first. Of each entry that "
    "is read, size and number are compared. Bookie and client share the two cores; indexes are entries here, and the "
    "processor time is our client's alone, for each entry. Ours reads entries of 1 KB by 64 in one request; Java's asks "
    "for each, as it does unless version 2 of the protocol is chosen. With batch reads off ours reached 0.7 to 0.76 of its "
    "rate. With its limit on, Java's client wrote and read 5,000 entries a second, of 1 KB and of 10 KB."
)
_NUMBER_BYTES = 8
"""Bytes in front of each entry, which have its number."""
_JAVA_OPTIONS = ("-Xmx1g", "-XX:TieredStopAtLevel=4")


def _name(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1_000} KB"


@dataclass(slots=True)
class _Times:
    """Readings of one size."""

    written: list[Reading] = field(default_factory=list)
    read: list[Reading] = field(default_factory=list)
    java_written_ns: list[int] = field(default_factory=list)
    java_read_ns: list[int] = field(default_factory=list)


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure each size."""
    try:
        with bookies(run, 1) as cluster, running_java_ledgers(_JAVA_OPTIONS) as java:
            async with BookKeeper(cluster.zookeeper.address) as client:
                for size, count in run.scale.ledger_entries:
                    times = _Times()
                    for counts in run.repeats(f"entries of {_name(size)}"):
                        await _repeat(client, java, cluster.uri, times if counts else _Times(), size=size, count=count)
                    for does, ours, peer in (
                        ("write", times.written, times.java_written_ns),
                        ("read", times.read, times.java_read_ns),
                    ):
                        yield _row(run, f"{does} {_name(size)}", count, size * count, ours=ours, peer_ns=peer)
    except NoPulsarClasses as missing:
        run.skip(f"the client of BookKeeper: {missing}")


def _row(run: Run, does: str, count: int, bytes_in_all: int, *, ours: list[Reading], peer_ns: list[int]) -> Row:
    key = f"client {does}"
    peer = statistics.median(bytes_in_all * 1e3 / ns for ns in peer_ns)
    run.peers[key] = Peer("java client", peer, is_measured=True)
    return Row(
        key,
        f"{does} entries",
        Unit.MB_PER_S,
        tuple(bytes_in_all * 1e3 / reading.wall_ns for reading in ours),
        count,
        cpu=statistics.median(reading.cpu_ns / count for reading in ours),
        peak_bytes=max(reading.peak_bytes for reading in ours),
    )


async def _repeat(client: BookKeeper, java: JavaLedgers, uri: str, times: _Times, *, size: int, count: int) -> None:
    """Write with ours and with Java's, then read what the other one wrote."""
    zeros = bytes(size - _NUMBER_BYTES)
    payloads = [number.to_bytes(_NUMBER_BYTES, "big") + zeros for number in range(count)]
    writer = await client.create(ensemble=1, write_quorum=1, ack_quorum=1)
    with Stopwatch() as watch:
        await writer.add_all(payloads)
    times.written.append(watch.reading)
    await writer.close()

    javas = java.create(uri)
    times.java_written_ns.append(java.write(uri, javas, size=size, count=count))
    java.close(uri, javas)

    reader = await client.open(javas)
    read = 0
    with Stopwatch() as watch:
        async for entry in reader.entries():
            right = len(entry.payload) == size and entry.payload[:_NUMBER_BYTES] == payloads[read][:_NUMBER_BYTES]
            require("entries of Java's client", right)
            read += 1
    times.read.append(watch.reading)
    require("entries of Java's client", read == count)

    java.open(uri, writer.ledger_id)
    times.java_read_ns.append(java.scan(uri, writer.ledger_id, size=size, count=count))
    await client.delete(writer.ledger_id, require={})
    await client.delete(javas, require={})
