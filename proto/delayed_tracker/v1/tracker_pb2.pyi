from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BucketState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BUCKET_STATE_UNSPECIFIED: _ClassVar[BucketState]
    BUCKET_STATE_MUTABLE: _ClassVar[BucketState]
    BUCKET_STATE_LATE: _ClassVar[BucketState]
    BUCKET_STATE_SEALING: _ClassVar[BucketState]
    BUCKET_STATE_SEALED: _ClassVar[BucketState]

class MessagePlace(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MESSAGE_PLACE_UNSPECIFIED: _ClassVar[MessagePlace]
    MESSAGE_PLACE_NOT_TRACKED: _ClassVar[MessagePlace]
    MESSAGE_PLACE_ACKNOWLEDGED: _ClassVar[MessagePlace]
    MESSAGE_PLACE_MEMORY: _ClassVar[MessagePlace]
    MESSAGE_PLACE_LOADED_SEGMENT: _ClassVar[MessagePlace]
    MESSAGE_PLACE_LOADING_SEGMENT: _ClassVar[MessagePlace]
    MESSAGE_PLACE_UNLOADED_SEGMENT: _ClassVar[MessagePlace]
    MESSAGE_PLACE_LEASED: _ClassVar[MessagePlace]
BUCKET_STATE_UNSPECIFIED: BucketState
BUCKET_STATE_MUTABLE: BucketState
BUCKET_STATE_LATE: BucketState
BUCKET_STATE_SEALING: BucketState
BUCKET_STATE_SEALED: BucketState
MESSAGE_PLACE_UNSPECIFIED: MessagePlace
MESSAGE_PLACE_NOT_TRACKED: MessagePlace
MESSAGE_PLACE_ACKNOWLEDGED: MessagePlace
MESSAGE_PLACE_MEMORY: MessagePlace
MESSAGE_PLACE_LOADED_SEGMENT: MessagePlace
MESSAGE_PLACE_LOADING_SEGMENT: MessagePlace
MESSAGE_PLACE_UNLOADED_SEGMENT: MessagePlace
MESSAGE_PLACE_LEASED: MessagePlace

class TrackerRef(_message.Message):
    __slots__ = ("topic", "subscription")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("ledger_id", "entry_id")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entry_id: int
    def __init__(self, ledger_id: _Optional[int] = ..., entry_id: _Optional[int] = ...) -> None: ...

class OpenTrackerRequest(_message.Message):
    __slots__ = ("tracker", "owner", "mark_delete")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    MARK_DELETE_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    owner: str
    mark_delete: Position
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., owner: _Optional[str] = ..., mark_delete: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class OpenTrackerResponse(_message.Message):
    __slots__ = ("epoch", "replay_from", "recovered_count", "bucket_count", "add_log_missing")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FROM_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_COUNT_FIELD_NUMBER: _ClassVar[int]
    BUCKET_COUNT_FIELD_NUMBER: _ClassVar[int]
    ADD_LOG_MISSING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    replay_from: Position
    recovered_count: int
    bucket_count: int
    add_log_missing: bool
    def __init__(self, epoch: _Optional[int] = ..., replay_from: _Optional[_Union[Position, _Mapping]] = ..., recovered_count: _Optional[int] = ..., bucket_count: _Optional[int] = ..., add_log_missing: bool = ...) -> None: ...

class CloseTrackerRequest(_message.Message):
    __slots__ = ("tracker", "epoch")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class CloseTrackerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddMessagesRequest(_message.Message):
    __slots__ = ("tracker", "epoch", "deliver_at_ms", "ledger_ids", "entry_ids", "offered_through")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    OFFERED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    deliver_at_ms: _containers.RepeatedScalarFieldContainer[int]
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    offered_through: Position
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ..., deliver_at_ms: _Optional[_Iterable[int]] = ..., ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ..., offered_through: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class AddMessagesResponse(_message.Message):
    __slots__ = ("added_count", "due_offsets", "duplicate_offsets", "beyond_max_delay_offsets", "below_mark_delete_offsets", "offered_through")
    ADDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DUE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BEYOND_MAX_DELAY_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BELOW_MARK_DELETE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    OFFERED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    added_count: int
    due_offsets: _containers.RepeatedScalarFieldContainer[int]
    duplicate_offsets: _containers.RepeatedScalarFieldContainer[int]
    beyond_max_delay_offsets: _containers.RepeatedScalarFieldContainer[int]
    below_mark_delete_offsets: _containers.RepeatedScalarFieldContainer[int]
    offered_through: Position
    def __init__(self, added_count: _Optional[int] = ..., due_offsets: _Optional[_Iterable[int]] = ..., duplicate_offsets: _Optional[_Iterable[int]] = ..., beyond_max_delay_offsets: _Optional[_Iterable[int]] = ..., below_mark_delete_offsets: _Optional[_Iterable[int]] = ..., offered_through: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class PollScheduledMessagesRequest(_message.Message):
    __slots__ = ("tracker", "epoch", "max_messages", "wait_ms", "lease_ms", "hand_off", "share_messages")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    HAND_OFF_FIELD_NUMBER: _ClassVar[int]
    SHARE_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    max_messages: int
    wait_ms: int
    lease_ms: int
    hand_off: bool
    share_messages: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ..., max_messages: _Optional[int] = ..., wait_ms: _Optional[int] = ..., lease_ms: _Optional[int] = ..., hand_off: bool = ..., share_messages: _Optional[_Iterable[int]] = ...) -> None: ...

class LeasedShare(_message.Message):
    __slots__ = ("lease_id", "message_count")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    message_count: int
    def __init__(self, lease_id: _Optional[int] = ..., message_count: _Optional[int] = ...) -> None: ...

class PollScheduledMessagesResponse(_message.Message):
    __slots__ = ("lease_id", "lease_expires_at_ms", "deliver_at_ms", "ledger_ids", "entry_ids", "next_delivery_at_ms", "server_time_ms", "replay_required", "pause_reading", "shares")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_DELIVERY_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    REPLAY_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    PAUSE_READING_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    lease_expires_at_ms: int
    deliver_at_ms: _containers.RepeatedScalarFieldContainer[int]
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    next_delivery_at_ms: int
    server_time_ms: int
    replay_required: bool
    pause_reading: bool
    shares: _containers.RepeatedCompositeFieldContainer[LeasedShare]
    def __init__(self, lease_id: _Optional[int] = ..., lease_expires_at_ms: _Optional[int] = ..., deliver_at_ms: _Optional[_Iterable[int]] = ..., ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ..., next_delivery_at_ms: _Optional[int] = ..., server_time_ms: _Optional[int] = ..., replay_required: bool = ..., pause_reading: bool = ..., shares: _Optional[_Iterable[_Union[LeasedShare, _Mapping]]] = ...) -> None: ...

class AckMessagesRequest(_message.Message):
    __slots__ = ("tracker", "epoch", "lease_id", "ledger_ids", "entry_ids", "leases")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    lease_id: int
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseAck]
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ..., lease_id: _Optional[int] = ..., ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ..., leases: _Optional[_Iterable[_Union[LeaseAck, _Mapping]]] = ...) -> None: ...

