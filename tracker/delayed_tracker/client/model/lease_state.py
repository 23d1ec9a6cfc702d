"""State of a lease: the positions that are not settled yet. The same for the asyncio and the blocking client."""

from collections.abc import Iterable
from typing import TypeAlias

from delayed_tracker.client.model.answers import DueMessages, Position
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.wire.columns import IntColumn

Chosen: TypeAlias = DueMessages | tuple[Position, ...]
"""Positions of a lease: all of its first positions, as columns, or some of them."""


class LeaseState:
    """Due positions held until ``expires_at_ms`` (the server's clock); the part of a lease that makes no calls."""

    def __init__(self, *, lease_id: int, expires_at_ms: int, messages: DueMessages) -> None:
        self.lease_id = lease_id
        self.expires_at_ms = expires_at_ms
        self.messages = messages
        # None means all of them: most leases are settled as a whole, and need no object for each position.
        self._some_open: dict[Position, None] | None = None

    def __len__(self) -> int:
        """Return the number of positions that are neither acknowledged nor given back."""
        return len(self.messages) if self._some_open is None else len(self._some_open)

    @property
    def unsettled(self) -> tuple[Position, ...]:
        """Positions neither acknowledged nor given back, in delivery order."""
        return tuple(self._open)

    @property
    def _open(self) -> dict[Position, None]:
        if self._some_open is None:
            self._some_open = dict.fromkeys(self.messages)
        return self._some_open

    def _choose(self, positions: Iterable[Position] | None) -> Chosen:
        if positions is None:
            return self.messages if self._some_open is None else self.unsettled
        try:
            chosen = tuple(dict.fromkeys(positions))
        except TypeError as error:
            raise InvalidInput("positions", positions, "give an iterable of Position, or None for all") from error
        for offset, position in enumerate(chosen):
            if position not in self._open:
                raise InvalidInput(
                    "positions",
                    str(position) if isinstance(position, Position) else position,
                    "give positions of this lease that are not settled yet",
                    offsets=[offset],
                )
        return chosen

    def _settle(self, chosen: Chosen) -> None:
        if chosen is self.messages:
            self._some_open = {}
            return
        for position in chosen:
            self._open.pop(position, None)

    def _note(self, failure: DelayedTrackerError) -> str:
        # The caller's own error comes first; the positions return anyway when the lease expires.
        return f"{len(self)} leased positions could not be given back ({failure}); the lease will expire"


def columns_of(chosen: Chosen) -> tuple[IntColumn, IntColumn]:
    """Return positions as ledger ids and entry ids."""
    if isinstance(chosen, DueMessages):
        return chosen.ledger_ids, chosen.entry_ids
    return [position[0] for position in chosen], [position[1] for position in chosen]
