"""Commits into a running service: it imports the rebuilt buckets and changes each tracker's epoch, live."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from types import TracebackType
from typing import Final, Self

import google_crc32c

from delayed_tracker.client import ClientCredentials, SnapshotToImport
from delayed_tracker.client import Position as ClientPosition
from delayed_tracker.client.blocking import DelayedTrackerClient
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.spark.commit.commit import Committed, RebuiltTracker
from delayed_tracker.spark.commit.rebuilt_bucket import RebuiltBucket

SCHEME: Final = "grpc://"
OWNER: Final = "spark-rebuild"


class ServiceCommit:
    """``CommitTarget`` that commits through a running service.

    Args:
        address: host:port of its gRPC.
        credentials: for it.
    """

    def __init__(self, address: str, credentials: ClientCredentials) -> None:
        self._address = address
        self._credentials = credentials
        self._stack = ExitStack()
        self._client: DelayedTrackerClient | None = None
        self._epochs: dict[tuple[str, str], int] = {}

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            Unavailable: no service answers there.
        """
        self._client = self._stack.enter_context(
            DelayedTrackerClient.connect(self._address, credentials=self._credentials)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._stack.close()

    @property
    def entry_bytes_max(self) -> int | None:
        """Return None: the service refuses what its storage does not take."""
        return None

    def begin(self, trackers: Sequence[tuple[str, str]]) -> None:
        """Store the epochs of the trackers that have one; the others are imported at any epoch."""
        assert self._client is not None
        wanted = set(trackers)
        for found in self._client.list_trackers():
            if (found.topic, found.subscription) in wanted and found.epoch:
                self._epochs[found.topic, found.subscription] = found.epoch

    def commit(self, tracker: RebuiltTracker) -> Committed:
        """Import the buckets in place of the tracker's whole content. The old content is not compared.

        Raises:
            Fenced: the tracker was opened or cleared since :meth:`begin`; nothing was changed.
            ImportRefused: another import into the tracker is in flight, or the service keeps no snapshots.
            StagedWorkInvalid: a bucket differs from the staged one; nothing was changed.
        """
        assert self._client is not None
        answer = self._client.import_snapshots(
            tracker.topic,
            tracker.subscription,
            map(_to_import, tracker.buckets),
            bucket_count=len(tracker.buckets),
            owner=OWNER,
            expected_epoch=self._epochs.get((tracker.topic, tracker.subscription)),
            mark_delete=None if tracker.mark_delete == BEFORE_ALL else _sent(tracker.mark_delete),
            offered_through=None if tracker.offered_through == BEFORE_ALL else _sent(tracker.offered_through),
        )
        self._epochs[tracker.topic, tracker.subscription] = answer.epoch
        return Committed(answer.epoch, answer.replaced_count, unchanged=False)


def _to_import(bucket: RebuiltBucket) -> SnapshotToImport:
    content = bucket.open()
    entries = chain((content.metadata,), content.segments())
    return SnapshotToImport(_sent(bucket.first), _sent(bucket.last), 1 + len(content.bounds), _checked(entries))


def _checked(entries: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    for entry in entries:
        yield entry, google_crc32c.value(entry)


def _sent(position: Position) -> ClientPosition:
    return ClientPosition(position.ledger_id, position.entry_id)
