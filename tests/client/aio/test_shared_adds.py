"""Tests of shared adds: the calls that batches share, and the answer of each batch."""

import asyncio
from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.client import AddAnswer, DelayedTrackerClient, Position, SessionClosed, Unavailable
from delayed_tracker.client.aio.shared_adds import CALLS_MAX, PackedIndexes, SharedAdds
from delayed_tracker.client.queues.batching import parts_of
from delayed_tracker.client.rules.session import Claim
from delayed_tracker.wire.columns import int_column, pack
from tests.service.harness.shell import KEY, running_service


class Sent:
    """Calls that were sent, by their entries; the test answers each."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.claims: list[Claim | None] = []
        self.in_flight: list[asyncio.Future[AddAnswer]] = []

    def __call__(self, columns: PackedIndexes, count: int, claim: Claim | None) -> "asyncio.Future[AddAnswer]":
        deadlines, ledgers, entries = map(int_column, columns)
        assert deadlines == ledgers == array("q", [entry + 1 for entry in entries])
        assert len(entries) == count
        self.calls.append(list(entries))
        self.claims.append(claim)
        self.in_flight.append(asyncio.get_running_loop().create_future())
        return self.in_flight[-1]

    async def answer(self, call: int, **offsets: tuple[int, ...]) -> None:
        self.in_flight[call].set_result(AddAnswer(added_count=0, **offsets))
        await turns()


async def turns() -> None:
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def begin(adds: SharedAdds, *batches: list[int]) -> list["asyncio.Task[AddAnswer]"]:
    """Add batches of these entries at the same time."""

    def add(entries: list[int]) -> "asyncio.Task[AddAnswer]":
        above = pack("x", [entry + 1 for entry in entries])
        return asyncio.create_task(adds.add((above, above, pack("x", entries)), len(entries)))

    tasks = [add(entries) for entries in batches]
    await turns()
    return tasks


def shared(sent: Sent, batch_max: int = 100, second_call_min: int = 1_000) -> SharedAdds:
    return SharedAdds(sent, batch_max=lambda: batch_max, second_call_min=second_call_min)


async def test_batches_that_wait_leave_together_in_their_order():
    """Batches that wait while a call is in flight are sent in one call, and each has its own answer."""
    sent = Sent()
    first, second, third, fourth, fifth = await begin(shared(sent), [1], [2], [3, 4], [], [5, 6, 7])
    assert sent.calls == [[1]]
    await sent.answer(0)
    assert first.done()
    assert not second.done()
    assert sent.calls == [[1], [2, 3, 4, 5, 6, 7]]
    await sent.answer(1, due_offsets=(2,), duplicate_offsets=(3, 5), beyond_max_delay_offsets=(4,))
    assert second.result() == AddAnswer(added_count=1)
    assert third.result() == AddAnswer(added_count=1, due_offsets=(1,))
    assert fourth.result() == AddAnswer(added_count=0)
    assert fifth.result() == AddAnswer(added_count=0, duplicate_offsets=(0, 2), beyond_max_delay_offsets=(1,))


async def test_callers_that_add_again_share_the_next_call():
    """Callers that a call has answered may add at once: they need not wait for the call after the next."""
    sent = Sent()
    adds = shared(sent)

    async def add_three_times(first: int) -> None:
        for entry in range(first, first + 3):
            above = pack("x", [entry + 1])
            await adds.add((above, above, pack("x", [entry])), 1)

    callers = [asyncio.create_task(add_three_times(first)) for first in (10, 20, 30)]
    await turns()
    for call in range(4):
        await sent.answer(call)
    assert sent.calls == [[10], [20, 30, 11], [21, 31, 12], [22, 32]]
    assert all(caller.done() for caller in callers)


async def test_many_positions_do_not_wait_for_the_end_of_a_call():
    """They are in two calls, about equal, and a third one waits."""
    sent = Sent()
    tasks = await begin(shared(sent, second_call_min=4), [1], [2], [3, 4], [5, 6, 7], [8, 9, 10, 11])
    assert sent.calls == [[1], [2, 3, 4]]
    await sent.answer(0)
    assert sent.calls[2:] == [[5, 6, 7]]
    await sent.answer(1)
    assert sent.calls[3:] == [[8, 9, 10, 11]]
    await sent.answer(2)
    await sent.answer(3)
    assert all(task.done() for task in tasks)


async def test_no_call_carries_more_than_fits():
    """A batch that does not fit waits for the next call, uncut, and no smaller batch overtakes it."""
    sent = Sent()
    tasks = await begin(shared(sent, 3), [1], [2], [3, 4], [5, 6], [7], [8, 9, 10, 11])
    for call in range(4):
        await sent.answer(call)
    assert sent.calls == [[1], [2, 3, 4], [5, 6, 7], [8, 9, 10, 11]]
    assert all(task.done() for task in tasks)


@pytest.mark.parametrize(
    "error", [Unavailable("away"), OSError("vault")], ids=["of the service", "of the token function"]
)
async def test_a_failed_call_fails_its_batches_and_no_later_one(error):
    """The call after a failed one is made normally."""
    sent = Sent()
    adds = shared(sent)
    _, *together = await begin(adds, [1], [3], [4])
    await sent.answer(0)
    (later,) = await begin(adds, [5])
    sent.in_flight[1].set_exception(error)
    await turns()
    assert [task.exception() for task in together] == [error] * 2
    assert sent.calls[2:] == [[5]]
    await sent.answer(2)
    assert later.result() == AddAnswer(added_count=1)


async def test_a_failed_call_of_its_own_lets_the_waiting_ones_go():
    """A call that fails or is cancelled makes room for the waiting batches."""
    sent = Sent()
    adds = shared(sent)
    first, *_ = await begin(adds, [1], [3], [4])
    sent.in_flight[0].set_exception(Unavailable("away"))
    await turns()
    assert isinstance(first.exception(), Unavailable)
    assert sent.calls[1:] == [[3, 4]]
    await sent.answer(1)
    alone, *_ = await begin(adds, [5], [6])
    alone.cancel()
    await turns()
    assert sent.in_flight[2].cancelled()
    assert sent.calls[3:] == [[6]]
    await sent.answer(3)


async def test_a_batch_that_nobody_waits_for_is_not_sent():
    """A batch that is cancelled before its call is not sent; cancelled later, it does not affect the other batches."""
    sent = Sent()
    adds = shared(sent)
    _, gone, kept, leaving = await begin(adds, [1], [3], [4], [5])
    gone.cancel()
    await turns()
    await sent.answer(0)
    assert sent.calls[1:] == [[4, 5]]
    leaving.cancel()
    await turns()
    await sent.answer(1, due_offsets=(0,))
    assert kept.result() == AddAnswer(added_count=0, due_offsets=(0,))


async def test_a_call_that_is_cut_off_tells_its_batches_so():
    """Callers that wait while the program's tasks are cancelled get the error that the batch may be tracked."""
    sent = Sent()
    adds = shared(sent)
    _, waiting = await begin(adds, [1], [3])
    await sent.answer(0)
    (sender,) = adds._senders
    sender.cancel()
    with pytest.raises(SessionClosed, match="may be tracked"):
        await waiting
    assert not adds._senders