class LeaseAck(_message.Message):
    __slots__ = ("lease_id", "position_count", "held_count")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_COUNT_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    position_count: int
    held_count: int
    def __init__(self, lease_id: _Optional[int] = ..., position_count: _Optional[int] = ..., held_count: _Optional[int] = ...) -> None: ...

class AckMessagesResponse(_message.Message):
    __slots__ = ("acked_count", "stale_offsets", "unknown_offsets", "acked_counts")
    ACKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    STALE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ACKED_COUNTS_FIELD_NUMBER: _ClassVar[int]
    acked_count: int
    stale_offsets: _containers.RepeatedScalarFieldContainer[int]
    unknown_offsets: _containers.RepeatedScalarFieldContainer[int]
    acked_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, acked_count: _Optional[int] = ..., stale_offsets: _Optional[_Iterable[int]] = ..., unknown_offsets: _Optional[_Iterable[int]] = ..., acked_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class NackMessagesRequest(_message.Message):
    __slots__ = ("tracker", "epoch", "lease_id", "ledger_ids", "entry_ids", "deliver_at_ms")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    lease_id: int
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    deliver_at_ms: int
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ..., lease_id: _Optional[int] = ..., ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ..., deliver_at_ms: _Optional[int] = ...) -> None: ...

class NackMessagesResponse(_message.Message):
    __slots__ = ("returned_count", "stale_offsets", "unknown_offsets")
    RETURNED_COUNT_FIELD_NUMBER: _ClassVar[int]
    STALE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    returned_count: int
    stale_offsets: _containers.RepeatedScalarFieldContainer[int]
    unknown_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, returned_count: _Optional[int] = ..., stale_offsets: _Optional[_Iterable[int]] = ..., unknown_offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class ContainsMessagesRequest(_message.Message):
    __slots__ = ("tracker", "ledger_ids", "entry_ids")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ContainsMessagesResponse(_message.Message):
    __slots__ = ("tracked_offsets",)
    TRACKED_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    tracked_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tracked_offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class NextDeliveryTimeRequest(_message.Message):
    __slots__ = ("tracker",)
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ...) -> None: ...

