"""Options for one deadline: an instant, or a time from now by the service's clock."""

from dataclasses import dataclass
from typing import Annotated

import typer

from delayed_tracker.cli.tracker.offering import parse_instant
from delayed_tracker.client.blocking import TrackerSession
from delayed_tracker.core.values.columns import INT63_MAX

DeliverAt = Annotated[
    str | None, typer.Option("--at", help="Deadline: ISO-8601 (UTC) or epoch milliseconds.", metavar="INSTANT")
]
InMs = Annotated[
    int | None,
    typer.Option("--in-ms", min=0, max=INT63_MAX, help="Deadline in milliseconds from now, by the service's clock."),
]


@dataclass(frozen=True, slots=True)
class Deadline:
    """A deadline as the options have it; exactly one of the two is set."""

    at_ms: int | None
    in_ms: int | None

    def for_service_of(self, session: TrackerSession) -> int:
        """Return the deadline in milliseconds since 1970, UTC, at most 2^63-1; asks for the service's time if needed."""
        if self.at_ms is not None:
            return self.at_ms
        return min(session.next_delivery_time().server_time_ms + (self.in_ms or 0), INT63_MAX)


def require_deadline(deliver_at: str | None, in_ms: int | None) -> Deadline:
    """Return the deadline that the options give.

    Raises:
        typer.BadParameter: there is none, or there are two.
        InvalidInput: the instant is none, or out of range.
    """
    if (deliver_at is None) == (in_ms is None):
        raise typer.BadParameter("give either --at INSTANT or --in-ms MILLISECONDS", param_hint="--at")
    return Deadline(None if deliver_at is None else parse_instant("--at", deliver_at), in_ms)
