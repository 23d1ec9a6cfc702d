"""Tests of shared acks: the calls that they share, and the result of each ack."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.client import Fenced, InvalidArgument, SessionClosed, Unavailable
from delayed_tracker.client.aio.shared_acks import SharedAcks
from delayed_tracker.client.errors import TrackerCallError
from delayed_tracker.client.model.answers import AckAnswer, Position
from delayed_tracker.client.model.exchange import Call
from delayed_tracker.client.queues.ack_queue import AckOutcome, AckQueue, LeaseAck, WaitingAck
from delayed_tracker.client.queues.poll_queue import CALLS_MAX
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.calls import ACKS_MAX
from tests.client.harness.leasing_service import LeasingService, columns
from tests.core.harness.shell import positions
from tests.service.harness.shell import KEY, running_service


class Held(LeasingService):
    """Service that answers each call when the test lets it."""

    def __init__(self, count: int, **limits: int) -> None:
        super().__init__(count, **limits)
        self.in_flight: list[tuple[Call, asyncio.Future[pb.AckMessagesResponse]]] = []
        self.acks = SharedAcks(self.send_held, batch_max=lambda: self.rules.batch_max)

    async def send_held(self, acks: Sequence[LeaseAck]) -> list[AckOutcome]:
        exchange = self.rules.acked(acks)
        try:
            call = next(exchange)
            while True:
                answer: asyncio.Future[pb.AckMessagesResponse] = asyncio.get_running_loop().create_future()
                self.in_flight.append((call, answer))
                try:
                    response = await answer
                except TrackerCallError as error:
                    call = exchange.throw(error)
                else:
                    call = exchange.send(response)
        except StopIteration as returned:
            outcomes: list[AckOutcome] = returned.value
            return outcomes

    async def let(self, number: int = 0, *, error: Exception | None = None) -> None:
        """Answer a call in flight; with an error, it was not applied."""
        call, answer = self.in_flight.pop(number)
        if error is None:
            try:
                answer.set_result(self.answer(call))
            except DelayedTrackerError as failure:
                answer.set_exception(failure)
        else:
            answer.set_exception(error)
        await turns()

    async def begin(self, *acks: LeaseAck) -> "list[asyncio.Task[AckAnswer]]":
        """Start several acks at the same time."""
        tasks = [asyncio.create_task(self.acks.ack(ack)) for ack in acks]
        await turns()
        return tasks

    async def let_all(self) -> None:
        while self.in_flight:
            await self.let()


async def turns() -> None:
    """Let every task run until it waits."""
    for _ in range(6):
        await asyncio.sleep(0)


def counts_of(tasks: "list[asyncio.Task[AckAnswer]]") -> list[int]:
    return [task.result().acked_count for task in tasks]


async def test_acks_made_at_the_same_time_are_one_call_without_a_position():
    """Acks of whole leases share a call that carries lease ids and no positions."""
    service = Held(6)
    tasks = await service.begin(service.whole(1), service.whole(2), service.whole(3))
    await service.let_all()
    assert counts_of(tasks) == [1, 2, 3]
    (call,) = service.calls
    assert [(ack.lease_id, ack.held_count) for ack in call.leases] == [(1, 1), (2, 2), (3, 3)]
    assert not call.ledger_ids
    assert service.tracked == set()


async def test_an_ack_that_comes_alone_leaves_alone():
    """A single ack is sent with its positions."""
    service = Held(3)
    lease_id, positions = service.lease(3)
    tasks = await service.begin(service.rules.ack(lease_id, *columns(positions[:2])))
    await service.let_all()
    assert counts_of(tasks) == [2]
    (call,) = service.calls
    assert (call.lease_id, list(call.entry_ids), len(call.leases)) == (lease_id, [0, 1], 0)
    assert call.epoch == 7


async def test_acks_that_come_meanwhile_leave_together_in_their_order():
    """At most two calls are in flight, and the acks that wait are sent together in their order."""
    service = Held(9)
    tasks = [task for _ in range(5) for task in await service.begin(service.whole(1))]
    assert len(service.in_flight) == CALLS_MAX
    await service.let_all()
    assert [[ack.lease_id for ack in call.leases] for call in service.calls] == [[1], [2], [3, 4, 5]]
    assert counts_of(tasks) == [1] * 5


async def test_each_answer_is_the_acks_own():
    """Stale and unknown offsets count from each ack's first position, wherever it is in the call."""
    service = Held(6)
    (first, ours), (second, others) = service.lease(2), service.lease(2)
    gone = Position(9, 9)
    tasks = await service.begin(
        service.rules.ack(first, *columns([gone, ours[0]])),
        service.whole(2),
        service.rules.ack(second, *columns([others[0], ours[1], gone])),
        service.rules.ack(second, [], []),
    )
    await service.let_all()
    assert len(service.calls) == 1
    assert [task.result() for task in tasks] == [
        AckAnswer(1, (), (0,)),
        AckAnswer(2),
        AckAnswer(1, (1,), (2,)),
        AckAnswer(0),
    ]
    assert service.tracked == {ours[1], others[1]}


