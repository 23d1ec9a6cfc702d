"""Tests of shared acks of threads: the calls that they share, and the result of each."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from delayed_tracker.client import AckAnswer, Fenced, InvalidArgument, SessionClosed, ThreadNotStarted, Unavailable
from delayed_tracker.client.blocking.shared_acks import SharedAcks
from delayed_tracker.client.queues.ack_queue import AckOutcome, LeaseAck, WaitingAck
from delayed_tracker.client.queues.poll_queue import CALLS_MAX
from delayed_tracker.core.values.errors import InvalidInput
from tests.client.harness.leasing_service import LeasingService, columns
from tests.client.harness.threads import no_new_threads

THREADS = 6


class Gated(LeasingService):
    """Service that holds its calls until all threads have arrived."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.may_go_on = threading.Event()
        self.fault: Callable[[Sequence[LeaseAck]], None] = lambda _: None
        self.shared: list[int] = []
        self.acks = SharedAcks(self.send_gated, batch_max=lambda: 100)
        self._one_at_a_time = threading.Lock()

    def send_gated(self, acks: Sequence[LeaseAck]) -> list[AckOutcome]:
        self.shared.append(len(acks))
        assert self.may_go_on.wait(30)
        self.fault(acks)
        with self._one_at_a_time:
            return self.send(acks)


def acknowledged(service: Gated, acks: Sequence[LeaseAck]) -> "list[Future[AckAnswer]]":
    """Acknowledge with one thread for each ack; the first calls end when all have arrived."""
    put = service.acks._queue.put
    come = threading.Semaphore(0)

    def put_and_tell(ack: "WaitingAck[Future[AckAnswer]]") -> None:
        put(ack)
        come.release()

    service.acks._queue.put = put_and_tell  # type: ignore[method-assign]  # the test waits for this call
    with ThreadPoolExecutor(len(acks)) as threads:
        asked = [threads.submit(service.acks.ack, ack) for ack in acks]
        for _ in asked:
            assert come.acquire(timeout=30)
        service.may_go_on.set()
    return asked


def test_threads_that_acknowledge_at_the_same_time_share_calls():
    """At most two calls are in flight; acks that wait are sent in one call, and each gets its own answer."""
    service = Gated(30)
    asked = acknowledged(service, [service.whole(count) for count in range(1, THREADS + 1)])
    assert [ack.result().acked_count for ack in asked] == list(range(1, THREADS + 1))
    assert CALLS_MAX < sum(service.shared) == THREADS
    assert len(service.shared) <= CALLS_MAX + 1


def test_an_unknown_lease_fails_only_its_own_ack():
    """Acks that share a call with a bad one are answered normally."""
    service = Gated(30)
    acks = [service.whole(2) for _ in range(THREADS)]
    asked = acknowledged(service, [*acks, service.rules.ack(99, [1], [1])])
    assert [ack.result().acked_count for ack in asked[:-1]] == [2] * THREADS
    with pytest.raises(InvalidArgument, match="99"):
        asked[-1].result()


def test_acks_of_two_epochs_share_no_call():
    """Acks of two epochs need several calls, and every ack is answered."""
    service = Gated(30)
    acks = [service.whole(2) for _ in range(2 * THREADS)]
    of_two_epochs = [replace(ack, epoch=7 + number % 2) for number, ack in enumerate(acks)]
    asked = acknowledged(service, of_two_epochs)
    assert [ack.result().acked_count for ack in asked[::2]] == [2] * THREADS
    for ack in asked[1::2]:
        with pytest.raises(Fenced):
            ack.result()


@pytest.mark.parametrize("error", [Unavailable("away"), ZeroDivisionError("a bug")])
def test_an_error_is_everybodys_of_its_call(error):
    """Every thread whose ack was in the failed call gets its error."""
    service = Gated(30)

    def fail(acks: Sequence[LeaseAck]) -> None:
        raise error

    service.fault = fail
    for ack in acknowledged(service, [service.whole(2) for _ in range(THREADS)]):
        with pytest.raises(type(error)):
            ack.result()


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_a_thread_interrupted_before_its_ack_left_takes_it_back(monkeypatch, end):
    """The interrupted thread's ack is dropped, and the acks of the next call are answered."""
    service = Gated(30)

    class Interrupted(Future):  # type: ignore[type-arg]
        def result(self, timeout=None):
            raise end

    busy = [Future() for _ in range(CALLS_MAX)]
    for each in busy:
        service.acks._callers.submit(lambda each=each: each.set_result(service.may_go_on.wait(30)))
    with monkeypatch.context() as patched:
        patched.setattr("delayed_tracker.client.blocking.shared_acks.Future", Interrupted)
        with pytest.raises(end):
            service.acks.ack(service.whole(5))
    service.may_go_on.set()
    assert all(each.result(30) for each in busy)
    assert service.acks.ack(service.whole(3)) == AckAnswer(3)
    assert [[ack.held_count for ack in call.leases] for call in service.calls] == [[3]]


def test_an_ack_without_a_thread_is_withdrawn():
    """Only the later ack, which got its thread, is sent."""
    service = Gated(30)
    service.may_go_on.set()
    with no_new_threads(), pytest.raises(ThreadNotStarted):
        service.acks.ack(service.whole(2))
    assert service.acks.ack(service.whole(3)).acked_count == 3
    assert service.shared == [1]


def test_an_ack_without_a_thread_that_another_thread_has_sent():
    """The answer is the ack's, although its own thread could not be started."""
    service = Gated(30)
    service.may_go_on.set()

    def send_and_refuse(call: Callable[[], None]) -> None:
        call()
        raise RuntimeError("can't start new thread")

    service.acks._callers.submit = send_and_refuse  # type: ignore[assignment]  # as if another thread had been quicker
    assert service.acks.ack(service.whole(2)).acked_count == 2


@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt()], ids=repr)
def test_an_exit_in_a_shared_call_ends_all_its_acks(error):
    """A token function that ends the program leaves no thread waiting."""
    service = Gated(30)

    def leave(acks: Sequence[LeaseAck]) -> None:
        raise error

    service.fault = leave
    for ack in acknowledged(service, [service.whole(2) for _ in range(THREADS)]):
        with pytest.raises(SessionClosed, match="while this ack was in flight"):
            ack.result()


def test_columns_that_cannot_be_sent_fail_their_own_ack_alone():
    """Two leases hold another number of positions than expected, and only one of them has positions to send."""
    service = Gated(30)
    good_id, good = service.lease(3)
    bad_id, _ = service.lease(3)
    acks = [service.rules.ack_whole(good_id, *columns(good[:2])), service.rules.ack_whole(bad_id, [-1, 1], [1, 2])]
    answered, refused = service.send(acks)
    assert isinstance(answered, AckAnswer)
    assert answered.acked_count == 2
    assert isinstance(refused, InvalidInput)
    assert "-1" in refused.message
