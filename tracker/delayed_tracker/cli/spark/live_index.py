"""Opens the index in use for ``spark-rebuild verify``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from delayed_tracker.cli.spark.commit_target import storage_file
from delayed_tracker.cli.spark.service_commit import SCHEME
from delayed_tracker.client import ClientCredentials, TrackerNotOpen
from delayed_tracker.client.blocking import DelayedTrackerClient, TrackerView
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.spark.commit.owned_storage import is_shared
from delayed_tracker.spark.errors import IndexNotReadable
from delayed_tracker.spark.snapshots.live_snapshots import LiveSnapshots
from delayed_tracker.spark.steps.live_index import DriverIndex, LiveIndex, SharedIndex

_PAGE: Final = 10_000
"""Messages in one answer of a service, at most."""


class IndexNotOpen(IndexNotReadable):
    """The tracker is not open on the service: open it, or compare with the storage."""

    reason = "TRACKER_NOT_OPEN"


class IndexTooDense(IndexNotReadable):
    """More messages have one deadline than one answer of a service can contain."""

    reason = "INDEX_TOO_DENSE"


@contextmanager
def live_index(target: str, credentials: ClientCredentials) -> Iterator[LiveIndex]:
    """Open the index of a URL and yield it. Tasks read a storage that processes share, the driver any other index.

    Args:
        target: the URL.
        credentials: for a service.
    Raises:
        StorageInUse: a service has the storage open: use that service.
        Unavailable: no service answers there.
        InvalidInput, UnknownStorageScheme: the URL names no index, or a file that does not exist.
    """
    if target.startswith(SCHEME):
        with DelayedTrackerClient.connect(target.removeprefix(SCHEME), credentials=credentials) as client:
            yield DriverIndex(ServiceIndex(client))
        return
    storage = LiveSnapshots(target)
    file = storage_file(target)
    # Reading must not create a storage.
    if file is not None and not (file.is_dir() or (file.exists() and file.stat().st_size)):
        what = "is empty" if file.exists() else "does not exist"
        raise InvalidInput("--against", target, f"the file {what}; give the service's bucketSnapshotStorageUrl")
    with storage:
        # One that is shared can be opened any number of times.
        yield SharedIndex(target) if is_shared(target) else DriverIndex(storage)


class ServiceIndex:
    """``PagedIndex`` of a running service; contains only trackers that are open."""

    def __init__(self, client: DelayedTrackerClient) -> None:
        self._client = client

    def pending(self, topic: str, subscription: str) -> Iterator[IndexColumns]:
        """See ``PagedIndex``.

        Raises:
            IndexNotOpen: the tracker is not open: open it, or compare with the storage.
            IndexTooDense: more messages have one deadline than fit one answer.
        """
        view = self._client.view_tracker(topic, subscription)
        try:
            yield from _pages(view)
        except TrackerNotOpen as error:
            raise IndexNotOpen(f"{error.message}, or stop the service and compare with its storage") from error


def _pages(view: TrackerView) -> Iterator[IndexColumns]:
    from_ms = 0
    while True:
        peeked = view.peek(_PAGE, from_ms=from_ms)
        page = IndexColumns(
            *(np.array(column, np.int64) for column in (peeked.deliver_at_ms, peeked.ledger_ids, peeked.entry_ids))
        )
        if not peeked.truncated:
            yield page
            return
        # More messages of the last deadline may follow, so all of them are read with the next page.
        last_ms = int(page.deliver_at_ms[-1])
        if last_ms == from_ms and int(page.deliver_at_ms[0]) == last_ms:
            raise IndexTooDense(
                f"more than {_PAGE} messages of {view.subscription!r} of {view.topic!r} are due at {last_ms} ms; stop the "
                "service and compare with its storage"
            )
        yield page.take(page.deliver_at_ms < last_ms)
        from_ms = last_ms
