"""Tests of callbacks of the futures of ``add_soon``: they run in the thread that sends the buffered adds."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from delayed_tracker.client import AddAnswer, AddResult, ClientSettings, WrongThread
from delayed_tracker.client.blocking import DelayedTrackerClient, TrackerSession
from delayed_tracker.client.blocking.add_buffer import AddBuffer
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import scripted_service_of_threads

PATIENCE_S = 10.0
FOREVER_S = 3_600.0


@pytest.fixture
def session() -> Iterator[TrackerSession]:
    with scripted_service_of_threads() as service:
        service.on("AddMessages", pb.AddMessagesResponse(added_count=1))
        service.on("CloseTracker", pb.CloseTrackerResponse())
        # Nothing is sent before the second add, so a callback of the first is set in time.
        settings = ClientSettings(flush_count=2, flush_delay_s=FOREVER_S)
        with DelayedTrackerClient.connect(service.address, settings=settings) as client:
            # Not as a block, whose end would wait for a callback that hangs.
            yield client.open_tracker(TOPIC, "billing")


def called_back(session: TrackerSession, call: Callable[[], object]) -> object:
    """Return what a call returns, or the error that it raises, in a callback of an add."""
    outcome: Future[object] = Future()

    def call_and_tell(_: object) -> None:
        try:
            outcome.set_result(call())
        except Exception as error:  # noqa: BLE001  # returned
            outcome.set_result(error)

    session.add_soon(1, 7, 0).add_done_callback(call_and_tell)
    session.add_soon(1, 7, 1)
    return outcome.result(PATIENCE_S)


@pytest.mark.parametrize("call", ["add", "leave", "close", "delete"])
def test_a_call_that_would_wait_for_its_own_thread_is_refused(session, call):
    """It fails at once and changes nothing: the session goes on, and ends in another thread."""
    made = (lambda: session.add(1, 7, 2)) if call == "add" else getattr(session, call)
    refused = called_back(session, made)
    assert isinstance(refused, WrongThread)
    assert "another thread" in str(refused)
    later = [session.add_soon(1, 7, entry) for entry in (3, 4)]
    assert [outcome.result(PATIENCE_S) for outcome in later] == [AddResult.ADDED] * 2
    session.close()


def test_a_callback_adds_more(session):
    """``add_soon`` works there, and its own result arrives."""
    again = called_back(session, lambda: session.add_soon(1, 7, 2))
    session.close()
    assert isinstance(again, Future)
    assert again.result(PATIENCE_S) is AddResult.ADDED


def test_a_callback_does_not_wait_for_room():
    """It adds beyond ``buffer_max``, because the thread that would make room runs it; the bound holds again after that."""
    may_answer = threading.Event()
    sent = []

    def send(deliver_at_ms: list[int], ledger_ids: list[int], entry_ids: list[int]) -> AddAnswer:
        assert may_answer.wait(PATIENCE_S)
        sent.append(entry_ids)
        return AddAnswer(added_count=len(entry_ids))

    adds = AddBuffer(send, flush_count=2, flush_delay_s=0.0, buffer_max=2)
    more: list[Future[AddResult]] = []
    first, second = adds.add(1, 2, 0), adds.add(1, 2, 1)
    first.add_done_callback(lambda _: more.extend(adds.add(1, 2, entry) for entry in (2, 3, 4)))
    may_answer.set()
    assert second.result(PATIENCE_S) is AddResult.ADDED
    assert [outcome.result(PATIENCE_S) for outcome in more] == [AddResult.ADDED] * 3
    adds.close()
    assert [entry for batch in sent for entry in batch] == [0, 1, 2, 3, 4]
    assert [adds._room.acquire(blocking=False) for _ in range(3)] == [True, True, False]
