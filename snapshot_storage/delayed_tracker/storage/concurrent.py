"""Runs operations at the same time. The first error cancels the others and is raised itself, not in a group."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

Answer = TypeVar("Answer")
Item = TypeVar("Item")


async def for_each(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], *, at_once: int) -> None:
    """Work on items, ``at_once`` at a time, begun in their order. The first error cancels the others and is raised."""
    waiting = iter(items)
    first = list(islice(waiting, at_once))
    if not first:
        return

    async def worker(item: Item) -> None:
        await work(item)
        for further in waiting:
            await work(further)

    try:
        async with asyncio.TaskGroup() as group:
            for item in first:
                group.create_task(worker(item))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def all_answers(operations: Iterable[Callable[[], Awaitable[Answer]]], *, at_once: int) -> list[Answer]:
    """Run operations as :func:`for_each` does, and return their results in their order."""
    answers: dict[int, Answer] = {}

    async def run(numbered: tuple[int, Callable[[], Awaitable[Answer]]]) -> None:
        number, operation = numbered
        answers[number] = await operation()

    await for_each(enumerate(operations), run, at_once=at_once)
    return [answers[number] for number in range(len(answers))]
