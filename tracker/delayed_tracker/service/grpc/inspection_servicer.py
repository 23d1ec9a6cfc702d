"""The calls of the tracker's API that read: tracked positions, their place and their deadlines. They change nothing."""
# ruff: noqa: N802  # methods are named as the API names them

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import grpc

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.verb_results import BucketState, BucketView, MessagePlace
from delayed_tracker.service.errors import TrackerNotOpen
from delayed_tracker.service.grpc.wire import (
    from_indexes,
    from_position,
    require_epoch,
    to_key,
    to_offsets,
    to_positions,
)
from delayed_tracker.service.queries.entry_ranges import EntryRange, require_range_count, require_ranges, untracked
from delayed_tracker.service.queries.explain import explain, require_entry
from delayed_tracker.service.queries.histogram import Bars, delivery_histogram
from delayed_tracker.service.queries.listing import TrackerRow, is_stored, tracker_page
from delayed_tracker.service.queries.membership import membership_parts
from delayed_tracker.service.queries.peek import Window, peek
from delayed_tracker.service.queries.verification import SnapshotVerification
from delayed_tracker.service.security.caller import may_see
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.v1 import tracker_pb2, tracker_pb2_grpc
from delayed_tracker.wire.column_fields import Columned
from delayed_tracker.wire.message_columns import PEEKED_COLUMNS

_BUCKET_STATES: Final = {
    BucketState.MUTABLE: tracker_pb2.BUCKET_STATE_MUTABLE,
    BucketState.LATE: tracker_pb2.BUCKET_STATE_LATE,
    BucketState.SEALING: tracker_pb2.BUCKET_STATE_SEALING,
    BucketState.SEALED: tracker_pb2.BUCKET_STATE_SEALED,
}

