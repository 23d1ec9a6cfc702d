"""Settings: their defaults, their ranges, and the combinations of values."""

import dataclasses

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.settings.address import Address, Transport, parse_addresses
from delayed_tracker.service.settings.keys import Form, SettingKey
from delayed_tracker.service.settings.settings import LOAD_INDEXES_MIN, READ_AHEAD_INDEXES, SETTING_KEYS, Settings
from tests.service.harness.settings import settings_of

NUMBERS = [row for row in SETTING_KEYS.values() if row.form is Form.NUMBER and not row.unsupported_reason]
NOT_BUILT = [row for row in SETTING_KEYS.values() if row.unsupported_reason]


def ids(rows):
    return [declared.key for declared in rows]


def test_defaults_of_pulsars_keys_are_pulsars():
    """A configuration that names no key behaves as with broker.conf's defaults."""
    values = Settings().by_key()
    assert values["delayedDeliveryTickTimeMillis"] == 1000
    assert values["isDelayedDeliveryDeliverAtTimeStrict"] is False
    assert values["delayedDeliveryMinIndexCountPerBucket"] == 50_000
    assert values["delayedDeliveryMaxTimeStepPerBucketSnapshotSegmentSeconds"] == 300
    assert values["delayedDeliveryMaxIndexesPerBucketSnapshotSegment"] == 5_000
    assert values["delayedDeliveryMaxNumBuckets"] == -1
    assert values["delayedDeliverySharedIndexEnabled"] is False
    assert values["delayedDeliveryMaxDelayInMillis"] == 0
    assert values["delayedDeliveryFixedDelayDetectionLookahead"] == 50_000
    assert values["brokerEntryMetadataInterceptors"] == ""
    assert values["exposingBrokerEntryMetadataToClientEnabled"] is False


def test_defaults_give_the_cores_default_limits():
    """The defaults of the core and the service equal those of the settings."""
    # The core alone reads only near segments; in the service a read is a round trip to a storage.
    assert Settings().tracker_limits() == TrackerLimits(
        load_indexes_min=LOAD_INDEXES_MIN, read_ahead_indexes=READ_AHEAD_INDEXES
    )
    assert Settings().service_limits() == ServiceLimits()


def test_every_limit_of_the_service_can_be_configured():
    """Each limit of the service takes its value from a key of its own."""
    given = {
        "batch_positions_max": 11,
        "poll_messages_max": 12,
        "poll_wait_max_ms": 13,
        "waiting_polls_max": 14,
        "calls_max": 15,
        "grpc_message_bytes_max": 16 * 2**20 + 1,
        "grpc_request_bytes_in_flight_max": 128 * 2**20 + 1,
        "grpc_answer_bytes_in_flight_max": 128 * 2**20 + 2,
        "grpc_unread_calls_max": 151,
        "grpc_receive_ms_max": 152,
        "grpc_streams_max": 153,
        "trackers_max": 16,
        "default_lease_ms": 17,
        "lease_max_ms": 18,
        "leased_positions_max": 19,
        "unstored_indexes_max": 190,
        "tracker_unstored_indexes_max": 180,
        "add_log_bytes_max": 2**20 + 1,
        "add_log_pending_bytes_max": 2**20 + 2,
        "consumption_window_positions": 191,
        "consumption_window_ms": 192,
        "tracker_idle_unload_ms": 193,
        "storage_operations_max": 21,
        "tracker_operations_max": 22,
        "storage_attempts_max": 23,
        "storage_backoff_ms": 24,
        "snapshot_metadata_bytes_max": 2_500,
        "snapshot_codec": "columnar",
        "worker_threads": 26,
        "metrics_trackers_max": 27,
    }
    limits = dataclasses.asdict(settings_of(**given).service_limits())
    assert limits.pop("retry_after_ms") == ServiceLimits().retry_after_ms, "a constant"
    assert tuple(limits.values()) == tuple(given.values())


