"""Tests of shared polls: the calls that they share, the part of each, and the positions of cancelled polls."""

import asyncio
import gc
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.client import DelayedTrackerClient, DueMessages, InvalidArgument, SessionClosed, Unavailable
from delayed_tracker.client.aio.shared_polls import SharedPolls
from delayed_tracker.client.queues.poll_queue import CALLS_MAX, PollResult, PollTerms
from delayed_tracker.core.values.errors import FieldViolation
from tests.service.harness.shell import KEY, running_service

HAND_OFF = PollTerms(None, is_hand_off=True)
LEASE = PollTerms(None)
SHARE_MAX = 100


def due(entries: Sequence[int], *, more: bool = False, replay: bool = False) -> DueMessages:
    column = array("q", entries)
    return DueMessages(column, column, column, 5 if more else 15, 10, replay)


class Due:
    """Service with a number of due entries; the test answers each of its calls."""

    def __init__(self, count: int, *, limit: int = 10**9, epoch: int = 1) -> None:
        self.entries = list(range(count))
        self.limit = limit
        self.epoch = epoch
        self.calls: list[tuple[list[int], int]] = []
        self.in_flight: list[tuple[list[int], PollTerms, asyncio.Future[list[PollResult]]]] = []
        self.given_back: list[tuple[int, list[int]]] = []
        self.replay_required = False
        self._lease_id = 0

    def send(self, shares: Sequence[int], wait_ms: int, terms: PollTerms) -> "asyncio.Future[list[PollResult]]":
        self.calls.append((list(shares), wait_ms))
        answer = asyncio.get_running_loop().create_future()
        self.in_flight.append((list(shares), terms, answer))
        return answer

    async def give_back(self, taken: PollResult) -> None:
        self.given_back.append((taken.lease_id, list(taken.messages.entry_ids)))

    def polls(self) -> SharedPolls:
        return SharedPolls(self.send, self.give_back, share_max=SHARE_MAX, epoch=lambda: self.epoch)

    async def answer(self, call: int = 0, *, error: Exception | None = None) -> None:
        self.answer_now(call, error=error)
        await turns()

    def answer_now(self, call: int = 0, *, error: Exception | None = None) -> None:
        shares, terms, answer = self.in_flight.pop(call)
        if sum(shares) > self.limit:
            error = InvalidArgument("too much", violations=[FieldViolation("max_messages", "give less")])
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result([self._take(share, terms) for share in shares])

    def _take(self, share: int, terms: PollTerms) -> PollResult:
        entries, self.entries = self.entries[:share], self.entries[share:]
        if entries and not terms.is_hand_off:
            self._lease_id += 1
        lease_id = self._lease_id if entries and not terms.is_hand_off else 0
        return PollResult(lease_id, 7, due(entries, more=bool(self.entries), replay=self.replay_required), self.epoch)


async def turns() -> None:
    """Let every task run until it waits."""
    for _ in range(6):
        await asyncio.sleep(0)


async def begin(polls: SharedPolls, *counts: int, wait_ms: int = 0, terms: PollTerms = HAND_OFF):
    """Poll for these numbers of messages at the same time."""
    tasks = [asyncio.create_task(polls.poll(count, wait_ms, terms)) for count in counts]
    await turns()
    return tasks


async def busy(service: Due, *, terms: PollTerms = HAND_OFF) -> SharedPolls:
    """Return the polls of a session whose last answer had more due; it took entry 0."""
    polls = service.polls()
    (first,) = await begin(polls, 1, wait_ms=9, terms=terms)
    await service.answer()
    assert entries_of(first) == [0]
    service.calls.clear()
    return polls


def entries_of(task) -> list[int]:
    return list(task.result().messages.entry_ids)


async def test_polls_go_alone_and_wait_while_nothing_more_is_due():
    """Polls that wait do not share calls, because no poll may wait for another's time."""
    service = Due(1)
    polls = await busy(service)
    assert not polls._queue.more_is_due
    tasks = await begin(polls, 5, 6, 7, wait_ms=1_000)
    assert service.calls == [([5], 1_000), ([6], 1_000), ([7], 1_000)]
    for _ in tasks:
        await service.answer()
    assert [entries_of(task) for task in tasks] == [[], [], []]