_PLACES: Final = {
    MessagePlace.NOT_TRACKED: tracker_pb2.MESSAGE_PLACE_NOT_TRACKED,
    MessagePlace.ACKNOWLEDGED: tracker_pb2.MESSAGE_PLACE_ACKNOWLEDGED,
    MessagePlace.MEMORY: tracker_pb2.MESSAGE_PLACE_MEMORY,
    MessagePlace.LOADED_SEGMENT: tracker_pb2.MESSAGE_PLACE_LOADED_SEGMENT,
    MessagePlace.LOADING_SEGMENT: tracker_pb2.MESSAGE_PLACE_LOADING_SEGMENT,
    MessagePlace.UNLOADED_SEGMENT: tracker_pb2.MESSAGE_PLACE_UNLOADED_SEGMENT,
    MessagePlace.LEASED: tracker_pb2.MESSAGE_PLACE_LEASED,
}

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class InspectionServicer(tracker_pb2_grpc.DelayedDeliveryTrackerServiceServicer):
    """The reading calls. ``TrackerServicer`` adds the others."""

    def __init__(self, registry: TrackerRegistry) -> None:
        self._registry = registry
        self._limits = registry.service_limits

    async def _loaded_host(self, request: Any) -> TrackerHost:
        """Return the host of the tracker, brought back into memory if it was unloaded.

        There is no await for a tracker that is in memory.
        """
        return await self._registry.loaded_host(to_key(request.tracker))

    async def _viewed(self, request: Any, *, loaded: bool = True) -> TrackerHost:
        """Return the host of the tracker, for an operator. If it is not open here, the error states if the storage has
        the tracker.

        Dispatchers call :meth:`_loaded_host`: they open the tracker next, and a query of the storage would only delay
        them.

        Args:
            request: names the tracker.
            loaded: False leaves an unloaded tracker as it is.
        """
        try:
            return await self._loaded_host(request) if loaded else self._registry.host(to_key(request.tracker))
        except TrackerNotOpen as error:
            raise TrackerNotOpen(error.key, stored=await is_stored(self._registry, error.key)) from error

    async def ContainsMessages(
        self, columned: Columned[tracker_pb2.ContainsMessagesRequest], _context: Context
    ) -> tracker_pb2.ContainsMessagesResponse:
        """See tracker.proto."""
        host = await self._loaded_host(columned.head)
        positions = to_positions(columned.columns, batch_max=self._limits.batch_max)
        tracked = host.contains(positions).nonzero()[0]
        return tracker_pb2.ContainsMessagesResponse(tracked_offsets=to_offsets(tracked))

    async def NextDeliveryTime(
        self, request: tracker_pb2.NextDeliveryTimeRequest, _context: Context
    ) -> tracker_pb2.NextDeliveryTimeResponse:
        """See tracker.proto."""
        host = await self._loaded_host(request)
        response = tracker_pb2.NextDeliveryTimeResponse(server_time_ms=host.now_ms())
        if (next_ms := host.next_delivery_ms()) is not None:
            response.next_delivery_at_ms = next_ms
        return response

    async def GetTrackerStats(
        self, request: tracker_pb2.GetTrackerStatsRequest, _context: Context
    ) -> tracker_pb2.GetTrackerStatsResponse:
        """See tracker.proto."""
        host = await self._viewed(request, loaded=False)
        stats, counters = host.stats(), host.counters
        response = tracker_pb2.GetTrackerStatsResponse(
            epoch=stats.epoch,
            owner=host.owner,
            pending_count=stats.pending_count,
            leased_count=stats.leased_count,
            loaded_count=stats.loaded_count,
            mutable_count=stats.mutable_count,
            late_count=stats.late_count,
            bucket_count=stats.bucket_count,
            snapshot_bytes=stats.snapshot_bytes,
            membership_bytes=stats.membership_bytes,
            memory_bytes=stats.memory_bytes,
            added_count=stats.added_count,
            recovered_count=stats.recovered_count,
            acked_count=stats.acked_count,
            handed_off_count=stats.handed_off_count,
            cancelled_count=stats.cancelled_count,
            rescheduled_count=stats.rescheduled_count,
            trimmed_count=stats.trimmed_count,
            cleared_count=stats.cleared_count,
            refused_as_due_count=stats.refused_as_due_count,
            dropped_as_corrupt_count=stats.dropped_as_corrupt_count,
            due_on_offer_count=stats.due_on_offer_count,
            duplicate_count=stats.duplicate_count,
            lease_expired_count=stats.lease_expired_count,
            effects_failed_count=stats.effects_failed_count,
            orphans_swept_count=counters.orphans_swept,
            snapshots_missing_count=counters.snapshots_missing,
            snapshots_corrupt_count=counters.snapshots_corrupt,
            handed_out_count=counters.handed_out,
            merge_count=stats.merge_count,
            merged_index_count=stats.merged_index_count,
            log_bytes=host.log_bytes,
            unwritten_consumed_count=host.unwritten_consumed_count,
            replay_required=stats.replay_required,
            pause_reading=host.pause_reading,
            server_time_ms=host.now_ms(),
            unloaded=host.state is HostState.UNLOADED,
        )
        if stats.next_delivery_ms is not None:
            response.next_delivery_at_ms = stats.next_delivery_ms
        if stats.mark_delete != BEFORE_ALL:
            response.mark_delete.CopyFrom(from_position(stats.mark_delete))
        if self._registry.log is not None:
            response.consumption_window_positions = self._limits.consumption_window_positions
        if host.offered_through != BEFORE_ALL:
            response.offered_through.CopyFrom(from_position(host.offered_through))
        return response

    async def ListBuckets(
        self, request: tracker_pb2.ListBucketsRequest, _context: Context
    ) -> tracker_pb2.ListBucketsResponse:
        """See tracker.proto."""
        return tracker_pb2.ListBucketsResponse(buckets=map(_bucket, (await self._viewed(request)).buckets()))

    async def FilterEntries(
        self, request: tracker_pb2.FilterEntriesRequest, _context: Context
    ) -> tracker_pb2.FilterEntriesResponse:
        """See tracker.proto."""
        host = await self._loaded_host(request)
        require_range_count(len(request.ranges))
        ranges = [EntryRange(asked.ledger_id, asked.first_entry_id, asked.last_entry_id) for asked in request.ranges]
        require_ranges(ranges)
        parts = untracked(host.core_for_reading(), ranges, answer_max=self._limits.batch_max)
        return tracker_pb2.FilterEntriesResponse(
            ranges=[
                tracker_pb2.EntryRange(ledger_id=ledger_id, first_entry_id=first, last_entry_id=last)
                for ledger_id, first, last in parts
            ]
        )

    async def StreamMembership(
        self, request: tracker_pb2.StreamMembershipRequest, _context: Context
    ) -> AsyncIterator[tracker_pb2.StreamMembershipResponse]:
        """See tracker.proto. The next message is made when the caller has taken the one before."""
        host = await self._loaded_host(request)
        epoch = require_epoch(request.epoch) if request.HasField("epoch") else None
        async with aclosing(membership_parts(self._registry, host, epoch)) as parts:
            async for part in parts:
                yield tracker_pb2.StreamMembershipResponse(
                    ledgers=[
                        tracker_pb2.LedgerMembership(ledger_id=ledger_id, entries=entries)
                        for ledger_id, entries in part
                    ]
                )

    async def ListTrackers(
        self, request: tracker_pb2.ListTrackersRequest, _context: Context
    ) -> tracker_pb2.ListTrackersResponse:
        """See tracker.proto."""
        page = await tracker_page(
            self._registry,
            topic_prefix=request.topic_prefix,
            page_size=request.page_size,
            page_token=request.page_token,
            visible=may_see,
        )
        return tracker_pb2.ListTrackersResponse(trackers=map(_summary, page.rows), next_page_token=page.next_token)

    async def PeekMessages(self, request: tracker_pb2.PeekMessagesRequest, _context: Context) -> bytes:
        """See tracker.proto. The answer is already encoded."""
        host = await self._viewed(request)
        until_ms = request.until_ms if request.HasField("until_ms") else None
        window = Window(request.from_ms, until_ms, request.max_messages)
        peeked = await peek(host, self._registry.access, window)
        response = tracker_pb2.PeekMessagesResponse(
            leased_offsets=to_offsets(peeked.leased.nonzero()[0]), truncated=peeked.truncated
        )
        return PEEKED_COLUMNS.encoded(response, from_indexes(peeked.indexes))

    async def ExplainMessage(
        self, request: tracker_pb2.ExplainMessageRequest, _context: Context
    ) -> tracker_pb2.ExplainMessageResponse:
        """See tracker.proto."""
        host = await self._viewed(request)
        if not request.HasField("position"):
            raise InvalidInput("position", None, "give the position to explain")
        position = Position(request.position.ledger_id, request.position.entry_id)
        require_entry(position)
        explained = await explain(host, self._registry.access, position)
        found = explained.found
        response = tracker_pb2.ExplainMessageResponse(
            place=_PLACES[found.place], explanation=explained.sentence, server_time_ms=explained.now_ms
        )
        for field, value in (
            ("deliver_at_ms", found.deliver_at_ms),
            ("available_at_ms", found.available_at_ms),
            ("bucket_id", found.bucket_id),
            ("segment", explained.segment),
            ("lease_id", found.lease_id),
        ):
            if value is not None:
                setattr(response, field, value)
        return response

    async def DeliveryHistogram(
        self, request: tracker_pb2.DeliveryHistogramRequest, _context: Context
    ) -> tracker_pb2.DeliveryHistogramResponse:
        """See tracker.proto."""
        host = await self._viewed(request)
        bars = Bars(request.from_ms, request.step_ms, request.bar_count)
        histogram = await delivery_histogram(host, self._registry.access, bars)
        return tracker_pb2.DeliveryHistogramResponse(
            before_count=histogram.before_count,
            counts=to_offsets(histogram.counts),
            after_count=histogram.after_count,
            estimated_count=histogram.estimated_count,
        )

    async def VerifySnapshots(
        self, request: tracker_pb2.VerifySnapshotsRequest, _context: Context
    ) -> tracker_pb2.VerifySnapshotsResponse:
        """See tracker.proto."""
        found = await SnapshotVerification(self._registry, to_key(request.tracker)).run()
        return tracker_pb2.VerifySnapshotsResponse(
            snapshots=[
                tracker_pb2.SnapshotVerdict(
                    bucket_id=verdict.bucket_id,
                    segment_count=verdict.segment_count,
                    index_count=verdict.index_count,
                    bytes=verdict.byte_count,
                    problems=verdict.problems,
                )
                for verdict in found.verdicts
            ],
            orphan_bucket_ids=found.orphans,
        )


