"""Command ``delayed-tracker poll``: prints the messages that are due now."""

import asyncio
import enum
from dataclasses import dataclass
from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import duration, instant, print_json, say, show, table
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.client import DueMessages


class LeaseAction(enum.StrEnum):
    """Action on the positions after they are printed."""

    NACK = "nack"
    """Give them back at once."""
    ACK = "ack"
    """Acknowledge them: they are no longer tracked."""
    KEEP = "keep"
    """Leave them leased until the lease expires."""


@dataclass(frozen=True, slots=True)
class Polled:
    """Result of one poll."""

    epoch: int
    lease_id: int
    expires_at_ms: int
    messages: DueMessages


@of_service
def poll(
    *,
    topic: Topic,
    subscription: Subscription,
    max_messages: Annotated[int, typer.Option("--max", min=1, help="At most this many messages.")] = 100,
    wait_ms: Annotated[int, typer.Option("--wait-ms", min=0, help="Wait this long for the first due message.")] = 0,
    lease_ms: Annotated[
        int | None, typer.Option("--lease-ms", min=1, help="Lease duration in milliseconds; default: the service's.")
    ] = None,
    afterwards: Annotated[LeaseAction, typer.Option("--then", help="What to do with them once printed.")] = (
        LeaseAction.NACK
    ),
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Print the due messages, then give them back (or acknowledge them with --then ack).

    This opens the tracker and takes it over: a dispatcher that had it open is fenced and must open it again.

    Example: delayed-tracker poll --topic persistent://lab/main/delayed --subscription workers --max 10
    """
    polled = asyncio.run(
        _poll(
            service,
            topic,
            subscription,
            max_messages=max_messages,
            wait_ms=wait_ms,
            lease_ms=lease_ms,
            afterwards=afterwards,
        )
    )
    messages = polled.messages
    if as_json:
        print_json(
            {
                "epoch": polled.epoch,
                "lease_id": polled.lease_id,
                "lease_expires_at_ms": polled.expires_at_ms,
                "next_delivery_at_ms": messages.next_delivery_at_ms,
                "server_time_ms": messages.server_time_ms,
                "replay_required": messages.replay_required,
                "pause_reading": messages.pause_reading,
                "messages": [
                    {"deliver_at_ms": deliver_at_ms, "ledger_id": ledger_id, "entry_id": entry_id}
                    for deliver_at_ms, (ledger_id, entry_id) in zip(messages.deliver_at_ms, messages, strict=True)
                ],
            }
        )
        return
    rows = table(f"due of {subscription} of {topic}", "position", "deliver at", "late", numbers=("late",))
    for deliver_at_ms, position in zip(messages.deliver_at_ms, messages, strict=True):
        rows.add_row(str(position), instant(deliver_at_ms), duration(messages.server_time_ms - deliver_at_ms))
    show(rows)
    say(f"{len(messages)} due; next delivery at {instant(messages.next_delivery_at_ms)}")
    if messages.replay_required:
        say("snapshots were lost: replay from the mark-delete position")


async def _poll(
    service: Service,
    topic: str,
    subscription: str,
    *,
    max_messages: int,
    wait_ms: int,
    lease_ms: int | None,
    afterwards: LeaseAction,
) -> Polled:
    async with (
        service.connect() as client,
        await client.open_tracker(topic, subscription) as session,
    ):
        lease = await session.poll(max_messages, wait_ms=wait_ms, lease_ms=lease_ms)
        if afterwards is LeaseAction.ACK:
            await lease.ack()
        elif afterwards is LeaseAction.NACK:
            await lease.nack()
        return Polled(session.epoch, lease.lease_id, lease.expires_at_ms, lease.messages)
