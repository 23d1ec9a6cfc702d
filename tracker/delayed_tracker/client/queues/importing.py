"""Stream of requests that imports snapshots, and the answer of the service.

The creator of the bytes gives each entry's checksum. So damage on the way is always found.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from delayed_tracker.client.model import convert
from delayed_tracker.client.model.answers import Position
from delayed_tracker.client.model.bounds import (
    UINT32_MAX,
    UINT64_MAX,
    bounded,
    claim_message,
    place_message,
    position_message,
    require_type,
    text,
)
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.v1 import tracker_pb2 as pb

PORTION_BYTES: Final = 256 * 2**10
"""Most bytes of the entries in one request; a larger entry is sent alone."""


@dataclass(frozen=True, slots=True)
class SnapshotToImport:
    """One sealed bucket."""

    first: Position
    last: Position
    entry_count: int
    """Number of entries: the metadata and one for each segment."""
    entries: Iterable[tuple[bytes, int]]
    """The metadata, then the segments in time order; each with its CRC32C. Consumed once."""


@dataclass(frozen=True, slots=True)
class ImportAnswer:
    """Result of an import."""

    epoch: int
    """Epoch of the tracker from now on; the next open gets a higher one."""
    bucket_count: int
    tracked_count: int
    """Positions of the snapshots that are neither acknowledged nor due."""
    replaced_count: int
    """Positions that were tracked before."""
    replay_from: Position | None
    """Position that the next open of the tracker returns as the start of the replay; None is from the beginning."""


def import_header(
    topic: str,
    subscription: str,
    *,
    owner: str,
    bucket_count: int,
    expected_epoch: int | None,
    mark_delete: Position | None,
    offered_through: Position | None = None,
) -> pb.ImportSnapshotsRequest:
    """Return the first request. Raises InvalidInput for a value that no header can carry."""
    header = pb.ImportHeader(
        tracker=convert.tracker_ref(topic, subscription),
        owner=text("owner", owner),
        bucket_count=bounded("bucket_count", bucket_count, minimum=0, maximum=UINT32_MAX),
    )
    if expected_epoch is not None:
        header.expected_epoch = bounded("expected_epoch", expected_epoch, minimum=0, maximum=UINT64_MAX)
    if mark_delete is not None:
        header.mark_delete.CopyFrom(place_message("mark_delete", mark_delete))
    if offered_through is not None:
        header.offered_through.CopyFrom(claim_message("offered_through", offered_through))
    return pb.ImportSnapshotsRequest(header=header)


def import_requests(
    header: pb.ImportSnapshotsRequest, buckets: Iterable[SnapshotToImport]
) -> Iterator[pb.ImportSnapshotsRequest]:
    """Yield all requests of an import, each made when gRPC reads it.

    Raises:
        InvalidInput: ``buckets`` is not iterable. While iterating: the number of buckets or entries is not as
            announced.
    """
    # Checked now, before anything is sent, and not when gRPC reads the first request.
    require_type("snapshots", buckets, Iterable, "give an iterable of SnapshotToImport")
    return _requests(header, buckets)


def _requests(
    header: pb.ImportSnapshotsRequest, buckets: Iterable[SnapshotToImport]
) -> Iterator[pb.ImportSnapshotsRequest]:
    yield header
    count = 0
    for bucket in buckets:
        count += 1
        require_type("snapshots", bucket, SnapshotToImport, "give a SnapshotToImport for each bucket")
        yield pb.ImportSnapshotsRequest(
            bucket=pb.ImportedBucket(
                first=position_message(bucket.first),
                last=position_message(bucket.last),
                entry_count=bounded("entry_count", bucket.entry_count, minimum=1, maximum=UINT32_MAX),
            )
        )
        yield from _portions(bucket)
    if count != header.header.bucket_count:
        raise InvalidInput("bucket_count", header.header.bucket_count, f"give {count}, the number of the buckets")
    yield pb.ImportSnapshotsRequest(end=pb.ImportEnd())


def _portions(bucket: SnapshotToImport) -> Iterator[pb.ImportSnapshotsRequest]:
    portion = pb.ImportedEntries()
    size = count = 0
    for entry, checksum in bucket.entries:
        if size and size + len(entry) > PORTION_BYTES:
            yield pb.ImportSnapshotsRequest(entries=portion)
            portion = pb.ImportedEntries()
            size = 0
        portion.entries.append(entry)
        portion.crc32c.append(checksum)
        size += len(entry)
        count += 1
    if count != bucket.entry_count:
        raise InvalidInput("entry_count", bucket.entry_count, f"give {count}, the number of the entries")
    yield pb.ImportSnapshotsRequest(entries=portion)


def import_answer(answer: pb.ImportSnapshotsResponse) -> ImportAnswer:
    """Return the service's answer to an import as a value."""
    return ImportAnswer(
        epoch=answer.epoch,
        bucket_count=answer.bucket_count,
        tracked_count=answer.tracked_count,
        replaced_count=answer.replaced_count,
        replay_from=convert.position(answer.replay_from) if answer.HasField("replay_from") else None,
    )
