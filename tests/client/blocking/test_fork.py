"""Tests of a blocking client that a fork brought into another process, where neither channel nor threads run.

The process forks in none of these tests: gRPC's threads of the test's own service would not outlive it either.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from delayed_tracker.client import AddResult, WrongProcess
from delayed_tracker.client.blocking import DelayedTrackerClient
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import scripted_service_of_threads


@contextmanager
def in_a_child() -> Iterator[None]:
    """Let this process have another number in the block, as after a fork."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 0)
        yield


def test_a_client_of_the_parent_is_refused_in_the_child():
    """Every call names the remedy instead of waiting for threads that do not run; the child cannot close it, either."""
    with scripted_service_of_threads() as service:
        service.on("AddMessages", pb.AddMessagesResponse(added_count=1))
        with (
            DelayedTrackerClient.connect(service.address) as client,
            client.open_tracker(TOPIC, "billing") as session,
        ):
            calls = {
                "ack": lambda: session.ack(1, [7], [0]),
                "poll": lambda: session.poll(1),
                "poll_hand_off": lambda: session.poll_hand_off(1),
                "add": lambda: session.add(1, 7, 0),
                "add_soon": lambda: session.add_soon(1, 7, 0),
                "add_columns": lambda: session.add_columns([1], [7], [0]),
                "add_stream": lambda: list(session.add_stream([])),
                "nack": lambda: session.nack(1, [7], [0]),
                "close": session.close,
                "stats": session.stats,
                "open_tracker": lambda: client.open_tracker(TOPIC, "billing"),
            }
            with in_a_child():
                for call in calls.values():
                    with pytest.raises(WrongProcess, match="connect, and open the tracker, in this process"):
                        call()
                client.__exit__(None, None, None)
            assert session.add(1, 7, 0) is AddResult.ADDED
