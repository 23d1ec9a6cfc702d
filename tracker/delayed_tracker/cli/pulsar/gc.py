"""Command ``delayed-tracker pulsar gc``: deletes trackers of the service whose subscriptions are gone from the cluster."""

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from delayed_tracker.cli.pulsar.collecting import Collected, Request, Shown, collect, is_wanted
from delayed_tracker.cli.pulsar.missing_cursors import Judged, Look, MissingCursor, Rules, Scope, Verdict
from delayed_tracker.cli.pulsar.options import ClusterUrl, DryRun, OneTopic, Yes
from delayed_tracker.cli.pulsar.phases import Phases
from delayed_tracker.cli.terminal.keyboard import require_consent
from delayed_tracker.cli.terminal.options import VARIABLE_OF_OPTION, AsJson, reject_tilde_path
from delayed_tracker.cli.terminal.output import counted, instant, notice, print_json, say, show, table
from delayed_tracker.cli.terminal.service import Service, with_credentials
from delayed_tracker.client import ClientCredentials
from delayed_tracker.cluster.address import ClusterAddress, connected

GRACE_S: Final = 3_600
"""Seconds for which a cursor must be missing, unless ``--grace`` says otherwise."""
GRACE_S_MAX: Final = 31 * 86_400
ROWS_SHOWN: Final = 100
"""Rows of each table without --json, at most; all are counted."""


@with_credentials
def gc_command(
    cluster: ClusterUrl,
    *,
    service: Annotated[
        str,
        typer.Option(
            "--service",
            "--server",
            envvar=VARIABLE_OF_OPTION["--server"],
            help="Address of the running service; tls://HOST:PORT demands TLS.",
            metavar="HOST:PORT",
        ),
    ],
    credentials: ClientCredentials,
    topic: OneTopic = None,
    topic_prefix: Annotated[
        str, typer.Option("--topic-prefix", help="Only topics that begin with this.", metavar="TEXT")
    ] = "",
    grace: Annotated[
        int,
        typer.Option(
            "--grace",
            help="Time for which a cursor must be missing. 0 deletes at once, and what is in use, too.",
            metavar="SECONDS",
            min=0,
            max=GRACE_S_MAX,
        ),
    ] = GRACE_S,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            help="File that remembers what was missing, for runs again and again; without it the command waits --grace.",
            metavar="FILE",
            callback=reject_tilde_path,
        ),
    ] = None,
    missing_namespaces: Annotated[
        bool,
        typer.Option(
            "--missing-namespaces",
            help="Delete trackers of namespaces that the cluster does not have, too: no other cluster uses the service.",
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete the trackers of a service whose subscriptions are gone: their cursors are missing for the grace time.

    Trackers outlive their subscriptions if the service was away when these, or their topics, were deleted. A cursor must be
    missing at two looks at least --grace apart, those of two runs with --state, and right before the deletion. Left are
    trackers that were opened in between or have leases, and those of namespaces that the cluster does not have.

    Example: delayed-tracker pulsar gc bookkeeper+zk:zk1:2181 --service 127.0.0.1:7650 --state gc.json --yes
    """
    address = ClusterAddress.parse(cluster, "CLUSTER")
    place = Service.at(service, credentials)
    request = Request(
        place.address,
        Scope.parse(topic, topic_prefix),
        Rules(1_000 * grace, missing_namespaces=missing_namespaces),
        state=state,
        dry_run=dry_run,
    )
    made = asyncio.run(_collect(address, place, request, yes=yes, as_json=as_json))
    if as_json:
        print_json(_document(made, request))
    elif made.deleted is None:
        say("nothing was changed" if dry_run else "nothing to delete")
    else:
        _show_left(made)
        messages = sum(one.deleted_count for one in made.deleted)
        left = len(made.judged) - len(made.deleted)
        say(
            f"{counted(len(made.deleted), 'tracker')} deleted, with {counted(messages, 'tracked message')}; "
            f"{counted(left, 'tracker')} without a cursor left"
        )


async def _collect(
    address: ClusterAddress, service: Service, request: Request, *, yes: bool, as_json: bool
) -> Collected:
    async def consent(count: int) -> None:
        when = f", if their cursors are still missing in {request.rules.grace_ms // 1_000} s" if request.waits else ""
        question = f"delete {counted(count, 'tracker')} from {service.address}{when}"
        await require_consent(question, yes=yes)

    def planned(found: Look, judged: list[Judged]) -> None:
        if not as_json:
            bars.end()
            _show_plan(found, judged, request)

    async with connected(address, "CLUSTER") as cluster, service.connect() as client:
        with Phases() as bars:
            now_ms = time.time_ns() // 1_000_000
            return await collect(cluster, client, request, Shown(bars.phase, planned, consent, notice), now_ms=now_ms)


def _show_plan(found: Look, judged: list[Judged], request: Request) -> None:
    wanted = [one for one in judged if is_wanted(one, request)]
    if wanted:
        rows = table(
            "trackers to delete", "topic", "subscription", "owner", "pending", "missing since", numbers=("pending",)
        )
        for one in wanted[:ROWS_SHOWN]:
            tracker = one.missing.tracker
            pending = str(tracker.pending_count) if tracker.open else "-"
            since = instant(one.sighting.since_ms)
            rows.add_row(tracker.topic, tracker.subscription, tracker.owner or "-", pending, since)
        show(rows)
        _say_more(len(wanted))
    _show_kept([(one.missing, one.verdict.value) for one in judged if not is_wanted(one, request)])
    others = f"; {found.other_count} of other names" if found.other_count else ""
    say(f"{counted(found.tracker_count, 'tracker')} looked for, {len(judged)} without a cursor{others}")


def _show_left(made: Collected) -> None:
    _show_kept(_left(made))


def _show_kept(left: list[tuple[MissingCursor, str]]) -> None:
    if not left:
        return
    rows = table("left as they are", "topic", "subscription", "reason")
    for missing, reason in left[:ROWS_SHOWN]:
        rows.add_row(*missing.key, reason)
    show(rows)
    _say_more(len(left))


def _say_more(count: int) -> None:
    if count > ROWS_SHOWN:
        say(f"and {count - ROWS_SHOWN} more; --json has all")


def _left(made: Collected) -> list[tuple[MissingCursor, str]]:
    """Return the trackers without a cursor that are not garbage, and those whose cursor was there again, with the reasons."""
    left = [(one.missing, one.verdict.value) for one in made.judged if one.verdict is not Verdict.GARBAGE]
    return left + [(one, "its cursor is there again") for one in made.reappeared]


def _document(made: Collected, request: Request) -> dict[str, Any]:
    return {
        "dry_run": request.dry_run,
        "now_ms": made.now_ms,
        "grace_s": request.rules.grace_ms // 1_000,
        "tracker_count": made.found.tracker_count,
        "other_count": made.found.other_count,
        "missing": [
            {
                "topic": one.missing.tracker.topic,
                "subscription": one.missing.tracker.subscription,
                "open": one.missing.tracker.open,
                "owner": one.missing.tracker.owner,
                "epoch": one.missing.tracker.epoch,
                "pending_count": one.missing.tracker.pending_count,
                "leased_count": one.missing.tracker.leased_count,
                "missing_since_ms": one.sighting.since_ms,
                "verdict": one.verdict.name.lower(),
            }
            for one in made.judged
        ],
        "deleted": made.deleted,
        "left": [
            {"topic": missing.tracker.topic, "subscription": missing.tracker.subscription, "reason": reason}
            for missing, reason in _left(made)
        ],
    }
