"""Tests of batches of single adds."""

import asyncio

import pytest

from delayed_tracker.client import AddAnswer, AddResult, CallTimedOut, SessionClosed, Unavailable
from delayed_tracker.client.aio.add_buffer import AddBuffer

FOREVER_S = 3_600.0


class Sent:
    """Batches that were sent; the test answers each."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.arrived = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer = AddAnswer(added_count=0)
        self.error: BaseException | None = None

    async def __call__(self, deliver_at_ms: list[int], ledger_ids: list[int], entry_ids: list[int]) -> AddAnswer:
        self.batches.append(entry_ids)
        self.arrived.set()
        await self.gate.wait()
        if self.error:
            raise self.error
        return self.answer


def buffer(sent: Sent, *, flush_count: int = 3, flush_delay_s: float = FOREVER_S, buffer_max: int = 100) -> AddBuffer:
    return AddBuffer(sent, flush_count=flush_count, flush_delay_s=flush_delay_s, buffer_max=buffer_max)


async def test_a_full_batch_leaves_at_once():
    """``flush_count`` adds are sent in one call, without waiting for the delay."""
    sent = Sent()
    adds = buffer(sent)
    results = await asyncio.gather(*(adds.add(1, 2, entry) for entry in range(3)))
    assert sent.batches == [[0, 1, 2]]
    assert results == [AddResult.ADDED] * 3
    await adds.close()


async def test_a_lone_add_leaves_after_the_delay():
    """A single add does not wait for a full batch."""
    sent = Sent()
    adds = buffer(sent, flush_delay_s=0.0)
    assert await adds.add(1, 2, 9) is AddResult.ADDED
    assert sent.batches == [[9]]
    await adds.close()


async def test_each_add_gets_its_own_outcome():
    """The offsets in the batch's answer become the results of the callers."""
    sent = Sent()
    sent.answer = AddAnswer(
        added_count=1, due_offsets=(0,), duplicate_offsets=(2,), beyond_max_delay_offsets=(3,),
        below_mark_delete_offsets=(4,),
    )  # fmt: skip
    adds = buffer(sent, flush_count=5)
    assert await asyncio.gather(*(adds.add(1, 2, entry) for entry in range(5))) == [
        AddResult.DUE,
        AddResult.ADDED,
        AddResult.DUPLICATE,
        AddResult.BEYOND_MAX_DELAY,
        AddResult.BELOW_MARK_DELETE,
    ]
    await adds.close()


@pytest.mark.parametrize(
    "error", [Unavailable("down"), OSError("vault")], ids=["of the service", "of the token function"]
)
async def test_a_failed_batch_fails_each_of_its_adds_and_no_later_one(error):
    """The batch after a failed one is sent normally."""
    sent = Sent()
    sent.error = error
    adds = buffer(sent)
    outcomes = await asyncio.gather(*(adds.add(1, 2, entry) for entry in range(3)), return_exceptions=True)
    assert outcomes == [error] * 3
    sent.error = None
    assert await asyncio.gather(*(adds.add(1, 2, entry) for entry in range(3))) == [AddResult.ADDED] * 3
    await adds.close()


async def test_adds_gather_while_a_batch_is_on_its_way():
    """One batch is in flight at a time, in order; later adds wait and are sent together."""
    sent = Sent()
    sent.gate.clear()
    adds = buffer(sent, flush_count=2)
    tasks = [asyncio.create_task(adds.add(1, 2, entry)) for entry in range(4)]
    await sent.arrived.wait()
    assert sent.batches == [[0, 1]]
    assert len(adds) == 2
    sent.gate.set()
    await asyncio.gather(*tasks)
    assert sent.batches == [[0, 1], [2, 3]]
    await adds.close()


async def test_a_full_buffer_makes_the_next_add_wait():
    """An add beyond ``buffer_max`` is not buffered until there is room."""
    sent = Sent()
    sent.gate.clear()
    adds = buffer(sent, flush_count=2, buffer_max=2)
    tasks = [asyncio.create_task(adds.add(1, 2, entry)) for entry in range(4)]
    await sent.arrived.wait()
    assert len(adds) == 0
    sent.gate.set()
    await asyncio.gather(*tasks)
    assert sent.batches == [[0, 1], [2, 3]]
    await adds.close()


async def test_an_add_that_nobody_waits_for_does_not_leave():
    """A cancelled add is not tracked if it was still in the buffer."""
    sent = Sent()
    adds = buffer(sent, flush_count=2)
    gone = asyncio.create_task(adds.add(1, 2, 1))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await asyncio.gather(adds.add(1, 2, 2), adds.add(1, 2, 3), adds.close())
    assert [entry for batch in sent.batches for entry in batch] == [2, 3]


async def test_close_sends_what_is_buffered_and_refuses_more():
    """``close`` sends every accepted add."""
    sent = Sent()
    adds = buffer(sent)
    waiting = asyncio.create_task(adds.add(1, 2, 5))
    await asyncio.sleep(0)
    await adds.close()
    assert await waiting is AddResult.ADDED
    with pytest.raises(SessionClosed, match="open the tracker again"):
        await adds.add(1, 2, 6)
    await adds.close()


@pytest.mark.parametrize(
    ("error", "sent_count"), [(CallTimedOut("no answer"), 1), (Unavailable("away"), 1), (OSError("vault"), 3)], ids=repr
)
async def test_the_first_batch_that_fails_in_an_outage_ends_the_close(error, sent_count):
    """The adds behind it are not sent, so closing takes one time limit; after any other error they are."""
    sent = Sent()
    sent.gate.clear()
    adds = buffer(sent, flush_count=2)
    tasks = [asyncio.create_task(adds.add(1, 2, entry)) for entry in range(6)]
    await sent.arrived.wait()
    closing = asyncio.create_task(adds.close())
    await asyncio.sleep(0)
    sent.error = error
    sent.gate.set()
    await closing
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert sent.batches == [[0, 1], [2, 3], [4, 5]][:sent_count]
    assert outcomes[: 2 * sent_count] == [error] * 2 * sent_count
    for outcome in outcomes[2 * sent_count :]:
        assert isinstance(outcome, SessionClosed)
        assert "before this add was sent" in str(outcome)


async def test_a_buffer_that_has_nothing_to_send_has_no_task():
    """A buffer without adds has no task, so it can be dropped without a warning; the next add starts another task."""
    adds = buffer(Sent(), flush_delay_s=0.0)
    for _ in range(2):
        assert await adds.add(1, 2, 9) is AddResult.ADDED
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_sender_that_died_is_replaced():
    """The adds of a sender that was cancelled get an error, and the next add is sent."""
    sent = Sent()
    sent.gate.clear()
    adds = buffer(sent, flush_count=2)
    lost = [asyncio.create_task(adds.add(1, 2, entry)) for entry in range(3)]
    await sent.arrived.wait()
    sent.error = asyncio.CancelledError()
    sent.gate.set()
    on_its_way, _, buffered = await asyncio.gather(*lost, return_exceptions=True)
    assert isinstance(on_its_way, SessionClosed)
    assert "may be tracked" in str(on_its_way)
    assert isinstance(buffered, SessionClosed)
    assert "before this add was sent" in str(buffered)
    sent.error = None
    assert await asyncio.gather(adds.add(1, 2, 3), adds.add(1, 2, 4)) == [AddResult.ADDED] * 2
    await adds.close()