class NextDeliveryTimeResponse(_message.Message):
    __slots__ = ("next_delivery_at_ms", "server_time_ms")
    NEXT_DELIVERY_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    next_delivery_at_ms: int
    server_time_ms: int
    def __init__(self, next_delivery_at_ms: _Optional[int] = ..., server_time_ms: _Optional[int] = ...) -> None: ...

class AdvanceMarkDeleteRequest(_message.Message):
    __slots__ = ("tracker", "epoch", "mark_delete")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MARK_DELETE_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    mark_delete: Position
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ..., mark_delete: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class AdvanceMarkDeleteResponse(_message.Message):
    __slots__ = ("mark_delete", "trimmed_count")
    MARK_DELETE_FIELD_NUMBER: _ClassVar[int]
    TRIMMED_COUNT_FIELD_NUMBER: _ClassVar[int]
    mark_delete: Position
    trimmed_count: int
    def __init__(self, mark_delete: _Optional[_Union[Position, _Mapping]] = ..., trimmed_count: _Optional[int] = ...) -> None: ...

class ClearMessagesRequest(_message.Message):
    __slots__ = ("tracker", "epoch")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class ClearMessagesResponse(_message.Message):
    __slots__ = ("epoch", "cleared_count")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLEARED_COUNT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    cleared_count: int
    def __init__(self, epoch: _Optional[int] = ..., cleared_count: _Optional[int] = ...) -> None: ...

class GetTrackerStatsRequest(_message.Message):
    __slots__ = ("tracker",)
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ...) -> None: ...

