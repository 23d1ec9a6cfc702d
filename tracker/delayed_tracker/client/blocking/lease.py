# Written by `make blocking` from client/aio/lease.py: edit that file.
"""Lease as a context: it acknowledges its positions if the work succeeded, and gives them back if it failed.

::

    with session.poll(100, wait_ms=10_000) as lease:
        for position in lease.messages:
            if not dispatch(position):
                lease.nack([position])
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self

from delayed_tracker.client.model.answers import AckAnswer, DueMessages, ExtendAnswer, NackAnswer, Position
from delayed_tracker.client.model.lease_state import LeaseState, columns_of
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.wire.columns import IntColumn


class LeaseOperations(Protocol):
    """Object that acknowledges, gives back and extends leased positions: a session."""

    def ack(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> AckAnswer:
        """Acknowledge leased positions."""
        ...

    def ack_whole(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> AckAnswer:
        """Acknowledge all positions that a lease still holds."""
        ...

    def nack(
        self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn, *, deliver_at_ms: int | None = None
    ) -> NackAnswer:
        """Give leased positions back."""
        ...

    def extend(
        self,
        lease_id: int,
        lease_ms: int,
        ledger_ids: IntColumn | None = None,
        entry_ids: IntColumn | None = None,
    ) -> ExtendAnswer:
        """Hold leased positions for longer."""
        ...


class Lease(LeaseState):
    """Due positions held until ``expires_at_ms`` (the server's clock); unless acknowledged, later polls return them.

    At the end of its context, the lease settles the positions that are not settled yet: a clean exit acknowledges them,
    an exception gives them back. An empty lease is falsy, and its context does nothing. One thread at a time may use a
    lease.
    """

    def __init__(self, session: LeaseOperations, *, lease_id: int, expires_at_ms: int, messages: DueMessages) -> None:
        super().__init__(lease_id=lease_id, expires_at_ms=expires_at_ms, messages=messages)
        self._session = session

    def ack(self, positions: Iterable[Position] | None = None) -> AckAnswer:
        """Acknowledge positions of this lease: they are no longer tracked.

        Args:
            positions: some of ``unsettled``; None is all of them.
        Raises:
            InvalidInput: a position is not of this lease, or is already settled; nothing was sent.
        """
        chosen = self._choose(positions)
        if not chosen:
            return AckAnswer(acked_count=0)
        settle = self._session.ack_whole if positions is None else self._session.ack
        answer = settle(self.lease_id, *columns_of(chosen))
        self._settle(chosen)
        return answer

    def nack(self, positions: Iterable[Position] | None = None, *, deliver_at_ms: int | None = None) -> NackAnswer:
        """Give positions of this lease back.

        Args:
            positions: some of ``unsettled``; None is all of them.
            deliver_at_ms: their new deadline; None: due again at once.
        Raises:
            InvalidInput: a position is not of this lease, or is already settled; nothing was sent.
        """
        chosen = self._choose(positions)
        if not chosen:
            return NackAnswer(returned_count=0)
        answer = self._session.nack(self.lease_id, *columns_of(chosen), deliver_at_ms=deliver_at_ms)
        self._settle(chosen)
        return answer

    def extend(self, lease_ms: int, positions: Iterable[Position] | None = None) -> ExtendAnswer:
        """Hold positions of this lease for ``lease_ms`` from now on.

        ``expires_at_ms`` changes if ``positions`` is None.

        Args:
            lease_ms: 1 to the server's maximum.
            positions: some of ``unsettled``; None is all of them.
        Raises:
            InvalidInput: a position is not of this lease, or is already settled; nothing was sent.
        """
        chosen = self._choose(positions)
        if not chosen:
            return ExtendAnswer(extended_count=0, expires_at_ms=self.expires_at_ms)
        if positions is None:
            answer = self._session.extend(self.lease_id, lease_ms)
            self.expires_at_ms = answer.expires_at_ms
            return answer
        return self._session.extend(self.lease_id, lease_ms, *columns_of(chosen))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.ack()
            return
        try:
            self.nack()
        except DelayedTrackerError as failure:
            error.add_note(self._note(failure))
