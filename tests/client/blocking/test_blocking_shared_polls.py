"""Tests of shared polls of threads: the calls that they share, and the part of each."""

import threading
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pytest

from delayed_tracker.client import DueMessages, InvalidArgument, ServiceFault, SessionClosed, Unavailable
from delayed_tracker.client.blocking.shared_polls import SharedPolls
from delayed_tracker.client.queues.poll_queue import CALLS_MAX, PollResult, PollTerms, WaitingPoll
from delayed_tracker.core.values.errors import FieldViolation
from tests.client.harness.threads import no_new_threads

HAND_OFF = PollTerms(None, is_hand_off=True)
LEASE = PollTerms(None)
POLLERS = 6


class Due:
    """Service with a number of due entries; its first calls are held until all threads have arrived."""

    def __init__(self, count: int) -> None:
        self.entries = list(range(count))
        self.calls: list[tuple[list[int], int]] = []
        self.given_back: list[int] = []
        self.fault: Callable[[Sequence[int]], None] = lambda _: None
        self.fault_of_giving_back: Exception | None = None
        self.may_go_on = threading.Event()
        self._lock = threading.Lock()
        self._lease_id = 0

    def send(self, shares: Sequence[int], wait_ms: int, terms: PollTerms) -> list[PollResult]:
        with self._lock:
            self.calls.append((list(shares), wait_ms))
        assert self.may_go_on.wait(30)
        self.fault(shares)
        with self._lock:
            return [self._take(share, terms) for share in shares]

    def _take(self, share: int, terms: PollTerms) -> PollResult:
        entries, self.entries = array("q", self.entries[:share]), self.entries[share:]
        self._lease_id += bool(entries)
        next_ms = 5 if self.entries else None
        messages = DueMessages(entries, entries, entries, next_ms, 10, replay_required=False)
        return PollResult(0 if terms.is_hand_off or not entries else self._lease_id, 7, messages, 1)

    def give_back(self, taken: PollResult) -> None:
        self.given_back += taken.messages.entry_ids
        if self.fault_of_giving_back is not None:
            raise self.fault_of_giving_back


def polled(service: Due, count: int, *, terms: PollTerms = LEASE, wait_ms: int = 0) -> "list[Future[PollResult]]":
    """Poll once in each of many threads; the first calls end when all have arrived."""
    polls = SharedPolls(service.send, service.give_back, share_max=100, epoch=lambda: 1)
    put = polls._queue.put
    come = threading.Semaphore(0)

    def put_and_tell(poll):
        put(poll)
        come.release()

    polls._queue.put = put_and_tell  # type: ignore[method-assign]  # the test waits for this call
    with ThreadPoolExecutor(POLLERS) as threads:
        asked = [threads.submit(polls.poll, count, wait_ms, terms) for _ in range(POLLERS)]
        for _ in asked:
            assert come.acquire(timeout=30)
        service.may_go_on.set()
    return asked


def entries_of(asked: "Sequence[Future[PollResult]]") -> list[int]:
    return sorted(entry for poll in asked for entry in poll.result().messages.entry_ids)


@pytest.mark.parametrize("terms", [LEASE, HAND_OFF])
def test_threads_that_poll_at_the_same_time_share_calls(terms):
    """At most two calls are in flight; polls that wait are sent in one call, and each gets its own part."""
    service = Due(50)
    asked = polled(service, 3, terms=terms)
    assert [len(poll.result().messages) for poll in asked] == [3] * POLLERS
    assert entries_of(asked) == list(range(3 * POLLERS))
    lease_ids = {poll.result().lease_id for poll in asked}
    assert len(lease_ids) == (POLLERS if terms is LEASE else 1)
    assert CALLS_MAX < sum(len(shares) for shares, _ in service.calls) == POLLERS
    assert len(service.calls) <= CALLS_MAX + 1
    assert {wait_ms for _, wait_ms in service.calls} == {0}


def test_a_thread_that_got_nothing_waits_alone():
    """Polls that may wait poll again, each alone, and end with nothing because nothing is due."""
    service = Due(4)
    asked = polled(service, 4, wait_ms=60_000)
    assert entries_of(asked) == [0, 1, 2, 3]
    alone = [shares for shares, wait_ms in service.calls if wait_ms]
    assert alone == [[4]] * (POLLERS - 1)


def test_an_error_is_everybodys_of_its_call():
    """Every thread whose poll was in the failed call gets its error."""
    service = Due(50)

    def away(shares: Sequence[int]) -> None:
        raise Unavailable("away")

    service.fault = away
    for poll in polled(service, 3):
        with pytest.raises(Unavailable, match="away"):
            poll.result()


def at_most_four(shares: Sequence[int]) -> None:
    if sum(shares) > 4:
        raise InvalidArgument("too much", violations=[FieldViolation("max_messages", "give 1 to 4")])


