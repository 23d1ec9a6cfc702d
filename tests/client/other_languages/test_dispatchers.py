"""Tests of the API from other languages: generated stubs compile, and a dispatcher that uses them works."""

import asyncio
import os

import pytest

from delayed_tracker.service.server import TrackerServer
from delayed_tracker.snapshot.v1 import snapshot_pb2
from tests.client.other_languages.dispatchers import GO, JAVA, Language, NoDispatcher
from tests.service.harness.settings import settings_of

STORED = snapshot_pb2.SnapshotSegment(indexes=[snapshot_pb2.DelayedIndex(timestamp=1, ledger_id=2, entry_id=3)])

pytestmark = pytest.mark.long


def dispatcher_of(language: Language) -> list[str]:
    """Return the dispatcher's command; skip the test if it is not compiled (CI has compiled it, or has failed)."""
    try:
        return language.dispatcher()
    except NoDispatcher as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


async def lines_of(command: list[str]) -> list[str]:
    """Return the lines that a dispatcher prints with a service of its own."""
    server = TrackerServer(
        settings_of(
            storage_url="memory:", grpc_listen_address="127.0.0.1:0", http_listen_address="127.0.0.1:0", tick_ms=1
        )
    )
    bound = await server.start()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, str(bound.grpc), stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(100):
            said, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        await server.stop()
    assert (process.returncode, complaints.decode()) == (0, "")
    return said.decode().splitlines()


def answers(invalid: str, unanswerable: str) -> list[str]:
    """Return the answers that every dispatcher gets, with its library's names of two statuses."""
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
    """A dispatcher in Go sends int64 columns, gets the reasons of refusals, and finds its API by reflection v1."""
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
    """A dispatcher in Java has one class for each message, in the project's package, and sends long columns."""
    assert await lines_of(dispatcher_of(JAVA)) == answers("INVALID_ARGUMENT", "FAILED_PRECONDITION")
