"""Answers of the wire as frozen values."""

from collections.abc import Mapping

from delayed_tracker.v1 import tracker_pb2 as pb
from tracker.client.answers import Bucket, BucketState, DueMessages, Position, TrackerStats
from tracker.client.columns import int_column
from tracker.core.errors import InvalidInput

_BUCKET_STATES: Mapping[int, BucketState] = {
    pb.BUCKET_STATE_MUTABLE: BucketState.MUTABLE,
    pb.BUCKET_STATE_LATE: BucketState.LATE,
    pb.BUCKET_STATE_SEALING: BucketState.SEALING,
    pb.BUCKET_STATE_SEALED: BucketState.SEALED,
}


def tracker_ref(topic: str, subscription: str) -> pb.TrackerRef:
    """Which tracker. Raises InvalidInput for names that have no UTF-8 form; their length is the service's to judge."""
    require_text("topic", topic)
    require_text("subscription", subscription)
    return pb.TrackerRef(topic=topic, subscription=subscription)


def require_text(field: str, text: str) -> None:
    """Raise InvalidInput for half of a surrogate pair, which is no text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(field, text, "half of a surrogate pair is no text; give valid unicode") from error


def position(message: pb.Position) -> Position:
    """A position message as a value."""
    return Position(message.ledger_id, message.entry_id)


def due_messages(answer: pb.PollScheduledMessagesResponse) -> DueMessages:
    """The columns of a poll's answer."""
    return DueMessages(
        deliver_at_ms=int_column(answer.deliver_at_ms),
        ledger_ids=int_column(answer.ledger_ids),
        entry_ids=int_column(answer.entry_ids),
        next_delivery_at_ms=answer.next_delivery_at_ms if answer.HasField("next_delivery_at_ms") else None,
        server_time_ms=answer.server_time_ms,
        replay_required=answer.replay_required,
    )


def tracker_stats(answer: pb.GetTrackerStatsResponse) -> TrackerStats:
    """The statistics of one tracker."""
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
    )


def bucket(message: pb.Bucket) -> Bucket:
    """One row of a bucket listing."""
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
