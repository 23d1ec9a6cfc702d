"""Command ``delayed-tracker buckets``: lists the buckets of one tracker, one row each."""

import asyncio

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import instant, print_json, show, size, table
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.client import Bucket


@of_service
def buckets(topic: Topic, subscription: Subscription, service: Service, as_json: AsJson = False) -> None:
    """List the buckets of one open tracker, without taking it over.

    Example: delayed-tracker buckets --topic persistent://lab/main/delayed --subscription workers
    """
    listed = asyncio.run(_read(service, topic, subscription))
    if as_json:
        print_json({"buckets": listed})
        return
    numbers = ("id", "tracked", "sealed", "segments", "loaded", "snapshot")
    rows = table(
        f"{subscription} of {topic}",
        "id", "state", "first", "last", "tracked", "sealed", "segments", "loaded", "earliest", "latest", "snapshot",
        numbers=numbers,
    )  # fmt: skip
    for bucket in listed:
        rows.add_row(
            "-" if bucket.bucket_id is None else str(bucket.bucket_id),
            bucket.state.value,
            str(bucket.first),
            str(bucket.last),
            str(bucket.tracked_count),
            str(bucket.sealed_count),
            str(bucket.segment_count),
            str(bucket.loaded_segment_count),
            instant(bucket.min_deliver_at_ms),
            instant(bucket.max_deliver_at_ms),
            size(bucket.snapshot_bytes),
        )
    show(rows)


async def _read(service: Service, topic: str, subscription: str) -> tuple[Bucket, ...]:
    async with service.connect() as client:
        return await client.view_tracker(topic, subscription).buckets()