def test_limits_follow_the_settings():
    """Every limit of the core comes from the setting of that name; seconds become milliseconds."""
    limits = settings_of(
        tick_ms=7,
        strict=True,
        min_index_count_per_bucket=11,
        mutable_indexes_max=12,
        late_indexes_max=13,
        max_step_per_segment_seconds=14,
        max_indexes_per_segment=15,
        buckets_max=21,
        prefetch_window_ms=16,
        loaded_indexes_max=18,
        tracker_operations_max=17,
        max_delay_ms=19,
        retry_backoff_ms=20,
        tracker_factory="in-memory",
        fixed_delay_detection_lookahead=22,
    ).tracker_limits()
    assert limits == TrackerLimits(
        tick_ms=7,
        strict=True,
        min_index_count_per_bucket=11,
        mutable_indexes_max=12,
        late_indexes_max=13,
        max_step_per_segment_ms=14_000,
        max_indexes_per_segment=15,
        max_num_buckets=21,
        prefetch_window_ms=16,
        load_indexes_min=LOAD_INDEXES_MIN,
        read_ahead_indexes=READ_AHEAD_INDEXES,
        loads_in_flight_max=17,
        loaded_indexes_max=18,
        max_delay_ms=19,
        retry_backoff_ms=20,
        kind=TrackerKind.IN_MEMORY,
        fixed_delay_lookahead=22,
    )


@pytest.mark.parametrize("declared", NUMBERS, ids=ids(NUMBERS))
def test_numbers_outside_their_range_are_refused(declared: SettingKey):
    """The ends of a range are legal as far as other keys allow; one step beyond names key, value and range."""
    declared.check(declared.minimum)
    declared.check(declared.maximum)
    if declared.special_value is not None:
        declared.check(declared.special_value[0])
    for beyond in (declared.minimum - 1, declared.maximum + 1):
        if declared.special_value is not None and beyond == declared.special_value[0]:
            continue
        with pytest.raises(InvalidInput) as caught:
            Settings().with_values({declared.key: beyond})
        assert caught.value.field == declared.key
        assert caught.value.value == beyond
        assert str(declared.minimum) in caught.value.remedy


def test_zero_is_no_legal_segment_size():
    """-1 stands for unlimited, and the numbers between it and the range are refused."""
    settings_of(max_indexes_per_segment=-1)
    with pytest.raises(InvalidInput, match="1 to 2147483647, or -1"):
        settings_of(max_indexes_per_segment=0)


@pytest.mark.parametrize("declared", NOT_BUILT, ids=ids(NOT_BUILT))
def test_keys_without_their_feature_accept_only_the_default(declared: SettingKey):
    """A key whose feature does not exist yet is refused with that reason instead of being ignored."""
    declared.check(declared.default)
    other = {bool: not declared.default, int: 7, str: "something"}[type(declared.default)]
    with pytest.raises(InvalidInput) as caught:
        Settings().with_values({declared.key: other})
    assert declared.unsupported_reason in caught.value.remedy
    assert "leave it" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bucket", TrackerKind.BUCKET),
        ("org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory", TrackerKind.BUCKET),
        ("delayedtracker.pulsar.ServiceDelayedDeliveryTrackerFactory", TrackerKind.BUCKET),
        ("in-memory", TrackerKind.IN_MEMORY),
        ("org.apache.pulsar.broker.delayed.InMemoryDelayedDeliveryTrackerFactory", TrackerKind.IN_MEMORY),
    ],
)
def test_trackers_have_short_names_and_pulsars_class_names(name: str, kind: TrackerKind):
    """Both the class names of a broker.conf and short names are accepted."""
    declared = SETTING_KEYS["delayedDeliveryTrackerFactoryClassName"]
    assert settings_of(tracker_factory=declared.parse(name)).tracker_limits().kind is kind


def test_an_unknown_tracker_is_refused_with_the_names_that_work():
    """Other tracker classes cannot be loaded."""
    declared = SETTING_KEYS["delayedDeliveryTrackerFactoryClassName"]
    with pytest.raises(InvalidInput, match="give one of bucket, in-memory, "):
        declared.parse("com.example.TrackerFactory")


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"min_index_count_per_bucket": 1_000_001}, "delayedDeliveryMinIndexCountPerBucket"),
        ({"default_lease_ms": 50_000, "lease_max_ms": 49_999}, "defaultLeaseMillis"),
        ({"batch_positions_max": 700_000}, "batchPositionsMax"),
        ({"poll_messages_max": 700_000}, "pollMessagesMax"),
    ],
)
def test_values_that_contradict_each_other_name_both_keys(fields: dict[str, int], key: str):
    """If two values are legal alone but contradict each other, the error names the key to change and the other one."""
    with pytest.raises(InvalidInput, match="lower this or raise that") as caught:
        settings_of(**fields)
    assert caught.value.field == key


