"""Converts answers of the service to frozen values."""

from collections.abc import Mapping
from typing import TypeVar

from google.protobuf.message import Message

from delayed_tracker.client.model.answers import AddAnswer, DueMessages, Position
from delayed_tracker.client.model.bounds import text
from delayed_tracker.client.model.reports import (
    Bucket,
    BucketState,
    Explanation,
    MessagePlace,
    PeekedMessages,
    SnapshotReport,
    SnapshotVerdict,
    TrackerPage,
    TrackerStats,
    TrackerSummary,
)
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.column_fields import Columned
from delayed_tracker.wire.columns import int_column, offsets

Answer = TypeVar("Answer", bound=Message)

_BUCKET_STATES: Mapping[int, BucketState] = {
    pb.BUCKET_STATE_MUTABLE: BucketState.MUTABLE,
    pb.BUCKET_STATE_LATE: BucketState.LATE,
    pb.BUCKET_STATE_SEALING: BucketState.SEALING,
    pb.BUCKET_STATE_SEALED: BucketState.SEALED,
}

_PLACES: Mapping[int, MessagePlace] = {
    pb.MESSAGE_PLACE_NOT_TRACKED: MessagePlace.NOT_TRACKED,
    pb.MESSAGE_PLACE_ACKNOWLEDGED: MessagePlace.ACKNOWLEDGED,
    pb.MESSAGE_PLACE_MEMORY: MessagePlace.MEMORY,
    pb.MESSAGE_PLACE_LOADED_SEGMENT: MessagePlace.LOADED_SEGMENT,
    pb.MESSAGE_PLACE_LOADING_SEGMENT: MessagePlace.LOADING_SEGMENT,
    pb.MESSAGE_PLACE_UNLOADED_SEGMENT: MessagePlace.UNLOADED_SEGMENT,
    pb.MESSAGE_PLACE_LEASED: MessagePlace.LEASED,
}


def tracker_ref(topic: str, subscription: str) -> pb.TrackerRef:
    """Return the reference to a tracker; the service checks the length of the names.

    Raises:
        InvalidInput: a name has no UTF-8 form.
    """
    return pb.TrackerRef(topic=text("topic", topic), subscription=text("subscription", subscription))


def position(message: pb.Position) -> Position:
    """Return a position message as a value."""
    return Position(message.ledger_id, message.entry_id)


def add_answer(parts: list[tuple[int, pb.AddMessagesResponse]]) -> AddAnswer:
    """Merge the answers to the parts of a batch; each part has the offset of its first position."""
    if len(parts) == 1:
        # Most batches are sent in one part, and this conversion is a tenth of the client's work for a call.
        only = parts[0][1]
        return AddAnswer(
            only.added_count,
            tuple(only.due_offsets),
            tuple(only.duplicate_offsets),
            tuple(only.beyond_max_delay_offsets),
            tuple(only.below_mark_delete_offsets),
            position(only.offered_through) if only.HasField("offered_through") else None,
        )
    return AddAnswer(
        added_count=sum(answer.added_count for _, answer in parts),
        due_offsets=all_offsets(parts, "due_offsets"),
        duplicate_offsets=all_offsets(parts, "duplicate_offsets"),
        beyond_max_delay_offsets=all_offsets(parts, "beyond_max_delay_offsets"),
        below_mark_delete_offsets=all_offsets(parts, "below_mark_delete_offsets"),
        offered_through=position(parts[-1][1].offered_through) if parts[-1][1].HasField("offered_through") else None,
    )


def due_messages(polled: Columned[pb.PollScheduledMessagesResponse]) -> DueMessages:
    """Return the columns of a poll's answer."""
    answer = polled.head
    deliver_at_ms, ledger_ids, entry_ids = map(int_column, polled.columns)
    return DueMessages(
        deliver_at_ms=deliver_at_ms,
        ledger_ids=ledger_ids,
        entry_ids=entry_ids,
        next_delivery_at_ms=answer.next_delivery_at_ms if answer.HasField("next_delivery_at_ms") else None,
        server_time_ms=answer.server_time_ms,
        replay_required=answer.replay_required,
        pause_reading=answer.pause_reading,
    )