async def test_what_has_expired_is_named_in_a_second_call():
    """An ack of a lease that lost positions is sent again by position; the other acks of the call are not."""
    service = Held(5)
    late = service.whole(2)
    service.shell.pass_time(50)
    tasks = await service.begin(service.whole(3), late)
    await service.let_all()
    assert [len(call.ledger_ids) for call in service.calls] == [0, 2]
    # The second lease took positions that the first had lost: they are stale, except those under no lease.
    assert tasks[0].result() == AckAnswer(3)
    assert tasks[1].result() == AckAnswer(0, (), (0, 1))


async def test_an_error_of_the_second_call_fails_only_its_acks():
    """An error of the second call affects only the acks in it."""
    service = Held(5)
    late = service.whole(2)
    service.shell.core.ack(late.lease_id, positions((1, 0)), service.shell.now)
    tasks = await service.begin(late, service.whole(3))
    await service.let()
    await service.let(error=Unavailable("away"))
    assert tasks[1].result() == AckAnswer(3)
    with pytest.raises(Unavailable):
        tasks[0].result()


async def test_an_unknown_lease_fails_only_its_own_ack():
    """Acks that the service refuses together are sent separately, by position, and only the bad one fails."""
    service = Held(6)
    first, third = service.whole(3), service.whole(3)
    tasks = await service.begin(first, service.rules.ack(99, [1], [1]), third)
    await service.let_all()
    assert [len(call.leases) for call in service.calls] == [3, 0, 0, 0]
    assert counts_of([tasks[0], tasks[2]]) == [3, 3]
    with pytest.raises(InvalidArgument, match="99"):
        tasks[1].result()
    assert service.tracked == set()


async def test_a_service_that_knows_no_leases_by_count_is_told_the_positions():
    """An older service refuses a call without a lease id, and then receives the positions."""
    service = Held(3)
    tasks = await service.begin(service.whole(3))
    await service.let(error=InvalidArgument("lease_id is 0"))
    await service.let_all()
    assert counts_of(tasks) == [3]
    assert [call.lease_id for call in service.calls] == [1]


async def test_no_call_settles_more_than_a_batch():
    """No call settles more positions than a batch; a larger ack is sent alone, in several calls, by position."""
    service = Held(60, client_batch_max=10)
    tasks = await service.begin(*(service.whole(count) for count in (6, 4, 1, 25, 9)))
    await service.let_all()
    assert [sum(ack.held_count for ack in call.leases) for call in service.calls] == [10, 1, 0, 9, 0, 0]
    assert sorted(len(call.ledger_ids) for call in service.calls) == [0, 0, 0, 5, 10, 10]
    assert counts_of(tasks) == [6, 4, 1, 25, 9]


async def test_the_services_limit_is_learnt():
    """Acks that were refused together are sent separately, and later calls keep the service's limit."""
    service = Held(40, batch_max=8)
    tasks = await service.begin(service.whole(5), service.whole(4))
    await service.let_all()
    assert service.rules.batch_max == 8
    tasks += await service.begin(service.whole(5), service.whole(3), service.whole(1))
    await service.let_all()
    assert [len(call.leases) for call in service.calls] == [2, 0, 0, 2, 1]
    assert counts_of(tasks) == [5, 4, 5, 3, 1]


def test_no_call_names_more_leases_than_the_service_takes():
    """No call contains more leases than the service accepts, even if the acks are empty."""
    queue: AckQueue[asyncio.Future[AckAnswer]] = AckQueue(batch_max=lambda: 10)

    async def run() -> None:
        for _ in range(ACKS_MAX + 1):
            ack = LeaseAck(1, 7, 0, lambda: (b"", b""))
            queue.put(WaitingAck(ack, asyncio.get_running_loop().create_future()))

    asyncio.run(run())
    assert [len(queue.take()) for _ in range(3)] == [ACKS_MAX, 1, 0]


async def test_acks_of_different_epochs_share_no_call():
    """An ack from before a clear is fenced, and acks of the new epoch are not."""
    service = Held(6)
    old = [service.whole(1), service.whole(1)]
    service.rules.epoch = service.epoch = 8
    tasks = await service.begin(*old, service.whole(2), service.whole(2))
    await service.let_all()
    assert [(call.epoch, len(call.leases)) for call in service.calls] == [(7, 2), (8, 2)]
    assert counts_of(tasks[2:]) == [2, 2]
    for task in tasks[:2]:
        with pytest.raises(Fenced):
            task.result()


async def test_an_ack_cancelled_before_it_left_is_not_sent():
    """A cancelled ack in flight may be applied, and does not affect the other acks of its call."""
    service = Held(9)
    first = await service.begin(service.whole(1), service.whole(2))
    await service.begin(service.whole(1))
    waiting = await service.begin(service.whole(2), service.whole(3))
    for task in (first[0], waiting[0]):
        task.cancel()
    await turns()
    await service.let_all()
    assert [[ack.lease_id for ack in call.leases] for call in service.calls] == [[1, 2], [3], [5]]
    assert counts_of([first[1], waiting[1]]) == [2, 3]
    assert service.tracked == {Position(1, 4), Position(1, 5)}


