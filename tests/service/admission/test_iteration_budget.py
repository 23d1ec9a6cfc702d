"""Large requests share the event loop with other calls: the positions applied in one iteration are bounded."""

import asyncio

from delayed_tracker.service.admission.call_admission import IterationBudget
from tests.service.harness.shell import settle


class Applied:
    """Record of the requests that were let through in each iteration of the event loop."""

    def __init__(self, share: IterationBudget) -> None:
        self._share = share
        self.iterations: dict[str, int] = {}
        self._iteration = 0

    def _count(self) -> None:
        self._iteration += 1
        if len(self.iterations) < 100 and self._iteration < 1_000:
            asyncio.get_running_loop().call_soon(self._count)

    def watch(self) -> None:
        asyncio.get_running_loop().call_soon(self._count)

    async def request(self, name: str, position_count: int) -> None:
        await self._share.take(position_count)
        self.iterations[name] = self._iteration


async def test_requests_beyond_the_share_wait_for_later_iterations_in_their_order():
    """Each iteration applies one of five full requests that arrive together, the first one at once."""
    applied = Applied(IterationBudget(positions_max=10))
    applied.watch()
    names = "abcde"
    await asyncio.gather(*(applied.request(name, 10) for name in names))
    assert list(applied.iterations) == list(names)
    assert len(set(applied.iterations.values())) == len(names)


async def test_small_requests_share_one_iteration():
    """Requests within the share do not wait for each other."""
    applied = Applied(IterationBudget(positions_max=10))
    applied.watch()
    await asyncio.gather(*(applied.request(name, 2) for name in "abcde"))
    assert len(set(applied.iterations.values())) == 1


async def test_a_request_above_the_share_is_let_through_whole():
    """The share bounds what is begun, so a request of any size is applied."""
    share = IterationBudget(positions_max=10)
    await share.take(1_000)
    await share.take(1_000)


async def test_who_leaves_while_waiting_takes_nobodys_turn():
    """A cancelled request is passed over, and the next one is let through."""
    share = IterationBudget(positions_max=10)
    await share.take(10)
    gone, patient = (asyncio.ensure_future(share.take(10)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await settle()
    assert patient.done()
