"""Reads the parts of an import in order: the header, a description and the entries of each bucket, the end.

Nothing is read ahead: the next entries are read when the ones before are processed, so a slow storage slows the sender
down.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Final

import google_crc32c

from delayed_tracker.core.values.columns import BEFORE_ALL, ENTRY_ID_MAX, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.errors import ImportRejected, TrackerKey
from delayed_tracker.service.grpc.wire import require_owner_name, to_key, to_mark_delete, to_offered_through
from delayed_tracker.service.operations.importing import ImportTerms, IncomingBucket
from delayed_tracker.v1 import tracker_pb2

BUCKETS_MAX: Final = 100_000
"""Buckets of one import. The summaries of all of them stay in memory until it ends."""
CHECKED_AT_ONCE: Final = 5_000
"""Entries that are checked in one iteration of the event loop, in about 2 ms: a request has room for millions of small
ones."""

Requests = AsyncIterator[tracker_pb2.ImportSnapshotsRequest]


class ImportStream:
    """Reader of one import stream. Call ``terms``, then iterate over ``buckets``; read a bucket's entries before the
    next bucket.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._bucket_count = 0

    async def terms(self) -> tuple[TrackerKey, ImportTerms]:
        """Read the header: the tracker, and the terms of the import.

        Raises:
            InvalidInput: the header is missing or malformed.
        """
        header = (await self._next("header")).header
        self._bucket_count = header.bucket_count
        if header.bucket_count > BUCKETS_MAX:
            raise InvalidInput("header.bucket_count", header.bucket_count, f"give at most {BUCKETS_MAX}")
        return to_key(header.tracker), ImportTerms(
            owner=require_owner_name(header.owner),
            expected_epoch=header.expected_epoch if header.HasField("expected_epoch") else None,
            mark_delete=to_mark_delete(header.mark_delete) if header.HasField("mark_delete") else BEFORE_ALL,
            offered_through=to_offered_through(header.offered_through)
            if header.HasField("offered_through")
            else BEFORE_ALL,
        )

    async def buckets(self) -> AsyncGenerator[IncomingBucket, None]:
        """Yield as many buckets as the header announced, then require the end of the stream.

        Raises:
            InvalidInput: a part is malformed, or another part belongs in its place.
            ImportRejected: the stream was cut short, or an entry fails its checksum.
        """
        for number in range(self._bucket_count):
            bucket = (await self._next("bucket")).bucket
            first, last = _position("bucket.first", bucket.first), _position("bucket.last", bucket.last)
            if not bucket.entry_count:
                raise InvalidInput("bucket.entry_count", 0, "count the metadata and every segment")
            async with aclosing(self._entries(number, bucket.entry_count)) as entries:
                yield IncomingBucket(number, first, last, bucket.entry_count, entries)
        await self._next("end")

    async def _entries(self, bucket: int, count: int) -> AsyncGenerator[Sequence[bytes], None]:
        """Yield exactly ``count`` entries, in the portions in which they arrive."""
        come = 0
        while come < count:
            part = (await self._next("entries")).entries
            if not part.entries or come + len(part.entries) > count:
                raise InvalidInput("entries", len(part.entries), f"give 1 to {count - come}, which is what is missing")
            if len(part.crc32c) != len(part.entries):
                raise InvalidInput(
                    "entries.crc32c", len(part.crc32c), f"give one for each of {len(part.entries)} entries"
                )
            for number, (entry, checksum) in enumerate(zip(part.entries, part.crc32c, strict=True), start=come):
                if google_crc32c.value(entry) != checksum:
                    raise ImportRejected(f"entry {number} of bucket {bucket} fails its checksum")
                if number % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1:
                    await asyncio.sleep(0)
            come += len(part.entries)
            yield part.entries

    async def _next(self, wanted: str) -> tracker_pb2.ImportSnapshotsRequest:
        try:
            request = await anext(self._requests)
        except StopAsyncIteration:
            raise ImportRejected(f"the stream ended before its {wanted}") from None
        if (part := request.WhichOneof("part")) != wanted:
            raise InvalidInput("part", part, f"send the {wanted} that belongs here")
        return request


def _position(field: str, given: tracker_pb2.Position) -> Position:
    if given.ledger_id < 0:
        raise InvalidInput(f"{field}.ledger_id", given.ledger_id, "give 0 or more")
    if not 0 <= given.entry_id <= ENTRY_ID_MAX:
        raise InvalidInput(f"{field}.entry_id", given.entry_id, f"give 0 to {ENTRY_ID_MAX}")
    return Position(given.ledger_id, given.entry_id)