@pytest.mark.parametrize(
    "error", [Unavailable("away"), OSError("vault")], ids=["of the service", "of the token function"]
)
async def test_an_error_of_the_call_is_everybodys(error):
    """An error of a call fails every ack in it, and the next call is made."""
    service = Held(6)
    tasks = await service.begin(service.whole(1), service.whole(2))
    await service.let(error=error)
    assert [task.exception() for task in tasks] == [error] * 2
    tasks = await service.begin(service.whole(3))
    await service.let_all()
    assert counts_of(tasks) == [3]


async def test_whoever_waits_learns_that_the_session_broke_off():
    """Every waiting ack gets an error when the event loop ends while a call is in flight."""
    service = Held(9)
    tasks = [task for _ in range(4) for task in await service.begin(service.whole(1))]
    for call in asyncio.all_tasks():
        if call.get_name() == "delayed-tracker shared acks":
            call.cancel()
    await turns()
    for task in tasks:
        with pytest.raises(SessionClosed, match="ended"):
            task.result()


@given(data=st.data())
def test_every_ack_is_answered_as_if_it_were_alone(data):
    """Every ack gets the answer of its own call, in any order of leases, acks, expiries, cancellations and errors."""

    async def run() -> None:
        limits = {limit: data.draw(st.sampled_from([5, 6, 100])) for limit in ("client_batch_max", "batch_max")}
        service = Held(60, **limits)
        leases: list[tuple[int, list[Position]]] = []
        asked: list[tuple[LeaseAck, list[Position], asyncio.Task[AckAnswer]]] = []
        failures = 0
        for step in data.draw(st.lists(st.sampled_from("lllwwwssxcaatte"), max_size=40)):
            if step == "l":
                lease_id, positions = service.lease(data.draw(st.integers(1, 8)))
                if lease_id:
                    leases.append((lease_id, positions))
            elif step in "ws" and leases:
                lease_id, positions = data.draw(st.sampled_from(leases))
                if step == "s":
                    positions = data.draw(st.permutations(positions))[: data.draw(st.integers(0, len(positions)))]
                rule = service.rules.ack_whole if step == "w" else service.rules.ack
                ack = rule(lease_id, *columns(positions))
                asked.append((ack, positions, asyncio.create_task(service.acks.ack(ack))))
            elif step == "x":
                ack = service.rules.ack(1_000, [], [])
                asked.append((ack, [], asyncio.create_task(service.acks.ack(ack))))
            elif step == "c" and asked:
                data.draw(st.sampled_from(asked))[2].cancel()
            elif step == "t":
                service.shell.pass_time(30)
            elif service.in_flight:
                failures += step == "e"
                error = Unavailable("away") if step == "e" else None
                await service.let(data.draw(st.integers(0, len(service.in_flight) - 1)), error=error)
            if data.draw(st.booleans()):
                await turns()
        await turns()
        await service.let_all()
        service.shell.core.check()
        perhaps_gone: set[Position] = set()
        certainly_gone: list[Position] = []
        acked_count = 0
        is_certain = True
        for ack, positions, task in asked:
            assert task.done()
            if task.cancelled():
                perhaps_gone.update(positions)
                is_certain = False
            elif (error := task.exception()) is not None:
                assert isinstance(error, InvalidArgument if ack.lease_id == 1_000 else Unavailable) or failures
                # If the ack needed several calls, those before the failed one were applied.
                perhaps_gone.update(positions)
                is_certain = False
            else:
                answer = task.result()
                assert ack.lease_id != 1_000
                assert answer.acked_count + len(answer.stale_offsets) + len(answer.unknown_offsets) == len(positions)
                acked_count += answer.acked_count
                certainly_gone += [p for o, p in enumerate(positions) if o not in answer.stale_offsets]
        tracked = service.tracked
        assert not tracked & set(certainly_gone)
        untracked = {Position(1, entry) for entry in range(60)} - tracked
        assert untracked <= perhaps_gone | set(certainly_gone)
        if is_certain:
            assert acked_count == len(untracked)

    asyncio.run(run())


async def test_leases_of_one_session_share_calls_of_a_service(shell):
    """One late ack among many leaves its positions acknowledged."""
    async with (
        running_service() as service,
        shell.connect(service.address) as client,
        await client.open_tracker(KEY.topic, KEY.subscription) as session,
    ):
        await session.add_columns([service.clock.now_ms() + 5_000] * 50, [1] * 50, range(50))
        service.clock.advance(20_000)
        leases = [
            await session.poll(count, lease_ms=lease_ms) for count, lease_ms in ((9, 60_000), (5, 10), (9, 60_000))
        ]
        service.clock.advance(100)
        answers = await asyncio.gather(*(lease.ack() for lease in leases))
        assert [answer.acked_count for answer in answers] == [9, 5, 9]
        stats = await session.stats()
        assert (stats.pending_count, stats.leased_count) == (27, 0)
