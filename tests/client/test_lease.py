"""A lease as a context."""

from array import array

import pytest

from tracker.client import AckAnswer, DueMessages, InvalidInput, Lease, NackAnswer, Position, Unavailable

ROWS = [(1_000, 5, 0), (1_000, 5, 1), (2_000, 6, 0)]


class Settled:
    """Remembers what was acknowledged and given back."""

    def __init__(self, *, fail: bool = False) -> None:
        self.acked: list[tuple[int, int]] = []
        self.nacked: list[tuple[int, int]] = []
        self.deadlines: list[int | None] = []
        self.fail = fail

    async def ack(self, lease_id, ledger_ids, entry_ids) -> AckAnswer:
        assert lease_id == 9
        self.acked += zip(ledger_ids, entry_ids, strict=True)
        return AckAnswer(len(ledger_ids))

    async def nack(self, lease_id, ledger_ids, entry_ids, *, deliver_at_ms=None) -> NackAnswer:
        if self.fail:
            raise Unavailable("down")
        self.nacked += zip(ledger_ids, entry_ids, strict=True)
        self.deadlines.append(deliver_at_ms)
        return NackAnswer(len(ledger_ids))


def lease(settled: Settled, rows=ROWS) -> Lease:
    columns = [array("q", column) for column in zip(*rows, strict=True)] or [array("q")] * 3
    messages = DueMessages(*columns, next_delivery_at_ms=None, server_time_ms=0, replay_required=False)
    return Lease(settled, lease_id=9, expires_at_ms=30_000, messages=messages)


async def test_a_clean_exit_acknowledges_the_rest():
    """What was given back inside is not acknowledged."""
    settled = Settled()
    async with lease(settled) as held:
        assert list(held.messages) == [Position(5, 0), Position(5, 1), Position(6, 0)]
        await held.nack([Position(5, 1)], deliver_at_ms=70_000)
        assert len(held) == 2
    assert settled.acked == [(5, 0), (6, 0)]
    assert settled.nacked == [(5, 1)]
    assert settled.deadlines == [70_000]


async def test_an_exception_gives_the_rest_back():
    """What was acknowledged inside stays acknowledged; the exception goes on."""
    settled = Settled()

    async def work() -> None:
        async with lease(settled) as held:
            await held.ack([Position(5, 0)])
            raise KeyError("work failed")

    with pytest.raises(KeyError):
        await work()
    assert settled.acked == [(5, 0)]
    assert settled.nacked == [(5, 1), (6, 0)]


async def test_a_failed_give_back_does_not_hide_the_works_own_error():
    """The lease will expire; the note says so."""
    with pytest.raises(KeyError) as caught:
        async with lease(Settled(fail=True)):
            raise KeyError("work failed")
    assert "3 leased positions could not be given back (down)" in caught.value.__notes__[0]


async def test_a_lease_of_nothing_calls_nobody():
    """An empty poll is falsy and settles nothing."""
    settled = Settled()
    async with lease(settled, rows=[]) as held:
        assert not held
    assert settled.acked == []


async def test_a_position_of_another_lease_is_refused():
    """So is one that was settled already."""
    settled = Settled()
    held = lease(settled)
    with pytest.raises(InvalidInput, match="7:7"):
        await held.ack([Position(5, 0), Position(7, 7)])
    await held.ack([Position(5, 0)])
    with pytest.raises(InvalidInput, match="not settled yet"):
        await held.nack([Position(5, 0)])
    assert settled.acked == [(5, 0)]