class GetTrackerStatsResponse(_message.Message):
    __slots__ = ("epoch", "owner", "pending_count", "leased_count", "loaded_count", "mutable_count", "late_count", "bucket_count", "snapshot_bytes", "membership_bytes", "next_delivery_at_ms", "mark_delete", "added_count", "recovered_count", "acked_count", "handed_off_count", "cancelled_count", "trimmed_count", "cleared_count", "refused_as_due_count", "dropped_as_corrupt_count", "due_on_offer_count", "duplicate_count", "lease_expired_count", "effects_failed_count", "orphans_swept_count", "snapshots_missing_count", "snapshots_corrupt_count", "replay_required", "server_time_ms", "pause_reading", "merge_count", "merged_index_count", "memory_bytes", "handed_out_count", "rescheduled_count", "log_bytes", "unwritten_consumed_count", "consumption_window_positions", "offered_through", "unloaded")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASED_COUNT_FIELD_NUMBER: _ClassVar[int]
    LOADED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MUTABLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LATE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BUCKET_COUNT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_BYTES_FIELD_NUMBER: _ClassVar[int]
    NEXT_DELIVERY_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MARK_DELETE_FIELD_NUMBER: _ClassVar[int]
    ADDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    HANDED_OFF_COUNT_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRIMMED_COUNT_FIELD_NUMBER: _ClassVar[int]
    CLEARED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_AS_DUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_AS_CORRUPT_COUNT_FIELD_NUMBER: _ClassVar[int]
    DUE_ON_OFFER_COUNT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRED_COUNT_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ORPHANS_SWEPT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_MISSING_COUNT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_CORRUPT_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLAY_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    PAUSE_READING_FIELD_NUMBER: _ClassVar[int]
    MERGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    MERGED_INDEX_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    HANDED_OUT_COUNT_FIELD_NUMBER: _ClassVar[int]
    RESCHEDULED_COUNT_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNWRITTEN_CONSUMED_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONSUMPTION_WINDOW_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    OFFERED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    UNLOADED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    owner: str
    pending_count: int
    leased_count: int
    loaded_count: int
    mutable_count: int
    late_count: int
    bucket_count: int
    snapshot_bytes: int
    membership_bytes: int
    next_delivery_at_ms: int
    mark_delete: Position
    added_count: int
    recovered_count: int
    acked_count: int
    handed_off_count: int
    cancelled_count: int
    trimmed_count: int
    cleared_count: int
    refused_as_due_count: int
    dropped_as_corrupt_count: int
    due_on_offer_count: int
    duplicate_count: int
    lease_expired_count: int
    effects_failed_count: int
    orphans_swept_count: int
    snapshots_missing_count: int
    snapshots_corrupt_count: int
    replay_required: bool
    server_time_ms: int
    pause_reading: bool
    merge_count: int
    merged_index_count: int
    memory_bytes: int
    handed_out_count: int
    rescheduled_count: int
    log_bytes: int
    unwritten_consumed_count: int
    consumption_window_positions: int
    offered_through: Position
    unloaded: bool
    def __init__(self, epoch: _Optional[int] = ..., owner: _Optional[str] = ..., pending_count: _Optional[int] = ..., leased_count: _Optional[int] = ..., loaded_count: _Optional[int] = ..., mutable_count: _Optional[int] = ..., late_count: _Optional[int] = ..., bucket_count: _Optional[int] = ..., snapshot_bytes: _Optional[int] = ..., membership_bytes: _Optional[int] = ..., next_delivery_at_ms: _Optional[int] = ..., mark_delete: _Optional[_Union[Position, _Mapping]] = ..., added_count: _Optional[int] = ..., recovered_count: _Optional[int] = ..., acked_count: _Optional[int] = ..., handed_off_count: _Optional[int] = ..., cancelled_count: _Optional[int] = ..., trimmed_count: _Optional[int] = ..., cleared_count: _Optional[int] = ..., refused_as_due_count: _Optional[int] = ..., dropped_as_corrupt_count: _Optional[int] = ..., due_on_offer_count: _Optional[int] = ..., duplicate_count: _Optional[int] = ..., lease_expired_count: _Optional[int] = ..., effects_failed_count: _Optional[int] = ..., orphans_swept_count: _Optional[int] = ..., snapshots_missing_count: _Optional[int] = ..., snapshots_corrupt_count: _Optional[int] = ..., replay_required: bool = ..., server_time_ms: _Optional[int] = ..., pause_reading: bool = ..., merge_count: _Optional[int] = ..., merged_index_count: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., handed_out_count: _Optional[int] = ..., rescheduled_count: _Optional[int] = ..., log_bytes: _Optional[int] = ..., unwritten_consumed_count: _Optional[int] = ..., consumption_window_positions: _Optional[int] = ..., offered_through: _Optional[_Union[Position, _Mapping]] = ..., unloaded: bool = ...) -> None: ...