def tracker_stats(answer: pb.GetTrackerStatsResponse) -> TrackerStats:
    """Return the statistics of one tracker."""
    return TrackerStats(
        epoch=answer.epoch,
        owner=answer.owner,
        pending_count=answer.pending_count,
        leased_count=answer.leased_count,
        loaded_count=answer.loaded_count,
        mutable_count=answer.mutable_count,
        late_count=answer.late_count,
        bucket_count=answer.bucket_count,
        snapshot_bytes=answer.snapshot_bytes,
        membership_bytes=answer.membership_bytes,
        memory_bytes=answer.memory_bytes,
        next_delivery_at_ms=answer.next_delivery_at_ms if answer.HasField("next_delivery_at_ms") else None,
        mark_delete=position(answer.mark_delete) if answer.HasField("mark_delete") else None,
        added_count=answer.added_count,
        recovered_count=answer.recovered_count,
        acked_count=answer.acked_count,
        handed_off_count=answer.handed_off_count,
        cancelled_count=answer.cancelled_count,
        trimmed_count=answer.trimmed_count,
        cleared_count=answer.cleared_count,
        refused_as_due_count=answer.refused_as_due_count,
        dropped_as_corrupt_count=answer.dropped_as_corrupt_count,
        due_on_offer_count=answer.due_on_offer_count,
        duplicate_count=answer.duplicate_count,
        lease_expired_count=answer.lease_expired_count,
        effects_failed_count=answer.effects_failed_count,
        orphans_swept_count=answer.orphans_swept_count,
        snapshots_missing_count=answer.snapshots_missing_count,
        snapshots_corrupt_count=answer.snapshots_corrupt_count,
        replay_required=answer.replay_required,
        server_time_ms=answer.server_time_ms,
        pause_reading=answer.pause_reading,
        merge_count=answer.merge_count,
        merged_index_count=answer.merged_index_count,
        handed_out_count=answer.handed_out_count,
        rescheduled_count=answer.rescheduled_count,
        log_bytes=answer.log_bytes,
        unwritten_consumed_count=answer.unwritten_consumed_count,
        consumption_window_positions=(
            answer.consumption_window_positions if answer.HasField("consumption_window_positions") else None
        ),
        offered_through=position(answer.offered_through) if answer.HasField("offered_through") else None,
        unloaded=answer.unloaded,
    )


def bucket(message: pb.Bucket) -> Bucket:
    """Return one row of a bucket listing."""
    return Bucket(
        bucket_id=message.bucket_id if message.HasField("bucket_id") else None,
        state=_BUCKET_STATES[message.state],
        first=position(message.first),
        last=position(message.last),
        tracked_count=message.tracked_count,
        sealed_count=message.sealed_count,
        segment_count=message.segment_count,
        loaded_segment_count=message.loaded_segment_count,
        min_deliver_at_ms=message.min_deliver_at_ms,
        max_deliver_at_ms=message.max_deliver_at_ms,
        snapshot_bytes=message.snapshot_bytes,
    )


def peeked_messages(peeked: Columned[pb.PeekMessagesResponse]) -> PeekedMessages:
    """Return the columns of a peek's answer."""
    deliver_at_ms, ledger_ids, entry_ids = map(int_column, peeked.columns)
    return PeekedMessages(
        deliver_at_ms=deliver_at_ms,
        ledger_ids=ledger_ids,
        entry_ids=entry_ids,
        leased_offsets=tuple(peeked.head.leased_offsets),
        truncated=peeked.head.truncated,
    )


def explanation(asked: Position, answer: pb.ExplainMessageResponse) -> Explanation:
    """Return the explanation of the position in the request."""
    return Explanation(
        position=asked,
        place=_PLACES[answer.place],
        deliver_at_ms=answer.deliver_at_ms if answer.HasField("deliver_at_ms") else None,
        available_at_ms=answer.available_at_ms if answer.HasField("available_at_ms") else None,
        bucket_id=answer.bucket_id if answer.HasField("bucket_id") else None,
        segment=answer.segment if answer.HasField("segment") else None,
        lease_id=answer.lease_id if answer.HasField("lease_id") else None,
        explanation=answer.explanation,
        server_time_ms=answer.server_time_ms,
    )


def snapshot_report(answer: pb.VerifySnapshotsResponse) -> SnapshotReport:
    """Return the result of verifying snapshots, one verdict for each snapshot."""
    return SnapshotReport(
        snapshots=tuple(
            SnapshotVerdict(
                bucket_id=row.bucket_id,
                segment_count=row.segment_count,
                index_count=row.index_count,
                snapshot_bytes=row.bytes,
                problems=tuple(row.problems),
            )
            for row in answer.snapshots
        ),
        orphan_bucket_ids=tuple(answer.orphan_bucket_ids),
    )


def tracker_page(answer: pb.ListTrackersResponse) -> TrackerPage:
    """Return one page of a listing."""
    return TrackerPage(tuple(map(_tracker_summary, answer.trackers)), answer.next_page_token)


def _tracker_summary(message: pb.TrackerSummary) -> TrackerSummary:
    return TrackerSummary(
        topic=message.tracker.topic,
        subscription=message.tracker.subscription,
        open=message.open,
        recovering=message.recovering,
        owner=message.owner,
        epoch=message.epoch,
        pending_count=message.pending_count,
        leased_count=message.leased_count,
        bucket_count=message.bucket_count,
        next_delivery_at_ms=message.next_delivery_at_ms if message.HasField("next_delivery_at_ms") else None,
        unloaded=message.unloaded,
    )


def all_offsets(parts: list[tuple[int, Answer]], field: str) -> tuple[int, ...]:
    """Return the offsets in the answers to all batches as offsets into the whole."""
    if len(parts) == 1:
        return tuple(getattr(parts[0][1], field))
    return tuple(offset for first, answer in parts for offset in offsets(getattr(answer, field), first))
