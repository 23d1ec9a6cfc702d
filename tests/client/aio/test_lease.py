"""Tests of a lease as a context."""

from array import array

import pytest

from delayed_tracker.client import (
    AckAnswer,
    DueMessages,
    ExtendAnswer,
    InvalidInput,
    Lease,
    NackAnswer,
    Position,
    Unavailable,
    blocking,
)
from tests.client.harness.shells import Shell, threaded

ROWS = [(1_000, 5, 0), (1_000, 5, 1), (2_000, 6, 0)]


class Settled:
    """Session for a blocking lease that records acks, nacks and extends."""

    def __init__(self, *, fail: bool = False) -> None:
        self.acked: list[tuple[int, int]] = []
        self.nacked: list[tuple[int, int]] = []
        self.deadlines: list[int | None] = []
        self.extended: list[tuple[int, list[tuple[int, int]] | None]] = []
        self.fail = fail
        self.whole_count = 0

    def ack(self, lease_id, ledger_ids, entry_ids) -> AckAnswer:
        assert lease_id == 9
        self.acked += zip(ledger_ids, entry_ids, strict=True)
        return AckAnswer(len(ledger_ids))

    def ack_whole(self, lease_id, ledger_ids, entry_ids) -> AckAnswer:
        self.whole_count += 1
        return Settled.ack(self, lease_id, ledger_ids, entry_ids)

    def nack(self, lease_id, ledger_ids, entry_ids, *, deliver_at_ms=None) -> NackAnswer:
        if self.fail:
            raise Unavailable("down")
        self.nacked += zip(ledger_ids, entry_ids, strict=True)
        self.deadlines.append(deliver_at_ms)
        return NackAnswer(len(ledger_ids))

    def extend(self, lease_id, lease_ms, ledger_ids=None, entry_ids=None) -> ExtendAnswer:
        self.extended.append((lease_ms, None if ledger_ids is None else list(zip(ledger_ids, entry_ids, strict=True))))
        return ExtendAnswer(extended_count=3, expires_at_ms=60_000)


class AwaitableSettled(Settled):
    """The same for a lease of asyncio."""

    async def ack(self, *arguments) -> AckAnswer:
        return super().ack(*arguments)

    async def ack_whole(self, *arguments) -> AckAnswer:
        return super().ack_whole(*arguments)

    async def nack(self, *arguments, **options) -> NackAnswer:
        return super().nack(*arguments, **options)

    async def extend(self, *arguments) -> ExtendAnswer:
        return super().extend(*arguments)


@pytest.fixture
def make_settled(shell):
    return AwaitableSettled if shell is Shell.ASYNCIO else Settled


def lease(settled: Settled, rows=ROWS):
    columns = [array("q", column) for column in zip(*rows, strict=True)] or [array("q")] * 3
    messages = DueMessages(*columns, next_delivery_at_ms=None, server_time_ms=0, replay_required=False)
    kind = Lease if isinstance(settled, AwaitableSettled) else blocking.Lease
    return threaded(kind(settled, lease_id=9, expires_at_ms=30_000, messages=messages))


async def test_a_clean_exit_acknowledges_the_rest(make_settled):
    """Positions that were given back inside the block are not acknowledged at its end."""
    settled = make_settled()
    async with lease(settled) as held:
        assert list(held.messages) == [Position(5, 0), Position(5, 1), Position(6, 0)]
        await held.nack([Position(5, 1)], deliver_at_ms=70_000)
        assert len(held) == 2
    assert settled.acked == [(5, 0), (6, 0)]
    assert settled.whole_count == 1
    assert settled.nacked == [(5, 1)]
    assert settled.deadlines == [70_000]


async def test_an_exception_gives_the_rest_back(make_settled):
    """Positions that were acknowledged inside the block stay acknowledged, and the exception is raised."""
    settled = make_settled()

    async def work() -> None:
        async with lease(settled) as held:
            await held.ack([Position(5, 0)])
            raise KeyError("work failed")

    with pytest.raises(KeyError):
        await work()
    assert settled.acked == [(5, 0)]
    assert settled.whole_count == 0
    assert settled.nacked == [(5, 1), (6, 0)]


async def test_a_failed_give_back_does_not_hide_the_works_own_error(make_settled):
    """The error of a failed give-back is added as a note to the work's own error."""
    with pytest.raises(KeyError) as caught:
        async with lease(make_settled(fail=True)):
            raise KeyError("work failed")
    assert "3 leased positions could not be given back (down)" in caught.value.__notes__[0]


async def test_a_lease_of_nothing_calls_nobody(make_settled):
    """An empty lease is falsy and makes no calls."""
    settled = make_settled()
    async with lease(settled, rows=[]) as held:
        assert not held
    assert settled.acked == []


async def test_a_position_of_another_lease_is_refused(make_settled):
    """A position of another lease, or one that is already settled, is refused."""
    settled = make_settled()
    held = lease(settled)
    with pytest.raises(InvalidInput, match="7:7"):
        await held.ack([Position(5, 0), Position(7, 7)])
    await held.ack([Position(5, 0)])
    with pytest.raises(InvalidInput, match="not settled yet"):
        await held.nack([Position(5, 0)])
    assert settled.acked == [(5, 0)]


async def test_a_lease_is_extended_as_a_whole_or_in_part(make_settled):
    """Extending the whole lease changes its expiry; extending no positions makes no call."""
    settled = make_settled()
    held = lease(settled)
    assert (await held.extend(30_000, [Position(5, 1)])).expires_at_ms == 60_000
    assert held.expires_at_ms == 30_000
    assert (await held.extend(30_000, [])).extended_count == 0
    await held.extend(40_000)
    assert held.expires_at_ms == 60_000
    assert settled.extended == [(30_000, [(5, 1)]), (40_000, None)]
    with pytest.raises(InvalidInput, match="7:7"):
        await held.extend(1, [Position(7, 7)])
