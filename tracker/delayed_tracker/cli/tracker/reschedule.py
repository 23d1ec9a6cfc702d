"""Command ``delayed-tracker reschedule``: gives positions another deadline and prints the result of each."""

import sys

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import instant, print_json, say
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.cli.tracker.deadlines import DeliverAt, InMs, require_deadline
from delayed_tracker.cli.tracker.positions import Positions, as_ranges, columns, parse_positions
from delayed_tracker.client import Position, RescheduleResult

_MEANING = {
    RescheduleResult.DUE: "due now: the next poll returns it",
    RescheduleResult.DUPLICATE: "named twice",
    RescheduleResult.LEASED: "leased, not rescheduled",
    RescheduleResult.UNKNOWN: "not tracked",
    RescheduleResult.BEYOND_MAX_DELAY: "deadline later than the service allows, not rescheduled",
}


@of_service
def reschedule(
    *,
    positions: Positions,
    topic: Topic,
    subscription: Subscription,
    deliver_at: DeliverAt = None,
    in_ms: InMs = None,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Give tracked positions that are not leased another deadline, sooner or later, and print the result of each.

    This opens the tracker and takes it over: a dispatcher that had it open is fenced and must open it again, and its
    leased positions return. The exit status is 1 if a position keeps its old deadline: it was leased nevertheless, or
    the new one is later than the service allows.

    Example: delayed-tracker reschedule --topic persistent://lab/main/delayed --subscription workers --in-ms 60000
    7:3 7:10-19
    """
    chosen = parse_positions("LEDGER:ENTRY", positions)
    deadline = require_deadline(deliver_at, in_ms)
    with service.connect_blocking() as client, client.open_tracker(topic, subscription) as session:
        at_ms = deadline.for_service_of(session)
        answer = session.reschedule([at_ms] * len(chosen), *columns(chosen))
    found: dict[RescheduleResult, list[Position]] = {result: [] for result in _MEANING}
    for position, result in zip(chosen, answer.results(len(chosen)), strict=True):
        if result in found:
            found[result].append(position)
    if as_json:
        others = {result.value: each for result, each in found.items()}
        print_json({"deliver_at_ms": at_ms, "rescheduled_count": answer.rescheduled_count, **others})
    else:
        leased, unknown = found[RescheduleResult.LEASED], found[RescheduleResult.UNKNOWN]
        counts = f"{answer.rescheduled_count} rescheduled, {len(leased)} leased, {len(unknown)} not tracked"
        say(f"{counts}; the new deadline is {instant(at_ms)}")
        for result, meaning in _MEANING.items():
            for positions_text in as_ranges(found[result]):
                say(f"{positions_text} {meaning}")
    if found[RescheduleResult.LEASED] or found[RescheduleResult.BEYOND_MAX_DELAY]:
        sys.exit(ExitCode.FAILURE)
