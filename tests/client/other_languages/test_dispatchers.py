"""The API from other languages: stubs compile as they come, and a dispatcher written with them works."""

import asyncio
import os

import pytest

from delayed_tracker.service.server import TrackerServer
from delayed_tracker.service.settings.settings import Settings
from delayed_tracker.snapshot.v1 import snapshot_pb2
from tests.client.other_languages.dispatchers import GO, JAVA, Language, NoDispatcher

STORED = snapshot_pb2.SnapshotSegment(indexes=[snapshot_pb2.DelayedIndex(timestamp=1, ledger_id=2, entry_id=3)])

pytestmark = pytest.mark.slow


def dispatcher_of(language: Language) -> list[str]:
    """Where it has not been compiled it is skipped; CI has compiled it, or has failed to."""
    try:
        return language.dispatcher()
    except NoDispatcher as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


async def lines_of(command: list[str]) -> list[str]:
    """What a dispatcher prints against a service of its own."""
    server = TrackerServer(
        Settings(storage_url="memory:", grpc_listen_address="127.0.0.1:0", http_listen_address="127.0.0.1:0", tick_ms=1)
    )
    bound = await server.start()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, str(bound.grpc), stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(60):
            said, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        await server.stop()
    assert (process.returncode, complaints.decode()) == (0, "")
    return said.decode().splitlines()


def answers(invalid: str, unanswerable: str) -> list[str]:
    """What every dispatcher is told, with its library's names for two statuses."""
    return [
        "added 2",
        "due 1:0",
        f"due {2**63 - 1}:{2**32 - 1}",
        "acked 2",
        f"refused {invalid} INVALID_INPUT ledger_ids",
        f"stored {STORED.SerializeToString().hex()}",
        f"refused {unanswerable} LEDGER_SOURCE_NOT_SET ",
    ]


async def test_a_dispatcher_in_go_compiles_and_works():
    """Columns take int64 as they are, refusals carry their reasons, and gRPC's own client of reflection v1 finds what it
    was made from.
    """
    assert await lines_of(dispatcher_of(GO)) == [
        *answers("InvalidArgument", "FailedPrecondition"),
        "service delayed_tracker.v1.DelayedDeliveryTrackerService",
        "service delayed_tracker.v1.LedgerService",
        "service grpc.health.v1.Health",
        "service grpc.reflection.v1.ServerReflection",
        "service grpc.reflection.v1alpha.ServerReflection",
        "reflection is the official one: true",
    ]


async def test_a_dispatcher_in_java_compiles_and_works():
    """Each message is a class of its own in our package, and columns take long."""
    assert await lines_of(dispatcher_of(JAVA)) == answers("INVALID_ARGUMENT", "FAILED_PRECONDITION")
