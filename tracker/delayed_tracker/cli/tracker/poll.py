"""Command ``delayed-tracker poll``: prints the messages that are due now."""

import enum
from dataclasses import dataclass
from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import (
    duration,
    flush_answer,
    instant,
    print_json,
    print_json_in_parts,
    say,
    say_first,
    show,
    table,
)
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.client import AckAnswer, DueMessages, Position
from delayed_tracker.client.blocking import Lease
from delayed_tracker.core.values.errors import DelayedTrackerError


class LeaseAction(enum.StrEnum):
    """Action on the positions after they are printed."""

    NACK = "nack"
    """Give them back at once."""
    ACK = "ack"
    """Acknowledge them: they are no longer tracked."""
    KEEP = "keep"
    """Leave them leased until the lease expires."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of ``--then ack``. The positions are in the order in which they were printed."""

    acked_count: int
    stale: tuple[Position, ...]
    """Positions whose lease was over: still tracked, so a poll returns them again."""
    unknown: tuple[Position, ...]
    """Positions that are not tracked any more."""


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

    If they cannot be printed, they are given back, whatever is to follow.
    This opens the tracker and takes it over: a dispatcher that had it open is fenced and must open it again.

    Example: delayed-tracker poll --topic persistent://lab/main/delayed --subscription workers --max 10
    """
    with (
        service.connect_blocking() as client,
        client.open_tracker(topic, subscription) as session,
    ):
        lease = session.poll(max_messages, wait_ms=wait_ms, lease_ms=lease_ms)
        try:
            if as_json:
                fields = _fields(lease, session.epoch)
                if afterwards is LeaseAction.ACK:
                    print_json_in_parts(fields, lambda: {"ack": _settled(lease.messages, lease.ack())})
                else:
                    print_json(fields)
            else:
                _print(lease.messages, topic, subscription)
                if afterwards is LeaseAction.ACK:
                    _print_settled(_settled(lease.messages, lease.ack()))
            if afterwards is LeaseAction.NACK:
                lease.nack()
        except BaseException as error:
            # Ctrl-C and a reader that is gone, too: positions that nobody saw must be due again. After an ack nothing is left.
            _give_back(lease, error)
            raise


def _give_back(lease: Lease, error: BaseException) -> None:
    try:
        lease.nack()
    except DelayedTrackerError as failure:
        error.add_note(f"the positions could not be given back ({failure}); the lease will expire")


def _fields(lease: Lease, epoch: int) -> dict[str, object]:
    messages = lease.messages
    return {
        "epoch": epoch,
        "lease_id": lease.lease_id,
        "lease_expires_at_ms": lease.expires_at_ms,
        "next_delivery_at_ms": messages.next_delivery_at_ms,
        "server_time_ms": messages.server_time_ms,
        "replay_required": messages.replay_required,
        "pause_reading": messages.pause_reading,
        "messages": [
            {"deliver_at_ms": deliver_at_ms, "ledger_id": ledger_id, "entry_id": entry_id}
            for deliver_at_ms, (ledger_id, entry_id) in zip(messages.deliver_at_ms, messages, strict=True)
        ],
    }


def _print(messages: DueMessages, topic: str, subscription: str) -> None:
    rows = table(f"due of {subscription} of {topic}", "position", "deliver at", "late", numbers=("late",))
    for deliver_at_ms, position in zip(messages.deliver_at_ms, messages, strict=True):
        rows.add_row(str(position), instant(deliver_at_ms), duration(messages.server_time_ms - deliver_at_ms))
    show(rows)
    say(f"{len(messages)} due; next delivery at {instant(messages.next_delivery_at_ms)}")
    if messages.replay_required:
        say("snapshots were lost: replay from the mark-delete position")
    flush_answer()


def _settled(messages: DueMessages, answer: AckAnswer) -> Settled:
    each = tuple(messages)
    return Settled(
        answer.acked_count,
        stale=tuple(each[offset] for offset in answer.stale_offsets),
        unknown=tuple(each[offset] for offset in answer.unknown_offsets),
    )


def _print_settled(settled: Settled) -> None:
    say(f"{settled.acked_count} acknowledged")
    say_first("no longer leased, will be due again", settled.stale)
    say_first("no longer tracked", settled.unknown)