async def test_the_first_polls_of_a_session_share_a_call():
    """The first polls of a session share a call, because a backlog is possible; without one, each waits alone."""
    service = Due(7)
    tasks = await begin(service.polls(), 5, 6, 7, wait_ms=1_000)
    assert service.calls == [([5, 6, 7], 0)]
    await service.answer()
    assert list(map(entries_of, tasks[:2])) == [[0, 1, 2, 3, 4], [5, 6]]
    assert [shares for shares, _ in service.calls[1:]] == [[7]]
    tasks[2].cancel()


async def test_polls_that_come_together_share_a_call_in_their_order():
    """At most two calls are in flight and they do not wait; each poll gets no more than it requested."""
    service = Due(30)
    polls = await busy(service)
    tasks = await begin(polls, 3, 4, wait_ms=1_000) + await begin(polls, 5) + await begin(polls, 6, 2)
    assert service.calls == [([3, 4], 0), ([5], 0)]
    await service.answer()
    assert service.calls[2:] == [([6, 2], 0)]
    await service.answer()
    await service.answer()
    assert list(map(entries_of, tasks)) == [[1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11, 12], [*range(13, 19)], [19, 20]]


async def test_a_poll_that_got_nothing_waits_alone_for_the_rest_of_its_time():
    """A poll that may not wait gets its empty answer at once; the other polls again and waits."""
    service = Due(4)
    polls = await busy(service)
    tasks = [*await begin(polls, 5), *await begin(polls, 6, wait_ms=1_000), *await begin(polls, 7)]
    await service.answer()
    assert entries_of(tasks[0]) == [1, 2, 3]
    await service.answer()
    assert not tasks[1].done()
    await service.answer()
    assert entries_of(tasks[2]) == []
    (shares, wait_ms) = service.calls[-1]
    assert shares == [6]
    assert 0 < wait_ms <= 1_000
    service.entries = [40]
    await service.answer()
    assert entries_of(tasks[1]) == [40]


async def test_each_poll_has_a_lease_of_its_own():
    """Each poll of a shared call has its own lease."""
    service = Due(20)
    polls = await busy(service, terms=LEASE)
    tasks = await begin(polls, 3, 4, 5, terms=LEASE)
    await service.answer()
    assert [(task.result().lease_id, entries_of(task)) for task in tasks] == [
        (2, [1, 2, 3]),
        (3, [4, 5, 6, 7]),
        (4, [8, 9, 10, 11, 12]),
    ]


async def test_only_polls_on_the_same_terms_share_and_none_overtakes():
    """Polls with another lease time, or hand-offs, are sent in another call, in their order."""
    service = Due(50)
    polls = await busy(service)
    tasks = [
        asyncio.create_task(polls.poll(count, 0, terms))
        for count, terms in ((1, LEASE), (2, LEASE), (3, PollTerms(500)), (4, HAND_OFF), (5, HAND_OFF))
    ]
    await turns()
    assert service.calls == [([1, 2], 0), ([3], 0)]
    await service.answer()
    assert service.calls[2:] == [([4, 5], 0)]
    await service.answer()
    await service.answer()
    assert [len(task.result().messages) for task in tasks] == [1, 2, 3, 4, 5]


async def test_no_call_asks_for_more_than_a_share_may_be():
    """Shared calls keep the client's limit; a single poll may exceed it, and the service decides."""
    service = Due(1_000)
    polls = await busy(service)
    tasks = await begin(polls, 60, 40, 1, 150, 30)
    for _ in range(4):
        await service.answer()
    assert [shares for shares, _ in service.calls] == [[60, 40], [1], [150], [30]]
    assert [len(task.result().messages) for task in tasks] == [60, 40, 1, 150, 30]


