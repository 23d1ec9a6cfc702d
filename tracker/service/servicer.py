"""The tracker's API: validate, convert, call the host, convert back. Errors become statuses in ``status.py``."""
# ruff: noqa: N802  # methods are named as the API names them

from typing import Any, Final, TypeAlias

import grpc

from delayed_tracker.v1 import tracker_pb2, tracker_pb2_grpc
from tracker.core.columns import BEFORE_ALL, Position
from tracker.core.errors import InvalidInput
from tracker.core.outcomes import BucketState, BucketView
from tracker.service.host import TrackerHost
from tracker.service.registry import TrackerRegistry
from tracker.service.wire import (
    from_position,
    require_epoch,
    require_owner_name,
    to_indexes,
    to_key,
    to_mark_delete,
    to_offsets,
    to_positions,
)

_BUCKET_STATES: Final = {
    BucketState.MUTABLE: tracker_pb2.BUCKET_STATE_MUTABLE,
    BucketState.LATE: tracker_pb2.BUCKET_STATE_LATE,
    BucketState.SEALING: tracker_pb2.BUCKET_STATE_SEALING,
    BucketState.SEALED: tracker_pb2.BUCKET_STATE_SEALED,
}

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class TrackerServicer(tracker_pb2_grpc.DelayedDeliveryTrackerServiceServicer):
    """``grpc.aio`` servicer over a registry; limits and clock are the registry's.

    Serve it with ``StatusInterceptor(registry.calls)`` in ``grpc.aio.server(interceptors=[...])``.
    """

    def __init__(self, registry: TrackerRegistry) -> None:
        self._registry = registry
        self._limits = registry.service_limits

    def _host(self, request: Any) -> TrackerHost:
        return self._registry.host(to_key(request.tracker))

    async def OpenTracker(
        self, request: tracker_pb2.OpenTrackerRequest, _context: Context
    ) -> tracker_pb2.OpenTrackerResponse:
        """See tracker.proto."""
        opened = await self._registry.open(
            to_key(request.tracker),
            owner=require_owner_name(request.owner),
            mark_delete=to_mark_delete(request.mark_delete) if request.HasField("mark_delete") else None,
        )
        response = tracker_pb2.OpenTrackerResponse(
            epoch=opened.epoch, recovered_count=opened.recovered_count, bucket_count=opened.bucket_count
        )
        if opened.mark_delete != BEFORE_ALL:
            ledger_id, entry_id = opened.mark_delete
            response.replay_from.CopyFrom(from_position(Position(ledger_id, entry_id + 1)))
        return response

    async def CloseTracker(
        self, request: tracker_pb2.CloseTrackerRequest, _context: Context
    ) -> tracker_pb2.CloseTrackerResponse:
        """See tracker.proto."""
        await self._registry.close_tracker(to_key(request.tracker), require_epoch(request.epoch))
        return tracker_pb2.CloseTrackerResponse()

    async def AddMessages(
        self, request: tracker_pb2.AddMessagesRequest, _context: Context
    ) -> tracker_pb2.AddMessagesResponse:
        """See tracker.proto."""
        host = self._host(request)
        epoch = require_epoch(request.epoch)
        host.require_owner(epoch)
        indexes = to_indexes(
            request.deliver_at_ms, request.ledger_ids, request.entry_ids, batch_max=self._limits.batch_max
        )
        outcome = host.add(epoch, indexes)
        return tracker_pb2.AddMessagesResponse(
            added_count=outcome.added_count,
            due_offsets=to_offsets(outcome.due),
            duplicate_offsets=to_offsets(outcome.duplicate),
            beyond_max_delay_offsets=to_offsets(outcome.beyond_max_delay),
            below_mark_delete_offsets=to_offsets(outcome.below_mark_delete),
        )

    async def PollScheduledMessages(
        self, request: tracker_pb2.PollScheduledMessagesRequest, context: Context
    ) -> tracker_pb2.PollScheduledMessagesResponse:
        """See tracker.proto."""
        host = self._host(request)
        limits = self._limits
        if not 1 <= request.max_messages <= limits.poll_messages_max:
            raise InvalidInput("max_messages", request.max_messages, f"give 1 to {limits.poll_messages_max}")
        delivery = await host.poll(
            require_epoch(request.epoch),
            max_count=request.max_messages,
            wait_ms=min(request.wait_ms, limits.poll_wait_max_ms),
            lease_ms=self._lease_ms(request),
            abandoned=lambda: context.cancelled() or context.done(),
        )
        # No await from here on: what was taken is answered.
        response = tracker_pb2.PollScheduledMessagesResponse(
            lease_id=delivery.lease_id,
            lease_expires_at_ms=delivery.expires_at_ms,
            deliver_at_ms=to_offsets(delivery.indexes.deliver_at_ms),
            ledger_ids=to_offsets(delivery.indexes.ledger_id),
            entry_ids=to_offsets(delivery.indexes.entry_id),
            server_time_ms=host.now_ms(),
            replay_required=host.replay_required,
            pause_reading=host.pause_reading,
        )
        if (next_ms := host.next_delivery_ms()) is not None:
            response.next_delivery_at_ms = next_ms
        return response

    def _lease_ms(self, request: tracker_pb2.PollScheduledMessagesRequest) -> int:
        given = request.HasField("lease_ms")
        if request.hand_off:
            if given:
                raise InvalidInput("lease_ms", request.lease_ms, "leave it unset when hand_off is set")
            return 0
        if not given:
            return self._limits.lease_default_ms
        if not 1 <= request.lease_ms <= self._limits.lease_max_ms:
            raise InvalidInput(
                "lease_ms", request.lease_ms, f"give 1 to {self._limits.lease_max_ms}, or set hand_off for no lease"
            )
        return request.lease_ms

    async def AckMessages(
        self, request: tracker_pb2.AckMessagesRequest, _context: Context
    ) -> tracker_pb2.AckMessagesResponse:
        """See tracker.proto."""
        host = self._host(request)
        positions = to_positions(request.ledger_ids, request.entry_ids, batch_max=self._limits.batch_max)
        outcome = host.ack(require_epoch(request.epoch), request.lease_id, positions)
        return tracker_pb2.AckMessagesResponse(
            acked_count=outcome.changed_count,
            stale_offsets=to_offsets(outcome.stale),
            unknown_offsets=to_offsets(outcome.unknown),
        )

    async def NackMessages(
        self, request: tracker_pb2.NackMessagesRequest, _context: Context
    ) -> tracker_pb2.NackMessagesResponse:
        """See tracker.proto."""
        host = self._host(request)
        positions = to_positions(request.ledger_ids, request.entry_ids, batch_max=self._limits.batch_max)
        outcome = host.nack(
            require_epoch(request.epoch),
            request.lease_id,
            positions,
            deliver_at_ms=request.deliver_at_ms if request.HasField("deliver_at_ms") else None,
        )
        return tracker_pb2.NackMessagesResponse(
            returned_count=outcome.changed_count,
            stale_offsets=to_offsets(outcome.stale),
            unknown_offsets=to_offsets(outcome.unknown),
        )

    async def ContainsMessages(
        self, request: tracker_pb2.ContainsMessagesRequest, _context: Context
    ) -> tracker_pb2.ContainsMessagesResponse:
        """See tracker.proto."""
        host = self._host(request)
        positions = to_positions(request.ledger_ids, request.entry_ids, batch_max=self._limits.batch_max)
        tracked = host.contains(positions).nonzero()[0]
        return tracker_pb2.ContainsMessagesResponse(tracked_offsets=to_offsets(tracked))

    async def NextDeliveryTime(
        self, request: tracker_pb2.NextDeliveryTimeRequest, _context: Context
    ) -> tracker_pb2.NextDeliveryTimeResponse:
        """See tracker.proto."""
        host = self._host(request)
        response = tracker_pb2.NextDeliveryTimeResponse(server_time_ms=host.now_ms())
        if (next_ms := host.next_delivery_ms()) is not None:
            response.next_delivery_at_ms = next_ms
        return response

    async def AdvanceMarkDelete(
        self, request: tracker_pb2.AdvanceMarkDeleteRequest, _context: Context
    ) -> tracker_pb2.AdvanceMarkDeleteResponse:
        """See tracker.proto."""
        host = self._host(request)
        if not request.HasField("mark_delete"):
            raise InvalidInput("mark_delete", None, "give the cursor's mark-delete position")
        outcome = host.advance_mark_delete(require_epoch(request.epoch), to_mark_delete(request.mark_delete))
        return tracker_pb2.AdvanceMarkDeleteResponse(
            mark_delete=from_position(outcome.mark_delete), trimmed_count=outcome.trimmed_count
        )

    async def ClearMessages(
        self, request: tracker_pb2.ClearMessagesRequest, _context: Context
    ) -> tracker_pb2.ClearMessagesResponse:
        """See tracker.proto."""
        cleared = await self._registry.clear(to_key(request.tracker), require_epoch(request.epoch))
        return tracker_pb2.ClearMessagesResponse(epoch=cleared.epoch, cleared_count=cleared.cleared_count)

    async def GetTrackerStats(
        self, request: tracker_pb2.GetTrackerStatsRequest, _context: Context
    ) -> tracker_pb2.GetTrackerStatsResponse:
        """See tracker.proto."""
        host = self._host(request)
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
            added_count=stats.added_count,
            recovered_count=stats.recovered_count,
            acked_count=stats.acked_count,
            handed_off_count=stats.handed_off_count,
            cancelled_count=stats.cancelled_count,
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
            merge_count=stats.merge_count,
            merged_index_count=stats.merged_index_count,
            replay_required=stats.replay_required,
            pause_reading=host.pause_reading,
            server_time_ms=host.now_ms(),
        )
        if stats.next_delivery_ms is not None:
            response.next_delivery_at_ms = stats.next_delivery_ms
        if stats.mark_delete != BEFORE_ALL:
            response.mark_delete.CopyFrom(from_position(stats.mark_delete))
        return response

    async def ListBuckets(
        self, request: tracker_pb2.ListBucketsRequest, _context: Context
    ) -> tracker_pb2.ListBucketsResponse:
        """See tracker.proto."""
        return tracker_pb2.ListBucketsResponse(buckets=map(_bucket, self._host(request).buckets()))


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
