"""Command ``delayed-tracker stats``: prints sizes and counters of one tracker."""

import asyncio

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import instant, print_json, say, show, size, table
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.client import TrackerStats

_TIMES = frozenset({"next_delivery_at_ms", "server_time_ms"})
_SIZES = frozenset({"snapshot_bytes", "membership_bytes", "memory_bytes", "log_bytes"})


@of_service
def stats(topic: Topic, subscription: Subscription, service: Service, as_json: AsJson = False) -> None:
    """Print sizes and counters of one open tracker, without taking it over.

    Example: delayed-tracker stats --topic persistent://lab/main/delayed --subscription workers
    """
    answer = asyncio.run(_read(service, topic, subscription))
    if as_json:
        print_json(answer)
        return
    rows = table(f"{subscription} of {topic}", "what", "value", numbers=("value",))
    for name in TrackerStats.__dataclass_fields__:
        value = getattr(answer, name)
        if name in _TIMES:
            shown = instant(value)
        elif name in _SIZES:
            shown = size(value)
        else:
            shown = "-" if value is None else str(value)
        rows.add_row(name.removesuffix("_ms").replace("_", " "), shown)
    show(rows)
    if answer.unaccounted_count:
        say(f"{answer.unaccounted_count} positions are missing from all counters: please report this")


async def _read(service: Service, topic: str, subscription: str) -> TrackerStats:
    async with service.connect() as client:
        return await client.view_tracker(topic, subscription).stats()