async def test_polls_refused_together_are_asked_for_apart():
    """If the service's limit is lower than the client's, only the poll that exceeds it alone gets the error."""
    service = Due(200, limit=50)
    polls = await busy(service)
    tasks = await begin(polls, 20, 30, 40)
    while service.in_flight:
        await service.answer()
    assert [shares for shares, _ in service.calls] == [[20, 30, 40], [20], [30], [40]]
    assert list(map(len, map(entries_of, tasks))) == [20, 30, 40]
    (too_much,) = await begin(polls, 51)
    await service.answer()
    with pytest.raises(InvalidArgument):
        too_much.result()


@pytest.mark.parametrize(
    "error", [Unavailable("away"), OSError("vault")], ids=["of the service", "of the token function"]
)
async def test_an_error_is_everybodys_of_its_call_and_the_next_call_leaves(error):
    """All polls of a failed call get its error, and the polls behind it are not affected."""
    service = Due(50)
    polls = await busy(service)
    tasks = await begin(polls, 1, 2) + await begin(polls, 3) + await begin(polls, 4)
    await service.answer(error=error)
    assert [task.exception() for task in tasks[:2]] == [error] * 2
    await service.answer()
    await service.answer()
    assert [entries_of(task) for task in tasks[2:]] == [[1, 2, 3], [4, 5, 6, 7]]


async def test_a_poll_given_up_before_it_left_takes_nothing():
    """A cancelled poll is not part of the next call."""
    service = Due(50)
    polls = await busy(service)
    await begin(polls, 1)
    await begin(polls, 2)
    third, _ = await begin(polls, 3, 4)
    third.cancel()
    await service.answer()
    assert [shares for shares, _ in service.calls] == [[1], [2], [4]]


async def test_what_was_leased_for_a_poll_given_up_is_given_back():
    """Positions leased for a cancelled poll are due again at once, and the other polls get theirs."""
    service = Due(50)
    polls = await busy(service, terms=LEASE)
    first, second, third = await begin(polls, 2, 3, 4, terms=LEASE)
    second.cancel()
    await service.answer()
    assert (entries_of(first), entries_of(third)) == ([1, 2], [6, 7, 8, 9])
    assert service.given_back == [(3, [3, 4, 5])]


async def test_what_cannot_be_given_back_is_left_to_the_end_of_its_lease():
    """An error of the call that gives back is not reported as lost, whatever it is: nobody waits for it."""

    class Broken(Due):
        async def give_back(self, taken: PollResult) -> None:
            await super().give_back(taken)
            raise OSError("vault")

    lost = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    service = Broken(50)
    polls = await busy(service, terms=LEASE)
    (gone,) = await begin(polls, 3, terms=LEASE)
    gone.cancel()
    await service.answer()
    gc.collect()
    assert service.given_back
    assert not lost


async def test_what_came_in_the_turn_in_which_a_poll_was_given_up_is_given_back():
    """A share that arrives in the same iteration in which its poll is cancelled is given back."""
    service = Due(50)
    polls = await busy(service, terms=LEASE)
    first, second = await begin(polls, 2, 3, terms=LEASE)
    service.answer_now()
    await asyncio.sleep(0)
    second.cancel()
    await turns()
    assert entries_of(first) == [1, 2]
    assert second.cancelled()
    assert service.given_back == [(3, [3, 4, 5])]


async def test_what_was_handed_off_for_a_poll_given_up_goes_to_the_next():
    """Positions handed off to a cancelled poll go to the next hand-offs, to each at most what it requested."""
    service = Due(20)
    polls = await busy(service)
    first, second = await begin(polls, 2, 5)
    second.cancel()
    await service.answer()
    assert entries_of(first) == [1, 2]
    next_ones = await begin(polls, 3, 9)
    assert list(map(entries_of, next_ones)) == [[3, 4, 5], [6, 7]]
    assert service.given_back == []


async def test_nothing_is_kept_beyond_its_epoch():
    """A clear also drops positions that the client keeps for the next hand-off."""
    service = Due(20)
    polls = await busy(service)
    (given_up,) = await begin(polls, 5)
    given_up.cancel()
    await service.answer()
    service.epoch += 1
    (after,) = await begin(polls, 3)
    await service.answer()
    assert entries_of(after) == [6, 7, 8]


