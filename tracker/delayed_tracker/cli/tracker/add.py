"""Command ``delayed-tracker add``: adds positions to a tracker."""

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import instant, print_json, show, table
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.cli.tracker.deadlines import DeliverAt, InMs, require_deadline
from delayed_tracker.cli.tracker.positions import Positions, columns, parse_positions
from delayed_tracker.client import AddResult, Position

_MEANING = {
    AddResult.ADDED: "tracked from now on",
    AddResult.DUE: "due already: not tracked, to be sent now",
    AddResult.DUPLICATE: "tracked before: the first deadline stays",
    AddResult.BEYOND_MAX_DELAY: "deadline later than the service allows: not tracked",
    AddResult.BELOW_MARK_DELETE: "acknowledged already: not tracked",
}


@of_service
def add(
    *,
    positions: Positions,
    topic: Topic,
    subscription: Subscription,
    deliver_at: DeliverAt = None,
    in_ms: InMs = None,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Add positions with one deadline and print the result of each.

    This opens the tracker and takes it over: a dispatcher that had it open is fenced and must open it again.

    Example: delayed-tracker add --topic persistent://lab/main/delayed --subscription workers --in-ms 60000 7:0-99
    """
    offered = parse_positions("LEDGER:ENTRY", positions)
    deadline = require_deadline(deliver_at, in_ms)
    with service.connect_blocking() as client, client.open_tracker(topic, subscription) as session:
        at_ms = deadline.for_service_of(session)
        answer = session.add_columns([at_ms] * len(offered), *columns(offered))
    by_result: dict[AddResult, list[Position]] = {result: [] for result in AddResult}
    for position, result in zip(offered, answer.results(len(offered)), strict=True):
        by_result[result].append(position)
    if as_json:
        document = {f"{result.value}_count": len(found) for result, found in by_result.items()}
        refused = {result.value: found for result, found in by_result.items() if result is not AddResult.ADDED}
        print_json({"deliver_at_ms": at_ms, **document, **refused})
        return
    rows = table(f"offered for {instant(at_ms)}", "outcome", "positions", "first", "meaning", numbers=("positions",))
    for result, found in by_result.items():
        if found:
            rows.add_row(result.value.replace("_", " "), str(len(found)), str(found[0]), _MEANING[result])
    show(rows)
