"""Command ``delayed-tracker cancel``: cancels positions and prints the result of each."""

import sys

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import print_json, say
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.cli.tracker.positions import Positions, as_ranges, columns, parse_positions


@of_service
def cancel(
    *,
    positions: Positions,
    topic: Topic,
    subscription: Subscription,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Cancel positions that are not leased. Acknowledge them in the cursor too, otherwise a replay adds them again.

    This opens the tracker and takes it over: a dispatcher that had it open is fenced and must open it again, and its
    leased positions return. The exit status is 1 if a position was leased nevertheless, and so was not cancelled.

    Example: delayed-tracker cancel --topic persistent://lab/main/delayed --subscription workers 7:3 7:10-19
    """
    chosen = parse_positions("LEDGER:ENTRY", positions)
    with service.connect_blocking() as client, client.open_tracker(topic, subscription) as session:
        answer = session.cancel(*columns(chosen))
    leased = [chosen[offset] for offset in answer.leased_offsets]
    unknown = [chosen[offset] for offset in answer.unknown_offsets]
    if as_json:
        print_json({"cancelled_count": answer.cancelled_count, "leased": leased, "unknown": unknown})
    else:
        say(f"{answer.cancelled_count} cancelled, {len(leased)} leased, {len(unknown)} not tracked")
        for word, found in (("leased, not cancelled", leased), ("not tracked", unknown)):
            for positions_text in as_ranges(found):
                say(f"{positions_text} {word}")
    if leased:
        sys.exit(ExitCode.FAILURE)