async def test_news_of_a_replay_is_handed_on_though_nothing_is_due():
    """A required replay is reported once to a waiting poll, although nothing is due."""
    service = Due(3)
    polls = await busy(service)
    tasks = await begin(polls, 5) + await begin(polls, 6, wait_ms=1_000)
    await service.answer()
    service.replay_required = True
    await service.answer()
    assert tasks[1].result().messages.replay_required
    service.entries = [1, 2]
    (third,) = await begin(polls, 1)
    await service.answer()
    (fourth,) = await begin(polls, 1)
    (fifth,) = await begin(polls, 1, wait_ms=1_000)
    await service.answer()
    await service.answer()
    assert (entries_of(third), entries_of(fourth), fifth.done()) == ([1], [2], False)
    fifth.cancel()


async def test_whoever_waits_learns_that_the_session_broke_off():
    """Every waiting poll gets an error when the event loop ends while a call is in flight."""
    service = Due(50)
    polls = await busy(service)
    tasks = await begin(polls, 1, 2) + await begin(polls, 3) + await begin(polls, 4)
    for call in asyncio.all_tasks():
        if call.get_name() == "delayed-tracker shared polls":
            call.cancel()
    await turns()
    for task in tasks:
        with pytest.raises(SessionClosed, match="ended"):
            task.result()


@given(data=st.data())
def test_nothing_is_lost_or_taken_twice(data):
    """Every entry goes to one place, once, in any order of polls, answers, cancellations and refusals."""

    async def run() -> None:
        service = Due(300, limit=data.draw(st.sampled_from([40, 10**9])))
        polls = service.polls()
        asked: list[tuple[asyncio.Task[PollResult], int]] = []
        for step in data.draw(st.lists(st.sampled_from("pppacae"), max_size=40)):
            if step == "p":
                count, wait_ms = data.draw(st.integers(1, 40)), data.draw(st.sampled_from([0, 10_000]))
                terms = data.draw(st.sampled_from([HAND_OFF, LEASE]))
                asked.append((asyncio.create_task(polls.poll(count, wait_ms, terms)), count))
            elif step == "c" and asked:
                data.draw(st.sampled_from(asked))[0].cancel()
                await turns()
            elif service.in_flight:
                error = Unavailable("away") if step == "e" else None
                await service.answer(data.draw(st.integers(0, len(service.in_flight) - 1)), error=error)
            if data.draw(st.booleans()):
                await turns()
        await turns()
        while service.in_flight:
            await service.answer()
        got = [entry for _, entries in service.given_back for entry in entries]
        for task, count in asked:
            assert task.done()
            if not task.cancelled() and task.exception() is None:
                assert len(task.result().messages) <= count
                got += entries_of(task)
        while (kept := polls._queue.kept(1_000, epoch=service.epoch)) is not None:
            got += kept.messages.entry_ids
        assert sorted(got + service.entries) == list(range(300))

    asyncio.run(run())


async def test_polls_of_one_session_share_calls_of_a_service():
    """Each due position goes to one of many polls, once, under a lease that can be acknowledged."""
    async with (
        running_service() as service,
        DelayedTrackerClient.connect(service.address) as client,
        await client.open_tracker(KEY.topic, KEY.subscription) as session,
    ):
        await session.add_columns([service.clock.now_ms() + 5_000] * 500, [1] * 500, range(500))
        service.clock.advance(20_000)
        got: list[int] = []
        lease_ids: list[int] = []

        async def dispatch() -> None:
            while lease := await session.poll(7):
                got.extend(lease.messages.entry_ids)
                lease_ids.append(lease.lease_id)
                await lease.ack()

        await asyncio.gather(*(dispatch() for _ in range(3 * CALLS_MAX)))
        assert sorted(got) == list(range(500))
        assert len(set(lease_ids)) == len(lease_ids)
        assert (await session.stats()).pending_count == 0