def test_storage_url_needs_a_scheme():
    """A path without a scheme is not a storage URL."""
    with pytest.raises(InvalidInput, match=r"bucketSnapshotStorageUrl.*sqlite:"):
        settings_of(storage_url="data/tracker.db")


def test_the_url_of_an_add_log_needs_a_scheme():
    """Empty, it is that of the storage; a path is none."""
    assert not settings_of(add_log_url="").storage.add_log_url
    with pytest.raises(InvalidInput, match=r"addLogUrl.*sqlite:"):
        settings_of(add_log_url="data/adds")


FILES = {"certificate_file_path": "/c.pem", "key_file_path": "/k.pem"}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7650", Address("127.0.0.1", 7650)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:65535", Address("::1", 65_535)),
        ("0.0.0.0:1", Address("0.0.0.0", 1)),
    ],
)
def test_addresses_read_and_print_alike(text: str, address: Address):
    """Host names, IPv4 and bracketed IPv6 hosts with a port from 0 to 65535 are addresses."""
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "7650", "127.0.0.1", "127.0.0.1:", ":7650", "host:65536", "::1:7650", "[]:1", "a b:1", "[h]:1", "h:x"]
)
def test_malformed_addresses_are_refused(text: str):
    """The error shows an example of an address."""
    with pytest.raises(InvalidInput, match=r"grpcListenAddress.*127\.0\.0\.1:7650"):
        settings_of(grpc_listen_address=text)


def test_keys_are_unique_and_documented():
    """Every key has its own name and a meaning, and numbers that count something have a unit."""
    sections = [getattr(Settings(), section.name) for section in dataclasses.fields(Settings)]
    assert len(SETTING_KEYS) == sum(len(dataclasses.fields(section)) for section in sections)
    for declared in SETTING_KEYS.values():
        assert declared.meaning.endswith(".")
        assert declared.unit or declared.form is not Form.NUMBER


def test_service_listens_on_loopback_by_default():
    """By default other machines cannot reach the service."""
    assert [address.address.host for _, address in Settings().server.addresses()] == ["127.0.0.1"] * 2
    assert Settings().server.health_address is None


def test_several_addresses_each_with_its_protection():
    """They are divided by commas, and print as they are written."""
    text = "127.0.0.1:1,tls://0.0.0.0:0,mtls://[::1]:3"
    found = parse_addresses(text)
    assert [each.transport for each in found] == [Transport.PLAIN, Transport.TLS, Transport.MTLS]
    assert ",".join(map(str, found)) == text
    assert [each.address.port for each in parse_addresses("a:0, a:0")] == [0, 0]
    for refused in ("a:1,a:1", "http://a:1", "tls://", "a:1,", "plain://a:1"):
        with pytest.raises(InvalidInput, match=r"grpcListenAddress.*tls:// or mtls://"):
            settings_of(grpc_listen_address=refused)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"http_listen_address": "0.0.0.0:7651"}, "httpListenAddress.*plain text: write tls://0.0.0.0:7651"),
        ({"grpc_listen_address": "127.0.0.1:1,broker-1:2"}, "grpcListenAddress.*broker-1:2.*plain text"),
        ({"grpc_listen_address": "tls://[::]:1", **FILES}, "grpcListenAddress.*set authenticationEnabled=true"),
        (
            {"grpc_listen_address": "tls://[::1]:1"},
            "tlsCertificateFilePath.*grpcListenAddress=tls://.* needs this file",
        ),
        ({"grpc_listen_address": "mtls://[::1]:1", **FILES}, "tlsTrustCertsFilePath.*needs this file"),
        ({"health_listen_address": "tls://[::1]:1"}, "healthListenAddress.*give one host:port without TLS"),
        ({"health_listen_address": "a:1,b:1"}, "healthListenAddress.*give one host:port without TLS"),
    ],
)
def test_addresses_that_let_anybody_in_are_refused(given: dict[str, str], said: str):
    """The error names the setting that closes the door, and the one that leaves it open."""
    with pytest.raises(InvalidInput, match=said):
        settings_of(**given)
    if "healthListenAddress" not in said and "File" not in said:
        settings_of(**given, allow_insecure_listen=True)
