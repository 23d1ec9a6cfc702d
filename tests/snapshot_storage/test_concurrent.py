"""Operations that run at the same time."""

import asyncio
from functools import partial

import pytest

from delayed_tracker.storage.concurrent import all_answers, for_each
from delayed_tracker.storage.errors import StorageUnavailable


async def test_results_are_in_the_order_of_the_operations():
    """Also when later ones end first; no more than the given number run at a time."""
    ends = [asyncio.Event() for _ in range(4)]
    running, most = 0, 0

    async def operation(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await ends[number].wait()
        running -= 1
        if number:
            ends[number - 1].set()
        return number

    ends[1].set()
    ends[3].set()
    assert await all_answers([partial(operation, number) for number in range(4)], at_once=2) == [0, 1, 2, 3]
    assert most == 2


async def test_the_first_error_cancels_the_others_and_is_raised_itself():
    cancelled = []

    async def work(item: str) -> None:
        if item == "fails":
            raise StorageUnavailable("not now")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(item)
            raise

    with pytest.raises(StorageUnavailable, match="not now"):
        await for_each(["waits", "fails", "never begun"], work, at_once=2)
    assert cancelled == ["waits"]


async def test_nothing_to_do():
    assert await all_answers([], at_once=3) == []
