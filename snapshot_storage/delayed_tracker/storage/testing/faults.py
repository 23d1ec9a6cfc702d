"""Faults that a storage has on purpose: which, how often, and how they are written in a URL.

Options of a ``faulty:`` URL are ``key=value``, separated by commas; values are percent-decoded, so that a topic may
contain commas and semicolons::

    exit          POINT or POINT:N: kill the process with SIGKILL at the Nth arrival at a point (default: the first)
    error_before  share of operations, 0 to 1, that raise StorageUnavailable and do nothing
    error_after   share of operations that do their work and then raise StorageUnavailable
    torn          share of creates that store only some of their segments, under a bucket id that no caller gets, and
                  raise StorageUnavailable
    latency_ms    every operation waits this long first
    free_bytes    free space that the storage reports
    topic         only trackers of this topic are slow or failing (exit counts all)
    seed          seed of the random numbers that decide on errors

Points: ``create``, ``replace``, ``forget``, ``delete``, ``append`` and ``cut``, each ``.before`` and ``.after``; a backend
with points of its own adds those (SQLite: ``create.chunk``, ``create.commit``, ``replace.commit``, ``delete.commit``, and
in the add log ``append.commit`` and ``cut.commit``).
"""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, runtime_checkable
from urllib.parse import unquote

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import StorageUnavailable

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

_OPERATIONS: Final = ("create", "replace", "forget", "delete", "append", "cut")
_POINTS: Final = frozenset(f"{operation}.{when}" for operation in _OPERATIONS for when in ("before", "after")) | {
    "create.chunk",
    "create.commit",
    "replace.commit",
    "delete.commit",
    "append.commit",
    "cut.commit",
}


@runtime_checkable
class HasPoints(Protocol):
    """A backend that calls ``at_point`` at named points inside its operations."""

    at_point: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Faults and their frequency; none by default."""

    error_before: float = 0.0
    error_after: float = 0.0
    torn: float = 0.0
    latency_ms: int = 0
    seed: int = 0
    topic: str | None = None
    exit_point: str | None = None
    exit_arrival: int = 1
    free_bytes: int | None = None

    def __post_init__(self) -> None:
        """Raise InvalidInput for plans that cannot be carried out."""
        for field, share in (
            ("error_before", self.error_before),
            ("error_after", self.error_after),
            ("torn", self.torn),
        ):
            if not 0.0 <= share <= 1.0:
                raise InvalidInput(field, share, "give a share from 0 to 1")
        if self.latency_ms < 0:
            raise InvalidInput("latency_ms", self.latency_ms, "give 0 or more")
        if self.free_bytes is not None and self.free_bytes < 0:
            raise InvalidInput("free_bytes", self.free_bytes, "give 0 or more")
        if self.exit_point is not None and self.exit_point not in _POINTS:
            raise InvalidInput("exit", self.exit_point, f"give one of {', '.join(sorted(_POINTS))}")
        if self.exit_arrival < 1:
            raise InvalidInput("exit", self.exit_arrival, "arrivals count from 1")


class Faults:
    """Base class of what fails on purpose: performs operations of a wrapped backend with the faults of a plan.

    One seed gives one sequence of faults for one sequence of operations.

    Args:
        inner: the wrapped backend, whose points are counted if it has any.
        plan: its faults.
        sleep: waits for the latency, in seconds.
    """

    def __init__(self, inner: object, plan: FaultPlan, *, sleep: Sleep = asyncio.sleep) -> None:
        self.plan = plan
        """Plan of the faults. Replace it to change the faults of operations that begin from now on."""
        self._sleep = sleep
        self._random = random.Random(plan.seed)  # noqa: S311  # no secret
        self._arrivals: dict[str, int] = {}
        if isinstance(inner, HasPoints):
            inner.at_point = self._arrive

    async def _with_faults(self, operation: str, topic: str | None, perform: Callable[[], Awaitable[T]]) -> T:
        plan = self.plan
        chosen = self._chosen(topic)
        # Both numbers are drawn for every operation, so that changing one share does not shift the other's faults.
        draw_before, draw_after = self._random.random(), self._random.random()
        if chosen and plan.latency_ms:
            await self._sleep(plan.latency_ms / 1_000)
        self._arrive(f"{operation}.before")
        if chosen and draw_before < plan.error_before:
            raise StorageUnavailable(f"a planned fault before {operation}; nothing was done")
        outcome = await perform()
        self._arrive(f"{operation}.after")
        if chosen and draw_after < plan.error_after:
            raise StorageUnavailable(f"a planned fault after {operation}; it was done nevertheless")
        return outcome

    def _chosen(self, topic: str | None) -> bool:
        return self.plan.topic is None or self.plan.topic == topic

    def _arrive(self, point: str) -> None:
        if point != self.plan.exit_point:
            return
        arrival = self._arrivals[point] = self._arrivals.get(point, 0) + 1
        if arrival == self.plan.exit_arrival:
            os.kill(os.getpid(), signal.SIGKILL)


def parse_fault_plan(options: str) -> FaultPlan:
    """Parse the options of a ``faulty:`` URL.

    Raises:
        InvalidInput: an unknown option or a malformed value; the message names it.
    """
    values: dict[str, object] = {}
    for option in filter(None, options.split(",")):
        key, _, raw = option.partition("=")
        value = unquote(raw)
        try:
            match key:
                case "exit":
                    values["exit_point"], _, arrival = value.partition(":")
                    values["exit_arrival"] = int(arrival or "1")
                case "error_before" | "error_after" | "torn":
                    values[key] = float(value)
                case "latency_ms" | "seed" | "free_bytes":
                    values[key] = int(value)
                case "topic":
                    values[key] = value
                case _:
                    raise InvalidInput(
                        "storage URL",
                        option,
                        "give exit, error_before, error_after, torn, latency_ms, free_bytes, topic or seed",
                    )
        except ValueError as error:
            raise InvalidInput("storage URL", option, "give a number") from error
    return FaultPlan(**values)  # type: ignore[arg-type]  # each value has the type of its field above


def split_faulty(rest: str) -> tuple[FaultPlan, str]:
    """Return the plan and the wrapped URL of ``faulty:OPTIONS;URL``, given the part after ``faulty:``.

    Raises:
        InvalidInput: there is no URL, or an option is malformed.
    """
    options, semicolon, url = rest.partition(";")
    if not semicolon:
        raise InvalidInput("storage URL", f"faulty:{rest}", "write faulty:OPTIONS;URL, as in faulty:seed=1;memory:")
    return parse_fault_plan(options), url