class ListBucketsRequest(_message.Message):
    __slots__ = ("tracker",)
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ...) -> None: ...

class ListBucketsResponse(_message.Message):
    __slots__ = ("buckets",)
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    buckets: _containers.RepeatedCompositeFieldContainer[Bucket]
    def __init__(self, buckets: _Optional[_Iterable[_Union[Bucket, _Mapping]]] = ...) -> None: ...

class Bucket(_message.Message):
    __slots__ = ("bucket_id", "state", "first", "last", "tracked_count", "sealed_count", "segment_count", "loaded_segment_count", "min_deliver_at_ms", "max_deliver_at_ms", "snapshot_bytes")
    BUCKET_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    TRACKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    SEALED_COUNT_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    LOADED_SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    MIN_DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    bucket_id: int
    state: BucketState
    first: Position
    last: Position
    tracked_count: int
    sealed_count: int
    segment_count: int
    loaded_segment_count: int
    min_deliver_at_ms: int
    max_deliver_at_ms: int
    snapshot_bytes: int
    def __init__(self, bucket_id: _Optional[int] = ..., state: _Optional[_Union[BucketState, str]] = ..., first: _Optional[_Union[Position, _Mapping]] = ..., last: _Optional[_Union[Position, _Mapping]] = ..., tracked_count: _Optional[int] = ..., sealed_count: _Optional[int] = ..., segment_count: _Optional[int] = ..., loaded_segment_count: _Optional[int] = ..., min_deliver_at_ms: _Optional[int] = ..., max_deliver_at_ms: _Optional[int] = ..., snapshot_bytes: _Optional[int] = ...) -> None: ...

class DeleteTrackerRequest(_message.Message):
    __slots__ = ("tracker", "epoch")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class DeleteTrackerResponse(_message.Message):
    __slots__ = ("deleted_count",)
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    deleted_count: int
    def __init__(self, deleted_count: _Optional[int] = ...) -> None: ...

class AddMessagesStreamRequest(_message.Message):
    __slots__ = ("add",)
    ADD_FIELD_NUMBER: _ClassVar[int]
    add: AddMessagesRequest
    def __init__(self, add: _Optional[_Union[AddMessagesRequest, _Mapping]] = ...) -> None: ...

class AddMessagesStreamResponse(_message.Message):
    __slots__ = ("added",)
    ADDED_FIELD_NUMBER: _ClassVar[int]
    added: AddMessagesResponse
    def __init__(self, added: _Optional[_Union[AddMessagesResponse, _Mapping]] = ...) -> None: ...

