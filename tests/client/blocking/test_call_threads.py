"""Tests of the threads that make the shared calls of a session."""

import threading
from concurrent.futures import Future

import pytest

from delayed_tracker.client.blocking import DelayedTrackerClient
from delayed_tracker.client.blocking.call_threads import CallThreads
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import scripted_service_of_threads
from tests.client.harness.threads import no_new_threads


def running(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def ran(threads: CallThreads) -> threading.Thread:
    """Run a task, and return its thread."""
    outcome: Future[threading.Thread] = Future()
    threads.submit(lambda: outcome.set_result(threading.current_thread()))
    return outcome.result(30)


def test_a_thread_ends_when_it_is_idle_and_another_starts_with_the_next_task():
    """A session that polled or acknowledged once keeps no thread."""
    threads = CallThreads(2, name="short-lived", idle_s=0.01)
    first = ran(threads)
    first.join(30)
    assert running("short-lived") == []
    assert ran(threads) is not first


def test_an_idle_thread_takes_the_next_task():
    """One task after the other needs one thread."""
    threads = CallThreads(2, name="reused", idle_s=30)
    first = ran(threads)
    while not threads._idle_count:
        pass
    assert ran(threads) is first


def test_no_more_threads_than_the_bound_and_no_task_is_left():
    """Tasks beyond the bound wait for a thread that is at work, even if no other could be started."""
    threads = CallThreads(2, name="bounded", idle_s=0.01)
    may_go_on, done = threading.Event(), threading.Semaphore(0)

    def task() -> None:
        assert may_go_on.wait(30)
        done.release()

    threads.submit(task)
    with no_new_threads():
        threads.submit(task)
    for _ in range(5):
        threads.submit(task)
    assert len(running("bounded")) == 2
    may_go_on.set()
    for _ in range(7):
        assert done.acquire(timeout=30)


def test_without_any_thread_a_task_is_refused():
    """It is not run later, either."""
    threads = CallThreads(2, name="refused", idle_s=0.01)
    run: list[str] = []
    with no_new_threads(), pytest.raises(RuntimeError):
        threads.submit(lambda: run.append("refused"))
    ran(threads).join(30)
    assert run == []


def test_a_session_that_rests_keeps_no_thread():
    """A program may have thousands of sessions: the threads of their shared polls and acks end."""
    before = set(threading.enumerate())
    with scripted_service_of_threads() as service:
        service.on("PollScheduledMessages", pb.PollScheduledMessagesResponse())
        service.on("AckMessages", pb.AckMessagesResponse(acked_count=1))
        with (
            DelayedTrackerClient.connect(service.address) as client,
            client.open_tracker(TOPIC, "billing") as session,
        ):
            session._polls._callers._idle_s = session._acks._callers._idle_s = 0.01
            session.poll(1)
            session.ack(1, [7], [0])
            for thread in [each for each in set(threading.enumerate()) - before if "delayed-tracker" in each.name]:
                thread.join(10)
                assert not thread.is_alive()