def test_polls_refused_together_are_asked_for_apart():
    """Polls are sent separately if the service's limit is lower than the client's."""
    service = Due(50)

    service.fault = at_most_four
    assert entries_of(polled(service, 3)) == list(range(3 * POLLERS))
    assert any(len(shares) > 1 for shares, _ in service.calls)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("fault", [None, Unavailable("away"), OSError("vault")], ids=repr)
@pytest.mark.parametrize(("terms", "given_back", "kept"), [(LEASE, [0, 1, 2], None), (HAND_OFF, [], [0, 1, 2])])
def test_what_came_for_a_poll_given_up_is_not_lost(terms, given_back, kept, fault, end):
    """After an interrupt or an exit, leased positions are given back, and handed-off positions go to the next poll.

    Whatever becomes of the call that gives back, the program gets its interrupt.
    """
    service = Due(3)
    service.fault_of_giving_back = fault
    polls = SharedPolls(service.send, service.give_back, share_max=100, epoch=lambda: 1)

    class Interrupted(Future):  # type: ignore[type-arg]
        def result(self, timeout=None):
            if not service.may_go_on.is_set():
                service.may_go_on.set()
                super().result(30)
                raise end
            return super().result(timeout)

    with pytest.raises(end):
        polls._share(_put(polls, Interrupted(), terms), terms)
    assert service.given_back == given_back
    left = polls._queue.kept(10, epoch=1)
    assert (None if left is None else list(left.messages.entry_ids)) == kept


def _put(polls, outcome, terms):
    polls._queue.put(WaitingPoll(3, may_wait=False, terms=terms, outcome=outcome))
    polls._callers.submit(polls._call)
    return outcome


def test_a_poll_without_a_thread_makes_its_own_call():
    """It takes its positions once, and leaves nothing for the threads of a later poll."""
    service = Due(5)
    service.may_go_on.set()
    polls = SharedPolls(service.send, service.give_back, share_max=100, epoch=lambda: 1)
    with no_new_threads():
        assert list(polls.poll(2, 9, LEASE).messages.entry_ids) == [0, 1]
    assert list(polls.poll(2, 0, LEASE).messages.entry_ids) == [2, 3]
    assert service.calls == [([2], 9), ([2], 0)]


def test_polls_refused_together_are_answered_by_the_thread_that_there_is():
    """None of them waits forever for a thread that cannot be started."""
    service = Due(50)
    service.may_go_on.set()
    service.fault = at_most_four
    polls = SharedPolls(service.send, service.give_back, share_max=100, epoch=lambda: 1)
    outcomes: list[Future[PollResult]] = [Future(), Future()]
    for outcome in outcomes:
        polls._queue.put(WaitingPoll(3, may_wait=False, terms=LEASE, outcome=outcome))
    with no_new_threads():
        polls._call()
    assert entries_of(outcomes) == list(range(6))


def test_a_poll_without_a_thread_that_another_thread_has_answered():
    """The answer is the poll's, although its own thread could not be started; there is no second call."""
    service = Due(5)
    service.may_go_on.set()
    polls = SharedPolls(service.send, service.give_back, share_max=100, epoch=lambda: 1)
    polls._queue.answered(DueMessages([], [], [], 5, 10, replay_required=False))

    def answer_and_refuse(call: Callable[[], None]) -> None:
        call()
        raise RuntimeError("can't start new thread")

    polls._callers.submit = answer_and_refuse  # type: ignore[assignment]  # as if another thread had been quicker
    assert list(polls.poll(2, 0, LEASE).messages.entry_ids) == [0, 1]
    assert service.calls == [([2], 0)]


@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt()], ids=repr)
def test_an_exit_in_a_shared_call_ends_all_its_polls(error):
    """A token function that ends the program leaves no thread waiting."""
    service = Due(50)

    def leave(shares: Sequence[int]) -> None:
        raise error

    service.fault = leave
    for poll in polled(service, 3):
        with pytest.raises(SessionClosed, match="while this poll was in flight"):
            poll.result()


def test_an_answer_that_cannot_be_divided_ends_all_its_polls():
    """No thread waits forever for a part that does not come."""
    service = Due(50)
    service.may_go_on.set()
    polls = SharedPolls(lambda *_: service.send([3], 0, LEASE), service.give_back, share_max=100, epoch=lambda: 1)
    outcomes: list[Future[PollResult]] = [Future(), Future()]
    for outcome in outcomes:
        polls._queue.put(WaitingPoll(3, may_wait=False, terms=LEASE, outcome=outcome))
    with suppress(ValueError):
        polls._call()
    assert all(outcome.done() for outcome in outcomes)
    with pytest.raises(ValueError, match="shorter"):
        outcomes[1].result()


def test_more_leases_than_polls_are_the_services_fault():
    """The answer is divided among the polls of its call, and the error names both numbers."""
    service = Due(6)
    service.may_go_on.set()
    (taken,) = service.send([6], 0, LEASE)
    assert [len(part.messages) for part in taken.divided([3, 3], [(1, 3), (2, 3)])] == [3, 3]
    with pytest.raises(ServiceFault, match="3 leases to 2 polls"):
        taken.divided([3, 3], [(1, 2), (2, 2), (3, 2)])
