"""Options of the format ``delayed_snapshots``, and their checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.spark.commit.owned_storage import is_shared
from delayed_tracker.spark.snapshots.live_snapshots import PART_BYTES
from delayed_tracker.spark.source.source_options import Option, choice, option_values, positive_bytes
from delayed_tracker.storage.objects.present_objects import FORMAT_KEY
from delayed_tracker.storage.registry import open_storage

SNAPSHOT_OPTIONS: Final = (
    Option("url", "", "the storage, as `bucketSnapshotStorageUrl` has it: one that processes share"),
    Option("topic", "", "one topic's name; all topics without it"),
    Option("subscription", "", "one subscription's name; all subscriptions without it"),
    Option("onError", "fail", "`fail` at the first bucket that cannot be read, or `skip`: a row with `error` for it"),
    Option("partitionBytes", str(PART_BYTES), "stored bytes that one task reads, about"),
)

_DIRECTORY: Final = "file://"


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """Parsed options."""

    url: str
    topic: str
    """Empty for all topics."""
    subscription: str
    """Empty for all subscriptions."""
    on_error: ErrorPolicy
    partition_bytes: int

    def chosen(self, trackers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the chosen ones of all (topic, subscription)."""
        return [
            (topic, subscription)
            for topic, subscription in trackers
            if self.topic in {"", topic} and self.subscription in {"", subscription}
        ]


def parse_snapshot_options(given: Mapping[str, str]) -> SnapshotOptions:
    """Parse the options of a query.

    Args:
        given: by name, in any case; ``path`` stands for ``url``.
    Raises:
        InvalidInput: an unknown option, a value out of range, no URL, or that of a storage of one process.
        UnknownStorageScheme, StorageBackendMissing: no installed storage has this URL.
    """
    values = option_values(SNAPSHOT_OPTIONS, given)
    url = values["url"]
    if not is_shared(url):
        raise InvalidInput(
            "url",
            url,
            "tasks read it themselves: give a storage that processes share, bookkeeper:zk://…, s3://…, gs://…, az://… or "
            "file:///DIR",
        )
    open_storage(url)
    return SnapshotOptions(
        url=url,
        topic=values["topic"],
        subscription=values["subscription"],
        on_error=choice("onError", values["onError"], ErrorPolicy),
        partition_bytes=positive_bytes("partitionBytes", values["partitionBytes"]),
    )


def require_storage(url: str) -> None:
    """Raise InvalidInput if a storage in a directory does not exist, because opening it would create it."""
    directory = url.removeprefix(_DIRECTORY)
    if directory != url and not Path(directory, FORMAT_KEY).exists():
        raise InvalidInput(
            "url", url, "there is no storage in this directory; give the service's bucketSnapshotStorageUrl"
        )
