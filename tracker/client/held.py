"""What a lease still holds: which positions may be settled, and which were. The same for both shells."""

from collections.abc import Iterable

from tracker.client.answers import DueMessages, Position
from tracker.core.errors import DelayedTrackerError, InvalidInput


class HeldPositions:
    """Due positions held until ``expires_at_ms`` (the server's clock); the part of a lease that makes no calls."""

    def __init__(self, *, lease_id: int, expires_at_ms: int, messages: DueMessages) -> None:
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
            self._open.pop(position, None)

    def _note(self, failure: DelayedTrackerError) -> str:
        # The work's own error is the one to see; the positions come back anyway when the lease expires.
        return f"{len(self)} leased positions could not be given back ({failure}); the lease will expire"


def columns_of(positions: Iterable[Position]) -> tuple[list[int], list[int]]:
    """Positions as ledger ids and entry ids."""
    chosen = tuple(positions)
    return [position[0] for position in chosen], [position[1] for position in chosen]