def _summary(row: TrackerRow) -> tracker_pb2.TrackerSummary:
    ref = tracker_pb2.TrackerRef(topic=row.key.topic, subscription=row.key.subscription)
    if row.host is None:
        return tracker_pb2.TrackerSummary(tracker=ref)
    if row.host.state is HostState.RECOVERING:
        return tracker_pb2.TrackerSummary(tracker=ref, open=True, recovering=True)
    stats = row.host.stats()
    summary = tracker_pb2.TrackerSummary(
        tracker=ref,
        open=True,
        owner=row.host.owner,
        epoch=stats.epoch,
        pending_count=stats.pending_count,
        leased_count=stats.leased_count,
        bucket_count=stats.bucket_count,
        unloaded=row.host.state is HostState.UNLOADED,
    )
    if stats.next_delivery_ms is not None:
        summary.next_delivery_at_ms = stats.next_delivery_ms
    return summary


def _bucket(view: BucketView) -> tracker_pb2.Bucket:
    bucket = tracker_pb2.Bucket(
        state=_BUCKET_STATES[view.state],
        first=from_position(view.first),
        last=from_position(view.last),
        tracked_count=view.tracked_count,
        sealed_count=view.sealed_count,
        segment_count=view.segment_count,
        loaded_segment_count=view.loaded_segment_count,
        min_deliver_at_ms=view.min_deliver_at_ms,
        max_deliver_at_ms=view.max_deliver_at_ms,
        snapshot_bytes=view.snapshot_bytes,
    )
    if view.bucket_id is not None:
        bucket.bucket_id = view.bucket_id
    return bucket
