"""Tests of the threads that work for an event loop: order, cancellation, errors, and the wake-ups that they cost."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.worker_threads import WorkerThreads
from tests.client.harness.threads import no_new_threads


@pytest.fixture
def one() -> Iterator[WorkerThreads]:
    threads = WorkerThreads(1, "worker")
    yield threads
    threads.shutdown()


@pytest.fixture
def held(one: WorkerThreads) -> Iterator[threading.Event]:
    """Hold the only thread until the event is set."""
    event = threading.Event()
    yield event
    event.set()


async def test_functions_run_in_their_order_in_threads_of_that_name(one: WorkerThreads):
    ran: list[int] = []
    futures = [one.submit(lambda number=number: ran.append(number)) for number in range(20)]
    assert await asyncio.gather(*futures) == [None] * 20
    assert ran == list(range(20))
    assert await one.submit(lambda: threading.current_thread().name) == "worker_0"


async def test_an_error_goes_to_who_waits_and_the_thread_goes_on(one: WorkerThreads):
    def fail() -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        await one.submit(fail)
    assert await one.submit(lambda: 7) == 7


@pytest.mark.parametrize("runs_anyway", [True, False])
async def test_a_cancelled_function_runs_if_it_must(one: WorkerThreads, held: threading.Event, runs_anyway: bool):
    """One that has begun ends in any case."""
    ran: list[str] = []
    begun = threading.Event()

    def begin() -> None:
        begun.set()
        held.wait()
        ran.append("begun")

    first = one.submit(begin)
    second = one.submit(lambda: ran.append("waiting"), runs_anyway=runs_anyway)
    await asyncio.to_thread(begun.wait)
    first.cancel()
    second.cancel()
    held.set()
    await one.submit(lambda: None)
    assert ran == (["begun", "waiting"] if runs_anyway else ["begun"])
    assert first.cancelled()


async def test_outcomes_that_come_together_wake_the_loop_once(
    one: WorkerThreads, held: threading.Event, monkeypatch: pytest.MonkeyPatch
):
    loop = asyncio.get_running_loop()
    wake_ups = 0
    call_soon_threadsafe = loop.call_soon_threadsafe

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal wake_ups
        wake_ups += 1
        return call_soon_threadsafe(*args, **kwargs)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    futures = [one.submit(held.wait), *(one.submit(lambda number=number: number) for number in range(50))]
    done = threading.Event()
    last = one.submit(done.set)
    held.set()
    done.wait()  # the loop is busy meanwhile
    assert await asyncio.gather(*futures) == [True, *range(50)]
    await last
    assert wake_ups <= 2


async def test_several_threads_work_at_a_time():
    threads = WorkerThreads(3, "workers")
    meeting = threading.Barrier(3, timeout=60)
    assert sorted(await asyncio.gather(*(threads.submit(meeting.wait) for _ in range(3)))) == [0, 1, 2]
    await asyncio.to_thread(threads.shutdown)


async def test_threads_that_cannot_be_started():
    """Without any thread the function is refused; with fewer than allowed these do the work; then more are started."""
    threads = WorkerThreads(2, "workers")
    with no_new_threads(), pytest.raises(StorageUnavailable, match=r"'workers_0' could be started: .*raise that limit"):
        threads.submit(lambda: 1)
    assert await threads.submit(lambda: 2) == 2
    with no_new_threads():
        assert await threads.submit(lambda: 3) == 3
    meeting = threading.Barrier(2, timeout=60)
    assert sorted(await asyncio.gather(*(threads.submit(meeting.wait) for _ in range(2)))) == [0, 1]
    await asyncio.to_thread(threads.shutdown)


def test_each_loop_gets_its_own_outcomes():
    threads = WorkerThreads(1, "worker")
    for number in range(3):

        async def ask(number: int = number) -> int:
            return await threads.submit(lambda: number)

        assert asyncio.run(ask()) == number
    threads.shutdown()


def test_a_loop_that_was_closed_ends_no_thread():
    """Functions that must run do so, and later loops are served."""
    threads = WorkerThreads(1, "worker")
    held, ran = threading.Event(), threading.Event()

    async def leave() -> None:
        threads.submit(held.wait)
        threads.submit(ran.set, runs_anyway=True)

    asyncio.run(leave())
    held.set()
    assert ran.wait(60)

    async def ask() -> int:
        return await threads.submit(lambda: 7)

    assert asyncio.run(ask()) == 7
    threads.shutdown()


async def test_a_shutdown_finishes_what_was_given():
    threads = WorkerThreads(1, "worker")
    futures = [threads.submit(lambda number=number: number) for number in range(100)]
    await asyncio.to_thread(threads.shutdown)
    assert await asyncio.gather(*futures) == list(range(100))