class ExtendLeaseRequest(_message.Message):
    __slots__ = ("tracker", "epoch", "lease_id", "ledger_ids", "entry_ids", "lease_ms")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    lease_id: int
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    lease_ms: int
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ..., lease_id: _Optional[int] = ..., ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class ExtendLeaseResponse(_message.Message):
    __slots__ = ("extended_count", "lease_expires_at_ms", "stale_offsets", "unknown_offsets")
    EXTENDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STALE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    extended_count: int
    lease_expires_at_ms: int
    stale_offsets: _containers.RepeatedScalarFieldContainer[int]
    unknown_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, extended_count: _Optional[int] = ..., lease_expires_at_ms: _Optional[int] = ..., stale_offsets: _Optional[_Iterable[int]] = ..., unknown_offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelMessagesRequest(_message.Message):
    __slots__ = ("tracker", "epoch", "ledger_ids", "entry_ids")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ..., ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelMessagesResponse(_message.Message):
    __slots__ = ("cancelled_count", "leased_offsets", "unknown_offsets")
    CANCELLED_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASED_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    cancelled_count: int
    leased_offsets: _containers.RepeatedScalarFieldContainer[int]
    unknown_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cancelled_count: _Optional[int] = ..., leased_offsets: _Optional[_Iterable[int]] = ..., unknown_offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class RescheduleMessagesRequest(_message.Message):
    __slots__ = ("tracker", "epoch", "deliver_at_ms", "ledger_ids", "entry_ids")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    deliver_at_ms: _containers.RepeatedScalarFieldContainer[int]
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ..., deliver_at_ms: _Optional[_Iterable[int]] = ..., ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class RescheduleMessagesResponse(_message.Message):
    __slots__ = ("rescheduled_count", "due_offsets", "duplicate_offsets", "leased_offsets", "unknown_offsets", "beyond_max_delay_offsets")
    RESCHEDULED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DUE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LEASED_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BEYOND_MAX_DELAY_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    rescheduled_count: int
    due_offsets: _containers.RepeatedScalarFieldContainer[int]
    duplicate_offsets: _containers.RepeatedScalarFieldContainer[int]
    leased_offsets: _containers.RepeatedScalarFieldContainer[int]
    unknown_offsets: _containers.RepeatedScalarFieldContainer[int]
    beyond_max_delay_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rescheduled_count: _Optional[int] = ..., due_offsets: _Optional[_Iterable[int]] = ..., duplicate_offsets: _Optional[_Iterable[int]] = ..., leased_offsets: _Optional[_Iterable[int]] = ..., unknown_offsets: _Optional[_Iterable[int]] = ..., beyond_max_delay_offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class EntryRange(_message.Message):
    __slots__ = ("ledger_id", "first_entry_id", "last_entry_id")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    first_entry_id: int
    last_entry_id: int
    def __init__(self, ledger_id: _Optional[int] = ..., first_entry_id: _Optional[int] = ..., last_entry_id: _Optional[int] = ...) -> None: ...

class FilterEntriesRequest(_message.Message):
    __slots__ = ("tracker", "ranges")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    ranges: _containers.RepeatedCompositeFieldContainer[EntryRange]
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., ranges: _Optional[_Iterable[_Union[EntryRange, _Mapping]]] = ...) -> None: ...

class FilterEntriesResponse(_message.Message):
    __slots__ = ("ranges",)
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[EntryRange]
    def __init__(self, ranges: _Optional[_Iterable[_Union[EntryRange, _Mapping]]] = ...) -> None: ...

class ResetCursorRequest(_message.Message):
    __slots__ = ("tracker", "epoch", "mark_delete", "keep_index")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MARK_DELETE_FIELD_NUMBER: _ClassVar[int]
    KEEP_INDEX_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    mark_delete: Position
    keep_index: bool
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ..., mark_delete: _Optional[_Union[Position, _Mapping]] = ..., keep_index: bool = ...) -> None: ...

