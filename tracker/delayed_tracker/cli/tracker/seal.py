"""Command ``delayed-tracker seal``: stores what a tracker has in memory alone as snapshots."""

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import print_json, say
from delayed_tracker.cli.terminal.service import Service, of_service


@of_service
def seal(topic: Topic, subscription: Subscription, service: Service, as_json: AsJson = False) -> None:
    """Seal the mutable bucket of a tracker and its late messages, however few; the snapshots are stored soon afterwards.

    This opens the tracker and takes it over: a dispatcher that had it open is fenced and must open it again.

    Example: delayed-tracker seal --topic persistent://lab/main/delayed --subscription workers
    """
    with service.connect_blocking() as client, client.open_tracker(topic, subscription) as session:
        sealed_count = session.seal()
    if as_json:
        print_json({"sealed_count": sealed_count})
        return
    say(f"{sealed_count} sealed")
