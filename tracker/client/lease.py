"""A lease as a context: what was handed out is acknowledged when the work succeeded, and given back when it failed.

::

    async with await session.poll(100, wait_ms=10_000) as lease:
        for position in lease.messages:
            if not await dispatch(position):
                await lease.nack([position])
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self

from tracker.client.answers import AckAnswer, DueMessages, NackAnswer, Position
from tracker.client.columns import IntColumn
from tracker.core.errors import DelayedTrackerError, InvalidInput


class Settles(Protocol):
    """Whoever can acknowledge and give back leased positions: a session."""

    async def ack(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> AckAnswer:
        """Acknowledge leased positions."""
        ...

    async def nack(
        self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn, *, deliver_at_ms: int | None = None
    ) -> NackAnswer:
        """Give leased positions back."""
        ...


class Lease:
    """Due positions held until ``expires_at_ms`` (the server's clock), then handed out again unless acknowledged.

    As a context it settles what was not settled inside: a clean exit acknowledges it, an exception gives it back.
    A lease of nothing is falsy and its context does nothing.
    """

    def __init__(self, session: Settles, *, lease_id: int, expires_at_ms: int, messages: DueMessages) -> None:
        self._session = session
        self.lease_id = lease_id
        self.expires_at_ms = expires_at_ms
        self.messages = messages
        self._open = dict.fromkeys(messages)

    def __len__(self) -> int:
        """Positions of this lease that are neither acknowledged nor given back."""
        return len(self._open)

    @property
    def unsettled(self) -> tuple[Position, ...]:
        """Positions neither acknowledged nor given back, in delivery order."""
        return tuple(self._open)

    async def ack(self, positions: Iterable[Position] | None = None) -> AckAnswer:
        """Acknowledge positions of this lease: they are no longer tracked.

        Args:
            positions: some of ``unsettled``; None is all of them.
        Raises:
            InvalidInput: a position that is not of this lease, or is settled; nothing was sent.
        """
        chosen = self._choose(positions)
        if not chosen:
            return AckAnswer(acked_count=0)
        answer = await self._session.ack(self.lease_id, *_columns(chosen))
        self._settle(chosen)
        return answer

    async def nack(
        self, positions: Iterable[Position] | None = None, *, deliver_at_ms: int | None = None
    ) -> NackAnswer:
        """Give positions of this lease back.

        Args:
            positions: some of ``unsettled``; None is all of them.
            deliver_at_ms: their new deadline; None: due again at once.
        Raises:
            InvalidInput: a position that is not of this lease, or is settled; nothing was sent.
        """
        chosen = self._choose(positions)
        if not chosen:
            return NackAnswer(returned_count=0)
        answer = await self._session.nack(self.lease_id, *_columns(chosen), deliver_at_ms=deliver_at_ms)
        self._settle(chosen)
        return answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.ack()
            return
        try:
            await self.nack()
        except DelayedTrackerError as failure:
            # The work's own error is the one to see; the positions come back anyway when the lease expires.
            error.add_note(f"{len(self)} leased positions could not be given back ({failure}); the lease will expire")

    def _choose(self, positions: Iterable[Position] | None) -> tuple[Position, ...]:
        if positions is None:
            return self.unsettled
        chosen = tuple(dict.fromkeys(positions))
        for offset, position in enumerate(chosen):
            if position not in self._open:
                raise InvalidInput(
                    "positions",
                    f"{position[0]}:{position[1]}",
                    "give positions of this lease that are not settled yet",
                    offsets=[offset],
                )
        return chosen

    def _settle(self, positions: Iterable[Position]) -> None:
        for position in positions:
            del self._open[position]


def _columns(positions: tuple[Position, ...]) -> tuple[list[int], list[int]]:
    return [position[0] for position in positions], [position[1] for position in positions]
