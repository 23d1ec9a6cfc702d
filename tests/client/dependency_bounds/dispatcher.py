"""Runs a dispatcher with the client and its dependencies only: both shells, and typed errors.

    python -W error dispatcher.py HOST:PORT

It prints one JSON object with the versions and the answers.
"""

import asyncio
import json
import sys
import time
from array import array
from importlib import metadata

from delayed_tracker.client import (
    BatchTooLarge,
    ClientSettings,
    DelayedTrackerClient,
    Fenced,
    InvalidArgument,
    Position,
    QueryNotSupported,
    TrackerNotOpen,
)
from delayed_tracker.client.blocking import DelayedTrackerClient as BlockingClient
from delayed_tracker.pulsar.v1 import entry_pb2, ledger_metadata_pb2, managed_ledger_pb2
from delayed_tracker.snapshot.v1 import snapshot_pb2
from delayed_tracker.v1 import ledger_pb2_grpc, tracker_pb2_grpc

GENERATED = (
    entry_pb2,
    ledger_metadata_pb2,
    managed_ledger_pb2,
    snapshot_pb2,
    ledger_pb2_grpc,
    tracker_pb2_grpc,
)
TOPIC = "persistent://shop/orders/events"
DELAY_MS = 5_000
"""Long enough that a message is not due before it comes."""
WAIT_MS = 20_000
PATIENT = ClientSettings(connect_timeout_s=30.0, call_timeout_s=30.0)


async def dispatch(address: str) -> dict[str, object]:
    async with DelayedTrackerClient.connect(address, settings=PATIENT) as client:
        first = await client.open_tracker(TOPIC, "events", mark_delete=Position(1, -1))
        session = await client.open_tracker(TOPIC, "events")
        deadline = int(time.time() * 1_000) + DELAY_MS
        added = await session.add(deadline, 7, 0)
        await session.add_columns(array("q", [deadline] * 2), array("q", [7, 2**63 - 1]), [1, 2**32 - 1])
        batches = [([deadline], [8], [0]), ([2**62], [9], [0])]

        async def offered():
            for batch in batches:
                yield batch

        streamed = [answer.added_count async for answer in session.add_stream(offered())]
        taken = []
        while len(taken) < 4:
            async with await session.poll(10, wait_ms=WAIT_MS) as lease:
                taken += list(lease.messages)
        return {
            "added": added.name,
            "streamed": streamed,
            "taken": sorted(taken),
            "fenced": await reason_of(Fenced, first.add(2**62, 1, 1)),
            "unanswerable": await reason_of(QueryNotSupported, client.ledgers.get_last_message_position(TOPIC)),
            "stats": (await client.view_tracker(TOPIC, "events").stats()).pending_count,
        }


async def reason_of(kind, call):
    try:
        await call
    except kind as error:
        return error.reason
    return None


def dispatch_blocking(address: str) -> dict[str, object]:
    with BlockingClient.connect(address, settings=PATIENT) as client, client.open_tracker(TOPIC, "calls") as session:
        deadline = int(time.time() * 1_000) + DELAY_MS
        session.add_columns([deadline] * 3, [5] * 3, [0, 1, 2])
        with session.poll(10, wait_ms=WAIT_MS) as lease:
            taken = list(lease.messages)
        try:
            client.view_tracker(TOPIC, "nobody's").stats()
        except TrackerNotOpen as error:
            not_open = error.reason
        try:
            session.poll(2**31)
        except (BatchTooLarge, InvalidArgument) as error:
            violations = [violation.field for violation in error.violations]
    return {"taken": sorted(taken), "not_open": not_open, "violations": violations}


def main(address: str) -> None:
    names = ("grpcio", "protobuf", "googleapis-common-protos", "delayed-tracker")
    answered = {
        "versions": {name: metadata.version(name) for name in names},
        "installed": sorted(row.metadata["Name"].replace("_", "-") for row in metadata.distributions()),
        "asyncio": asyncio.run(dispatch(address)),
        "blocking": dispatch_blocking(address),
    }
    print(json.dumps(answered))


if __name__ == "__main__":
    main(sys.argv[1])
