"""Tests of batches of single adds from many threads."""

import threading
from concurrent.futures import CancelledError, wait

import pytest

from delayed_tracker.client import AddAnswer, AddResult, CallTimedOut, SessionClosed, ThreadNotStarted, Unavailable
from delayed_tracker.client.blocking.add_buffer import AddBuffer
from tests.client.harness.threads import no_new_threads

FOREVER_S = 3_600.0
PATIENCE_S = 30.0


class Sent:
    """Batches that were sent; the test answers each."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.arrived = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.error: BaseException | None = None

    def __call__(self, deliver_at_ms: list[int], ledger_ids: list[int], entry_ids: list[int]) -> AddAnswer:
        self.batches.append(entry_ids)
        self.arrived.set()
        assert self.gate.wait(PATIENCE_S)
        if self.error:
            raise self.error
        return AddAnswer(added_count=len(entry_ids) - 1, due_offsets=(0,))


def buffer(sent: Sent, *, flush_count: int = 3, flush_delay_s: float = FOREVER_S, buffer_max: int = 100) -> AddBuffer:
    return AddBuffer(sent, flush_count=flush_count, flush_delay_s=flush_delay_s, buffer_max=buffer_max)


def test_a_full_batch_leaves_at_once_and_each_add_has_its_outcome():
    """``flush_count`` adds are sent in one call, without waiting for the delay."""
    sent = Sent()
    adds = buffer(sent)
    outcomes = [adds.add(1, 2, entry) for entry in range(3)]
    assert [outcome.result(PATIENCE_S) for outcome in outcomes] == [AddResult.DUE, AddResult.ADDED, AddResult.ADDED]
    assert sent.batches == [[0, 1, 2]]
    adds.close()


def test_a_lone_add_leaves_after_the_delay():
    """A single add does not wait for a full batch."""
    sent = Sent()
    adds = buffer(sent, flush_delay_s=0.0)
    assert adds.add(1, 2, 9).result(PATIENCE_S) is AddResult.DUE
    adds.close()


def test_a_full_buffer_blocks_the_next_add():
    """A caller beyond ``buffer_max`` blocks until one result has arrived."""
    sent = Sent()
    sent.gate.clear()
    adds = buffer(sent, flush_count=2, buffer_max=2)
    adds.add(1, 2, 0)
    adds.add(1, 2, 1)
    assert sent.arrived.wait(PATIENCE_S)
    third = threading.Thread(target=lambda: adds.add(1, 2, 2))
    third.start()
    assert len(adds) == 0
    sent.gate.set()
    third.join(PATIENCE_S)
    assert not third.is_alive()
    adds.close()
    assert sent.batches == [[0, 1], [2]]


@pytest.mark.parametrize(
    "error", [Unavailable("down"), OSError("vault")], ids=["of the service", "of the token function"]
)
def test_a_failed_batch_fails_each_of_its_adds_and_no_later_one(error):
    """The batch after a failed one is sent normally."""
    sent = Sent()
    sent.error = error
    adds = buffer(sent)
    for outcome in [adds.add(1, 2, entry) for entry in range(3)]:
        assert outcome.exception(PATIENCE_S) is error
    sent.error = None
    later = [adds.add(1, 2, entry) for entry in range(3)]
    assert [outcome.result(PATIENCE_S) for outcome in later].count(AddResult.ADDED) == 2
    adds.close()


def test_an_add_that_nobody_waits_for_does_not_leave():
    """A cancelled add is not tracked, and its room is free again."""
    sent = Sent()
    adds = buffer(sent, flush_count=2, buffer_max=2)
    gone = adds.add(1, 2, 1)
    assert gone.cancel()
    kept = [adds.add(1, 2, 2)]
    adds.close()
    wait(kept, PATIENCE_S)
    assert [entry for batch in sent.batches for entry in batch] == [2]
    with pytest.raises(CancelledError):
        gone.result(PATIENCE_S)


def test_an_add_on_its_way_cannot_be_cancelled():
    """An add in flight may be tracked, so it gets its result."""
    sent = Sent()
    sent.gate.clear()
    adds = buffer(sent, flush_count=1)
    outcome = adds.add(1, 2, 1)
    assert sent.arrived.wait(PATIENCE_S)
    assert not outcome.cancel()
    sent.gate.set()
    assert outcome.result(PATIENCE_S) is AddResult.DUE
    adds.close()


def test_close_sends_what_is_buffered_and_refuses_more():
    """``close`` sends every accepted add, and closing twice is harmless."""
    sent = Sent()
    adds = buffer(sent)
    outcomes = [adds.add(1, 2, entry) for entry in range(2)]
    adds.close()
    assert all(outcome.done() for outcome in outcomes)
    with pytest.raises(SessionClosed, match="open the tracker again"):
        adds.add(1, 2, 6)
    adds.close()


@pytest.mark.parametrize(
    ("error", "sent_count"), [(CallTimedOut("no answer"), 1), (Unavailable("away"), 1), (OSError("vault"), 3)], ids=repr
)
def test_the_first_batch_that_fails_in_an_outage_ends_the_close(error, sent_count):
    """The adds behind it are not sent, so closing takes one time limit; after any other error they are."""
    before = set(senders())
    sent = Sent()
    sent.error = error
    sent.gate.clear()
    adds = buffer(sent, flush_count=2)
    outcomes = [adds.add(1, 2, entry) for entry in range(6)]
    assert sent.arrived.wait(PATIENCE_S)
    (sender,) = set(senders()) - before
    join = sender.join

    def join_and_let() -> None:
        sent.gate.set()
        join(PATIENCE_S)

    sender.join = join_and_let  # type: ignore[method-assign]  # the batch in flight fails when the buffer is being closed
    adds.close()
    assert sent.batches == [[0, 1], [2, 3], [4, 5]][:sent_count]
    assert [outcome.exception(0) for outcome in outcomes[: 2 * sent_count]] == [error] * 2 * sent_count
    for outcome in outcomes[2 * sent_count :]:
        with pytest.raises(SessionClosed, match="before this add was sent"):
            outcome.result(0)


def test_many_threads_lose_nothing():
    """Each of 2,000 adds of 20 threads is sent once, within the limits."""
    sent = Sent()
    adds = buffer(sent, flush_count=50, flush_delay_s=0.0, buffer_max=60)
    outcomes: list[AddResult] = []

    def offer(first: int) -> None:
        futures = [adds.add(1, 2, entry) for entry in range(first, first + 100)]
        outcomes.extend(future.result(PATIENCE_S) for future in futures)

    threads = [threading.Thread(target=offer, args=(first,)) for first in range(0, 2_000, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    adds.close()
    assert sorted(entry for batch in sent.batches for entry in batch) == list(range(2_000))
    assert max(map(len, sent.batches)) <= 50
    assert outcomes.count(AddResult.DUE) == len(sent.batches)


def senders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "delayed-tracker add buffer"]


def test_a_thread_that_has_nothing_to_send_ends():
    """The thread of an idle buffer ends, so a dropped buffer leaves none; the next add starts another."""
    before = set(senders())
    adds = AddBuffer(Sent(), flush_count=1, flush_delay_s=0.0, buffer_max=9, idle_s=0.01)
    for _ in range(2):
        assert adds.add(1, 2, 9).result(PATIENCE_S) is AddResult.DUE
        for thread in set(senders()) - before:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_sender_that_died_is_replaced():
    """The adds of a sender that died get an error, and the next add is sent."""
    before = set(senders())
    sent = Sent()
    sent.gate.clear()
    adds = buffer(sent, flush_count=2)
    lost = [adds.add(1, 2, entry) for entry in range(3)]
    assert sent.arrived.wait(PATIENCE_S)
    (dying,) = set(senders()) - before
    sent.error = SystemExit()
    sent.gate.set()
    for outcome, said in zip(lost, ["may be tracked", "may be tracked", "before this add was sent"], strict=True):
        with pytest.raises(SessionClosed, match=said):
            outcome.result(PATIENCE_S)
    dying.join(PATIENCE_S)
    sent.error = None
    later = [adds.add(1, 2, entry) for entry in (3, 4)]
    assert [outcome.result(PATIENCE_S) for outcome in later] == [AddResult.DUE, AddResult.ADDED]
    adds.close()


def test_a_sender_that_cannot_be_started_fails_only_this_add():
    """The add is withdrawn, its room is free again, and a later add starts the sender."""
    sent = Sent()
    adds = buffer(sent, flush_count=1, buffer_max=1)
    for entry in range(2):
        with no_new_threads(), pytest.raises(ThreadNotStarted, match="raise the limit"):
            adds.add(1, 2, entry)
    assert adds.add(1, 2, 2).result(PATIENCE_S) is AddResult.DUE
    adds.close()
    assert sent.batches == [[2]]


def test_a_buffer_whose_sender_never_started_can_be_closed():
    adds = buffer(Sent())
    with no_new_threads(), pytest.raises(ThreadNotStarted):
        adds.add(1, 2, 3)
    adds.close()
