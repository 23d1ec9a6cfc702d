"""Where ``spark-rebuild verify`` finds the index that is in use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from delayed_tracker.cli.spark.commit_target import storage_file
from delayed_tracker.cli.spark.service_commit import SCHEME
from delayed_tracker.client import TrackerNotOpen
from delayed_tracker.client.blocking import DelayedTrackerClient, TrackerView
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.spark.commit.stored_index import StoredIndex
from delayed_tracker.spark.errors import IndexNotReadable
from delayed_tracker.spark.steps.comparing import LiveIndex

_PAGE: Final = 10_000
"""Messages in one answer of a service, at most."""


class IndexNotOpen(IndexNotReadable):
    """Nobody has the tracker open on the service: open it, or compare with the storage."""

    reason = "TRACKER_NOT_OPEN"


class IndexTooDense(IndexNotReadable):
    """A service cannot be asked for more messages of one deadline than fit one answer."""

    reason = "INDEX_TOO_DENSE"


@contextmanager
def live_index(target: str) -> Iterator[tuple[LiveIndex, list[str]]]:
    """The index of a URL, and a list that fills with the buckets that cannot be read.

    Raises:
        StorageInUse: a service has it open: ask that one.
        Unavailable: no service answers there.
        InvalidInput, UnknownStorageScheme: it names none, or a file that is not there.
    """
    if target.startswith(SCHEME):
        with DelayedTrackerClient.connect(target.removeprefix(SCHEME)) as client:
            yield ServiceIndex(client), []
    else:
        index = StoredIndex(target)
        file = storage_file(target)
        # What only reads makes no storage.
        if file is not None and not (file.is_dir() or (file.exists() and file.stat().st_size)):
            what = "is empty" if file.exists() else "does not exist"
            raise InvalidInput("--against", target, f"the file {what}; give the service's bucketSnapshotStorageUrl")
        with index as stored:
            yield stored, stored.lost


class ServiceIndex:
    """A ``LiveIndex`` of a service that runs; it has the trackers that somebody has opened."""

    def __init__(self, client: DelayedTrackerClient) -> None:
        self._client = client

    def read(self, topic: str, subscription: str) -> IndexColumns:
        """See ``LiveIndex``.

        Raises:
            IndexNotOpen: nobody has opened it: open it, or compare with the storage.
            IndexTooDense: more messages have one deadline than fit one answer.
        """
        view = self._client.view_tracker(topic, subscription)
        try:
            return IndexColumns.concat(list(_pages(view)))
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
        # More may follow of the last deadline: its messages come again with the next page.
        last_ms = int(page.deliver_at_ms[-1])
        if last_ms == from_ms and int(page.deliver_at_ms[0]) == last_ms:
            raise IndexTooDense(
                f"more than {_PAGE} messages of {view.subscription!r} of {view.topic!r} are due at {last_ms} ms; stop the "
                "service and compare with its storage"
            )
        yield page.take(page.deliver_at_ms < last_ms)
        from_ms = last_ms