class ResetCursorResponse(_message.Message):
    __slots__ = ("epoch", "cleared_count", "replay_from")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLEARED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FROM_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    cleared_count: int
    replay_from: Position
    def __init__(self, epoch: _Optional[int] = ..., cleared_count: _Optional[int] = ..., replay_from: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class ListTrackersRequest(_message.Message):
    __slots__ = ("topic_prefix", "page_size", "page_token")
    TOPIC_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topic_prefix: str
    page_size: int
    page_token: str
    def __init__(self, topic_prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class TrackerSummary(_message.Message):
    __slots__ = ("tracker", "open", "recovering", "owner", "epoch", "pending_count", "leased_count", "bucket_count", "next_delivery_at_ms", "unloaded")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    RECOVERING_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASED_COUNT_FIELD_NUMBER: _ClassVar[int]
    BUCKET_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEXT_DELIVERY_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UNLOADED_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    open: bool
    recovering: bool
    owner: str
    epoch: int
    pending_count: int
    leased_count: int
    bucket_count: int
    next_delivery_at_ms: int
    unloaded: bool
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., open: bool = ..., recovering: bool = ..., owner: _Optional[str] = ..., epoch: _Optional[int] = ..., pending_count: _Optional[int] = ..., leased_count: _Optional[int] = ..., bucket_count: _Optional[int] = ..., next_delivery_at_ms: _Optional[int] = ..., unloaded: bool = ...) -> None: ...

class ListTrackersResponse(_message.Message):
    __slots__ = ("trackers", "next_page_token")
    TRACKERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    trackers: _containers.RepeatedCompositeFieldContainer[TrackerSummary]
    next_page_token: str
    def __init__(self, trackers: _Optional[_Iterable[_Union[TrackerSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PeekMessagesRequest(_message.Message):
    __slots__ = ("tracker", "from_ms", "until_ms", "max_messages")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    from_ms: int
    until_ms: int
    max_messages: int
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., from_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., max_messages: _Optional[int] = ...) -> None: ...

class PeekMessagesResponse(_message.Message):
    __slots__ = ("deliver_at_ms", "ledger_ids", "entry_ids", "leased_offsets", "truncated")
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    LEASED_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    deliver_at_ms: _containers.RepeatedScalarFieldContainer[int]
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    leased_offsets: _containers.RepeatedScalarFieldContainer[int]
    truncated: bool
    def __init__(self, deliver_at_ms: _Optional[_Iterable[int]] = ..., ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ..., leased_offsets: _Optional[_Iterable[int]] = ..., truncated: bool = ...) -> None: ...

class ExplainMessageRequest(_message.Message):
    __slots__ = ("tracker", "position")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    position: Position
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class ExplainMessageResponse(_message.Message):
    __slots__ = ("place", "deliver_at_ms", "available_at_ms", "bucket_id", "segment", "lease_id", "explanation", "server_time_ms")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    BUCKET_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    place: MessagePlace
    deliver_at_ms: int
    available_at_ms: int
    bucket_id: int
    segment: int
    lease_id: int
    explanation: str
    server_time_ms: int
    def __init__(self, place: _Optional[_Union[MessagePlace, str]] = ..., deliver_at_ms: _Optional[int] = ..., available_at_ms: _Optional[int] = ..., bucket_id: _Optional[int] = ..., segment: _Optional[int] = ..., lease_id: _Optional[int] = ..., explanation: _Optional[str] = ..., server_time_ms: _Optional[int] = ...) -> None: ...

class DeliveryHistogramRequest(_message.Message):
    __slots__ = ("tracker", "from_ms", "step_ms", "bar_count")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    STEP_MS_FIELD_NUMBER: _ClassVar[int]
    BAR_COUNT_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    from_ms: int
    step_ms: int
    bar_count: int
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., from_ms: _Optional[int] = ..., step_ms: _Optional[int] = ..., bar_count: _Optional[int] = ...) -> None: ...

class DeliveryHistogramResponse(_message.Message):
    __slots__ = ("before_count", "counts", "after_count", "estimated_count")
    BEFORE_COUNT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    AFTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_COUNT_FIELD_NUMBER: _ClassVar[int]
    before_count: int
    counts: _containers.RepeatedScalarFieldContainer[int]
    after_count: int
    estimated_count: int
    def __init__(self, before_count: _Optional[int] = ..., counts: _Optional[_Iterable[int]] = ..., after_count: _Optional[int] = ..., estimated_count: _Optional[int] = ...) -> None: ...

class SealBucketRequest(_message.Message):
    __slots__ = ("tracker", "epoch")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class SealBucketResponse(_message.Message):
    __slots__ = ("sealed_count",)
    SEALED_COUNT_FIELD_NUMBER: _ClassVar[int]
    sealed_count: int
    def __init__(self, sealed_count: _Optional[int] = ...) -> None: ...

class VerifySnapshotsRequest(_message.Message):
    __slots__ = ("tracker",)
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ...) -> None: ...

class SnapshotVerdict(_message.Message):
    __slots__ = ("bucket_id", "segment_count", "index_count", "bytes", "problems")
    BUCKET_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    INDEX_COUNT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    bucket_id: int
    segment_count: int
    index_count: int
    bytes: int
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, bucket_id: _Optional[int] = ..., segment_count: _Optional[int] = ..., index_count: _Optional[int] = ..., bytes: _Optional[int] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class VerifySnapshotsResponse(_message.Message):
    __slots__ = ("snapshots", "orphan_bucket_ids")
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    ORPHAN_BUCKET_IDS_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[SnapshotVerdict]
    orphan_bucket_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, snapshots: _Optional[_Iterable[_Union[SnapshotVerdict, _Mapping]]] = ..., orphan_bucket_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ImportSnapshotsRequest(_message.Message):
    __slots__ = ("header", "bucket", "entries", "end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    header: ImportHeader
    bucket: ImportedBucket
    entries: ImportedEntries
    end: ImportEnd
    def __init__(self, header: _Optional[_Union[ImportHeader, _Mapping]] = ..., bucket: _Optional[_Union[ImportedBucket, _Mapping]] = ..., entries: _Optional[_Union[ImportedEntries, _Mapping]] = ..., end: _Optional[_Union[ImportEnd, _Mapping]] = ...) -> None: ...

class ImportHeader(_message.Message):
    __slots__ = ("tracker", "owner", "expected_epoch", "mark_delete", "bucket_count", "offered_through")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MARK_DELETE_FIELD_NUMBER: _ClassVar[int]
    BUCKET_COUNT_FIELD_NUMBER: _ClassVar[int]
    OFFERED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    owner: str
    expected_epoch: int
    mark_delete: Position
    bucket_count: int
    offered_through: Position
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., owner: _Optional[str] = ..., expected_epoch: _Optional[int] = ..., mark_delete: _Optional[_Union[Position, _Mapping]] = ..., bucket_count: _Optional[int] = ..., offered_through: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class ImportedBucket(_message.Message):
    __slots__ = ("first", "last", "entry_count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ENTRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    first: Position
    last: Position
    entry_count: int
    def __init__(self, first: _Optional[_Union[Position, _Mapping]] = ..., last: _Optional[_Union[Position, _Mapping]] = ..., entry_count: _Optional[int] = ...) -> None: ...

class ImportedEntries(_message.Message):
    __slots__ = ("entries", "crc32c")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedScalarFieldContainer[bytes]
    crc32c: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, entries: _Optional[_Iterable[bytes]] = ..., crc32c: _Optional[_Iterable[int]] = ...) -> None: ...

class ImportEnd(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ImportSnapshotsResponse(_message.Message):
    __slots__ = ("epoch", "bucket_count", "tracked_count", "replaced_count", "replay_from")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BUCKET_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRACKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLACED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FROM_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    bucket_count: int
    tracked_count: int
    replaced_count: int
    replay_from: Position
    def __init__(self, epoch: _Optional[int] = ..., bucket_count: _Optional[int] = ..., tracked_count: _Optional[int] = ..., replaced_count: _Optional[int] = ..., replay_from: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class StreamMembershipRequest(_message.Message):
    __slots__ = ("tracker", "epoch")
    TRACKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    tracker: TrackerRef
    epoch: int
    def __init__(self, tracker: _Optional[_Union[TrackerRef, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class StreamMembershipResponse(_message.Message):
    __slots__ = ("ledgers",)
    LEDGERS_FIELD_NUMBER: _ClassVar[int]
    ledgers: _containers.RepeatedCompositeFieldContainer[LedgerMembership]
    def __init__(self, ledgers: _Optional[_Iterable[_Union[LedgerMembership, _Mapping]]] = ...) -> None: ...

class LedgerMembership(_message.Message):
    __slots__ = ("ledger_id", "entries")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    entries: bytes
    def __init__(self, ledger_id: _Optional[int] = ..., entries: _Optional[bytes] = ...) -> None: ...