async def test_the_highest_claim_of_a_call_is_sent():
    """Batches that share a call share its claim; one that was given up before it was sent takes its claim along."""
    sent = Sent()
    adds = shared(sent)
    one = pack("x", [1])
    claims = [Claim(Position(1, entry), 7) for entry in (3, 5, 9)]
    first = await begin(adds, [1])
    waiting = [asyncio.create_task(adds.add((one, one, pack("x", [0])), 1, claim)) for claim in claims]
    await turns()
    waiting[2].cancel()
    await turns()
    await sent.answer(0)
    assert sent.claims == [None, claims[1]]
    await sent.answer(1, offered_through=Position(1, 5))
    assert [task.result().offered_through for task in waiting[:2]] == [Position(1, 5)] * 2
    await asyncio.gather(*first)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_parts_put_together_are_the_whole(counts, data):
    """Every offset is in the answer of its own batch, and every position is counted once."""
    total = sum(counts)
    kinds = data.draw(st.lists(st.integers(0, 4), min_size=total, max_size=total))

    def offsets(kind, kinds):
        return tuple(offset for offset, of in enumerate(kinds) if of == kind)

    def answer(kinds):
        return AddAnswer(kinds.count(0), *(offsets(kind, kinds) for kind in range(1, 5)))

    firsts = accumulate(counts, initial=0)
    expected = [answer(kinds[first : first + count]) for first, count in zip(firsts, counts, strict=False)]
    assert list(parts_of(answer(kinds), counts)) == expected


async def test_concurrent_batches_are_answered_as_if_each_had_a_call_of_its_own():
    """With a real service, every position is added exactly once, even if several callers add it at the same time."""
    async with (
        running_service() as service,
        DelayedTrackerClient.connect(service.address) as client,
        await client.open_tracker(KEY.topic, KEY.subscription) as session,
    ):
        far_ms = service.clock.now_ms() + 3_600_000
        entries = [range(first, first + 10) for first in range(0, 200, 5)]
        answers = await asyncio.gather(*(session.add_columns([far_ms] * 10, [7] * 10, each) for each in entries))
        added = [entry for each, answer in zip(entries, answers, strict=True) for entry in _added(each, answer)]
        assert sorted(added) == list(range(205))
        assert [answer.added_count for answer in answers] == [
            len(_added(each, answer)) for each, answer in zip(entries, answers, strict=True)
        ]
        stats = await session.stats()
        assert (stats.pending_count, stats.duplicate_count) == (205, 400 - 205)
    assert len(entries) > CALLS_MAX


def _added(entries, answer):
    return [entry for offset, entry in enumerate(entries) if offset not in answer.duplicate_offsets]
