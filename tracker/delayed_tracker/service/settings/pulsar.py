"""Settings that Pulsar also has, with the names and the meaning that they have in ``broker.conf``."""

from dataclasses import dataclass

from delayed_tracker.service.settings.keys import Group, Section, setting

_DAY_MS = 86_400_000
_INT32_MAX = 2**31 - 1

_TRACKERS = {
    "bucket": "bucket",
    "in-memory": "in-memory",
    "org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory": "bucket",
    # On a broker with the plugin the service has the buckets.
    "delayedtracker.pulsar.ServiceDelayedDeliveryTrackerFactory": "bucket",
    "org.apache.pulsar.broker.delayed.InMemoryDelayedDeliveryTrackerFactory": "in-memory",
}


@dataclass(frozen=True, kw_only=True)
class PulsarSettings(Section):
    """Settings that a ``broker.conf`` may contain."""

    enabled: bool = setting(
        True,
        "delayedDeliveryEnabled",
        Group.PULSAR,
        "Whether delayed messages are tracked.",
        unsupported_reason="a service that tracks nothing has nothing to do: stop it instead",
    )
    tracker_factory: str = setting(
        "bucket",
        "delayedDeliveryTrackerFactoryClassName",
        Group.PULSAR,
        "Which tracker keeps the index: bucket stores what is far from due, in-memory stores nothing and deletes what "
        "is stored when it opens a subscription. Pulsar's class names mean the same, and that of the plugin for its brokers means bucket.",
        choices=_TRACKERS,
    )
    tick_ms: int = setting(
        1_000,
        "delayedDeliveryTickTimeMillis",
        Group.PULSAR,
        "Unless delivery is strict, a message may be handed out this much before its deadline, so that one wake-up "
        "serves all deadlines of a tick.",
        unit="ms",
        maximum=_DAY_MS,
    )
    strict: bool = setting(
        False,
        "isDelayedDeliveryDeliverAtTimeStrict",
        Group.PULSAR,
        "Never hand out a message before its deadline, not by a tick either.",
    )
    min_index_count_per_bucket: int = setting(
        50_000,
        "delayedDeliveryMinIndexCountPerBucket",
        Group.PULSAR,
        "A bucket is sealed at the first ledger boundary at which it holds this many.",
        unit="indexes",
        minimum=1,
        maximum=_INT32_MAX,
    )
    max_step_per_segment_seconds: int = setting(
        300,
        "delayedDeliveryMaxTimeStepPerBucketSnapshotSegmentSeconds",
        Group.PULSAR,
        "A segment of a snapshot spans less than this.",
        unit="s",
        minimum=1,
        maximum=_INT32_MAX,
    )
    max_indexes_per_segment: int = setting(
        5_000,
        "delayedDeliveryMaxIndexesPerBucketSnapshotSegment",
        Group.PULSAR,
        "A segment of a snapshot holds at most this many.",
        unit="indexes",
        minimum=1,
        maximum=_INT32_MAX,
        special_value=(-1, "unlimited"),
    )
    buckets_max: int = setting(
        -1,
        "delayedDeliveryMaxNumBuckets",
        Group.PULSAR,
        "Above this many buckets, adjacent ones are merged; -1 never merges.",
        unit="buckets",
        minimum=1,
        maximum=_INT32_MAX,
        special_value=(-1, "unlimited"),
    )
    shared_index: bool = setting(
        False,
        "delayedDeliverySharedIndexEnabled",
        Group.PULSAR,
        "Keep one index for all subscriptions of a topic.",
        unsupported_reason="sharing an index across subscriptions is not built",
    )
    max_delay_ms: int = setting(
        0,
        "delayedDeliveryMaxDelayInMillis",
        Group.PULSAR,
        "A deadline further away than this is refused; 0 refuses none.",
        unit="ms",
    )
    fixed_delay_detection_lookahead: int = setting(
        50_000,
        "delayedDeliveryFixedDelayDetectionLookahead",
        Group.PULSAR,
        "In-memory tracker: when this many wait and all seem to have the same delay, poll answers allow the dispatcher to "
        "pause reading; 0 disables this.",
        unit="indexes",
    )
    broker_entry_metadata_interceptors: str = setting(
        "",
        "brokerEntryMetadataInterceptors",
        Group.PULSAR,
        "Class names of the interceptors with which the broker adds metadata to entries. The service adds none. Like a broker, "
        "getMessageIdByIndex refuses every call if this is empty, but only with messageIdByIndexMode=pulsar-compatible.",
    )
    expose_broker_entry_metadata: bool = setting(
        False,
        "exposingBrokerEntryMetadataToClientEnabled",
        Group.PULSAR,
        "Hand the broker's entry metadata to clients that read entries and know of it (protocol version 18 or later).",
    )
