"""Command ``delayed-tracker verify``: compares all snapshots of a tracker with the catalogue and the index."""

import sys

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import print_json, say, show, size, table
from delayed_tracker.cli.terminal.service import Service, of_service


@of_service
def verify(topic: Topic, subscription: Subscription, service: Service, as_json: AsJson = False) -> None:
    """Verify the snapshots of a tracker, open or not, and change nothing; the exit status is 1 if one has a problem.

    Example: delayed-tracker verify --topic persistent://lab/main/delayed --subscription workers
    """
    with service.connect_blocking() as client:
        report = client.view_tracker(topic, subscription).verify()
    if as_json:
        print_json(
            {"sound": report.sound, "snapshots": report.snapshots, "orphan_bucket_ids": report.orphan_bucket_ids}
        )
    else:
        numbers = ("bucket", "segments", "messages", "snapshot")
        rows = table(f"snapshots for {subscription} of {topic}", *numbers, "verdict", numbers=numbers)
        for verdict in report.snapshots:
            rows.add_row(
                str(verdict.bucket_id),
                str(verdict.segment_count),
                str(verdict.index_count),
                size(verdict.snapshot_bytes),
                "; ".join(verdict.problems) or "sound",
            )
        show(rows)
        damaged = sum(1 for verdict in report.snapshots if verdict.problems)
        say(f"{len(report.snapshots)} verified, {damaged} with problems")
        if report.orphan_bucket_ids:
            listed = ", ".join(map(str, report.orphan_bucket_ids))
            say(f"snapshots not in the catalogue, deleted at the next load: {listed}")
    if not report.sound:
        sys.exit(ExitCode.FAILURE)
