"""Sources of settings, and the errors of invalid ones."""

from pathlib import Path

import pytest

from delayed_tracker.service.settings.keys import Group
from delayed_tracker.service.settings.load import REMOVED_KEYS, InvalidSettings, load_settings
from delayed_tracker.service.settings.settings import Settings
from tests.service.harness.settings import settings_of


def conf(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tracker.conf"
    path.write_text(text, encoding="utf-8")
    return path


def problems(*args, **kwargs) -> list[str]:
    with pytest.raises(InvalidSettings) as caught:
        load_settings(*args, **kwargs)
    assert caught.value.message.split("\n") == [str(problem) for problem in caught.value.problems]
    return caught.value.message.split("\n")


def test_without_sources_every_value_is_the_default():
    """Without a file and an environment every value is the default, with that origin."""
    loaded = load_settings()
    assert loaded.settings == Settings()
    assert {row.origin for row in loaded.rows()} == {"default"}


def test_later_sources_override_earlier_ones(tmp_path: Path):
    """Each source overrides the one before and is named as the origin: default, file, environment, command line."""
    path = conf(tmp_path, "# ours\nlogLevel=debug\nlogFormat=json\ntrackersMax=5\n")
    loaded = load_settings(
        path,
        environ={"TRACKER_LOG_FORMAT": "console", "TRACKER_TRACKERS_MAX": "6", "HOME": "/"},
        overrides={"trackersMax": "7"},
    )
    origins = {row.key: (row.value, row.origin) for row in loaded.rows()}
    assert origins["logLevel"] == ("debug", f"{path}:2")
    assert origins["logFormat"] == ("console", "environment TRACKER_LOG_FORMAT")
    assert origins["trackersMax"] == ("7", "command line")
    assert origins["waitingPollsMax"] == ("10000", "default")
    assert loaded.settings == settings_of(log_level="debug", log_format="console", trackers_max=7)


def test_last_assignment_of_a_key_wins(tmp_path: Path):
    """A key may be repeated, and its last line counts, as in broker.conf."""
    loaded = load_settings(conf(tmp_path, "trackersMax=1\ntrackersMax=2\n"))
    assert loaded.settings.dispatcher.trackers_max == 2
    assert loaded.origins["trackersMax"].endswith(":2")


@pytest.mark.parametrize(
    "name",
    [
        "TRACKER_delayedDeliveryTickTimeMillis",
        "TRACKER_DELAYED_DELIVERY_TICK_TIME_MILLIS",
        "TRACKER_DELAYEDDELIVERYTICKTIMEMILLIS",
    ],
)
def test_environment_names_ignore_case_and_underscores(name: str):
    """The exact key and its upper-case spellings name the same setting."""
    loaded = load_settings(environ={name: " 250 "})
    assert loaded.settings.pulsar.tick_ms == 250
    assert loaded.origins["delayedDeliveryTickTimeMillis"] == f"environment {name}"


def test_two_spellings_of_one_variable_are_an_error():
    """Two variables for one key are refused, because neither takes precedence."""
    rows = problems(environ={"TRACKER_LOG_LEVEL": "info", "TRACKER_logLevel": "debug"})
    assert rows == ["environment TRACKER_logLevel: logLevel=debug: TRACKER_LOG_LEVEL is set too: unset one of the two"]


def test_variables_that_kubernetes_sets_are_no_settings():
    """The process starts in pods of a Kubernetes service named tracker."""
    environ = {
        "TRACKER_SERVICE_HOST": "10.0.0.1",
        "TRACKER_SERVICE_PORT": "7650",
        "TRACKER_SERVICE_PORT_GRPC": "7650",
        "TRACKER_PORT": "tcp://10.0.0.1:7650",
        "TRACKER_PORT_7650_TCP_ADDR": "10.0.0.1",
    }
    assert load_settings(environ=environ).settings == Settings()


def test_unknown_key_names_file_line_value_and_nearest_key(tmp_path: Path):
    """The error suggests the key that is most similar to a misspelt one."""
    path = conf(tmp_path, "\n# tick\ndelayedDeliveryTickTimeMilis=500\n")
    assert problems(path) == [
        f"{path}:3: delayedDeliveryTickTimeMilis=500: there is no such key; did you mean delayedDeliveryTickTimeMillis?"
    ]


@pytest.mark.parametrize("key", REMOVED_KEYS)
def test_a_key_that_became_a_constant_says_so(key: str):
    """The error names the value that holds now, and the remedy."""
    with pytest.raises(
        InvalidSettings, match=f"this key was removed, its value is now fixed at {REMOVED_KEYS[key]}: remove it"
    ):
        load_settings(overrides={key: "7"})


def test_unknown_key_like_none_points_to_the_list(tmp_path: Path):
    """The error suggests no key if none is similar."""
    path = conf(tmp_path, "zookeeperServers=a:2181")
    assert problems(path) == [
        f"{path}:1: zookeeperServers=a:2181: there is no such key; `delayed-tracker config` lists all there are"
    ]


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("delayedDeliveryFoo", None),
        ("delayedDeliveryMaxFoo", None),
        ("delayedDelivery", None),
        ("delayedDeliveryTickTime", "delayedDeliveryTickTimeMillis"),
        ("tickTimeMillis", "delayedDeliveryTickTimeMillis"),
        ("grpcAddress", "grpcListenAddress"),
    ],
)
def test_only_near_keys_are_suggested(key: str, nearest: str | None):
    """A common prefix does not make keys similar."""
    hint = f"; did you mean {nearest}?" if nearest else "; `delayed-tracker config` lists all there are"
    assert problems(overrides={key: "1"}) == [f"command line: {key}=1: there is no such key{hint}"]


SECURED_BROKER = """\
delayedDeliveryTickTimeMillis=500
delayedDeliveryTrackerFactoryClassName=delayedtracker.pulsar.ServiceDelayedDeliveryTrackerFactory
delayedTrackerServiceAddresses=127.0.0.1:7650
authenticationEnabled=true
authenticationProviders=org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID
authorizationEnabled=true
authorizationProvider=org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider
"""


def test_groups_that_are_not_needed_are_not_looked_at(tmp_path: Path):
    """Commands about the index take a secured broker's settings, which a service cannot; misspelt keys stay errors."""
    path = conf(tmp_path, SECURED_BROKER)
    with pytest.raises(InvalidSettings, match="authenticationProviders"):
        load_settings(broker_conf=path)
    wanted = (Group.PULSAR, Group.STORAGE)
    found = load_settings(broker_conf=path, environ={"TRACKER_GRPC_LISTEN_ADDRESS": "what"}, groups=wanted)
    assert (found.settings.pulsar.tick_ms, found.settings.security) == (500, Settings().security)
    assert found.ignored == ("delayedTrackerServiceAddresses",)
    with pytest.raises(InvalidSettings, match="there is no such key; did you mean logLevel"):
        load_settings(overrides={"logLevle": "debug"}, groups=wanted)


def test_what_may_be_a_secret_is_not_shown(tmp_path: Path):
    """Values of another program's variables, and of lines that are nearly a secret's, stay out of messages."""
    path = conf(tmp_path, "tokenSecretKy data:;base64,c2VjcmV0")
    assert problems(path) == [
        f"{path}:1: tokenSecretKy: the line has no `=`, and there is no such key; did you mean tokenSecretKey?"
    ]
    assert problems(environ={"TRACKER_DB_PASSWORD": "hunter2"}) == [
        "environment TRACKER_DB_PASSWORD: DB_PASSWORD: there is no such key; `delayed-tracker config` lists all there are"
    ]


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("noequals", "the line has no `=`: write KEY=VALUE"),
        ("this is a stray line", "the line has no `=`: write KEY=VALUE"),
        ("logLevle", "the line has no `=`, and there is no such key; did you mean logLevel?"),
        ("logLevle debug", "the line has no `=`, and there is no such key; did you mean logLevel?"),
    ],
)
def test_a_line_without_an_equals_sign_is_said_so(tmp_path: Path, line: str, remedy: str):
    """A line without a sign is quoted as written, and its words are not searched for keys."""
    path = conf(tmp_path, f"\n{line}\n")
    assert problems(path) == [f"{path}:2: {line}: {remedy}"]


def test_a_key_that_is_separated_by_a_blank_or_a_colon_is_one(tmp_path: Path):
    """A key that is separated by a blank or a colon is accepted, as in Java."""
    assert load_settings(conf(tmp_path, "logLevel debug\nlogFormat: json")).settings.telemetry.log_level == "debug"


def test_unknown_variable_and_override_are_errors_too():
    """Unknown keys are errors in every source."""
    assert problems(environ={"TRACKER_LOGLEVLE": "debug"}, overrides={"loglevel": "debug"}) == [
        "environment TRACKER_LOGLEVLE: LOGLEVLE=debug: there is no such key; did you mean logLevel?",
        "command line: loglevel=debug: there is no such key; did you mean logLevel?",
    ]


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("trackersMax=many", "give a whole number, 1 to 10000000"),
        ("trackersMax=1e3", "give a whole number, 1 to 10000000"),
        ("trackersMax=", "give a whole number, 1 to 10000000"),
        ("trackersMax=0", "give 1 to 10000000"),
        ("trackersMax=99999999999999999999", "give a whole number, 1 to 10000000"),
        ("isDelayedDeliveryDeliverAtTimeStrict=yes", "give true or false"),
        ("logLevel=loud", "give one of debug, info, warning, error"),
        ("grpcListenAddress=7650", "give host:port such as"),
        ("delayedDeliveryMaxNumBuckets=0", "give 1 to 2147483647, or -1 (unlimited)"),
        (
            "delayedDeliverySharedIndexEnabled=true",
            "sharing an index across subscriptions is not built; leave it false",
        ),
        ("bucketSnapshotStorageUrl=tracker.db", "give SCHEME:..., such as sqlite:data/tracker.db"),
        ("defaultLeaseMillis=43200001", "it must not be above leaseMillisMax=43200000"),
    ],
)
def test_bad_values_name_file_line_value_and_remedy(tmp_path: Path, line: str, remedy: str):
    """The message has the place of the value and the remedy."""
    path = conf(tmp_path, f"# first\n{line}\n")
    (row,) = problems(path)
    assert row.startswith(f"{path}:2: {line}: {remedy}")


def test_all_problems_are_reported_at_once(tmp_path: Path):
    """One start reports all problems."""
    path = conf(tmp_path, "trackersMax=0\nnonsense=1\nlogLevel=loud\n")
    assert len(problems(path, environ={"TRACKER_LOGFORMAT": "xml"})) == 4


def test_overridden_values_are_not_judged(tmp_path: Path):
    """A bad value that another source overrides is no error."""
    loaded = load_settings(conf(tmp_path, "trackersMax=0\n"), environ={"TRACKER_TRACKERS_MAX": "3"})
    assert loaded.settings.dispatcher.trackers_max == 3


def test_malformed_file_and_missing_file_are_named(tmp_path: Path):
    """A file that cannot be read or decoded is an error of the same kind."""
    assert "No such file" in problems(tmp_path / "absent.conf")[0]
    assert "Is a directory" in problems(tmp_path)[0]
    path = conf(tmp_path, "a=\\u00")
    assert problems(path)[0].startswith(f"{path}:1: a")


BROKER_CONF = """
# Pulsar standalone
advertisedAddress=lab
brokerServicePort=6650
metadataStoreUrl=
managedLedgerMaxEntriesPerLedger=100
brokerDeduplicationEnabled=false
# PIP-70 / PIP-90
brokerEntryMetadataInterceptors=org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor
exposingBrokerEntryMetadataToClientEnabled=true
# PIP-195
delayedDeliveryEnabled=true
delayedDeliveryTickTimeMillis=500
isDelayedDeliveryDeliverAtTimeStrict=true
delayedDeliveryTrackerFactoryClassName=org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory
delayedDeliveryMinIndexCountPerBucket=50
delayedDeliveryMaxNumBuckets=10
# bookie, read from this same file
dbStorage_writeCacheMaxSizeMb=32
numAddWorkerThreads=0
httpServerEnabled=false
advertisedAddress=again
"""


def test_a_broker_conf_is_accepted_as_it_is(tmp_path: Path):
    """Keys of the service are used, each other key is listed once, and other sources override the broker.conf."""
    broker_conf = tmp_path / "broker.conf"
    broker_conf.write_text(BROKER_CONF, encoding="utf-8")
    ours = conf(tmp_path, "delayedDeliveryTickTimeMillis=250\n")
    loaded = load_settings(ours, broker_conf=broker_conf, overrides={"delayedDeliveryMinIndexCountPerBucket": "60"})
    assert loaded.settings == settings_of(
        tick_ms=250,
        strict=True,
        min_index_count_per_bucket=60,
        buckets_max=10,
        broker_entry_metadata_interceptors="org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor",
        expose_broker_entry_metadata=True,
    )
    assert loaded.origins["delayedDeliveryMaxNumBuckets"] == f"{broker_conf}:17"
    assert loaded.ignored == (
        "advertisedAddress",
        "brokerServicePort",
        "metadataStoreUrl",
        "managedLedgerMaxEntriesPerLedger",
        "brokerDeduplicationEnabled",
        "dbStorage_writeCacheMaxSizeMb",
        "numAddWorkerThreads",
        "httpServerEnabled",
    )


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("delayedDeliveryTickTimeMilis=500", "there is no such key; did you mean delayedDeliveryTickTimeMillis?"),
        ("delayeddeliveryenabled=true", "there is no such key; did you mean delayedDeliveryEnabled?"),
        ("delayedDeliveryWheelSlots=7", "there is no such key"),
        ("bucketSnapshotStorageURI=x", "there is no such key; did you mean bucketSnapshotStorageUrl?"),
        ("delayedDeliveryTickTimeMillis=often", "give a whole number"),
        ("delayedDeliverySharedIndexEnabled=true", "sharing an index across subscriptions is not built"),
    ],
)
def test_slips_and_bad_values_are_errors_in_a_broker_conf_too(tmp_path: Path, line: str, remedy: str):
    """Misspelt keys are errors, because ignoring them would change delivery times."""
    path = conf(tmp_path, f"advertisedAddress=lab\n{line}\n")
    (row,) = problems(broker_conf=path)
    assert row.startswith(f"{path}:2: {line}: {remedy}")


def test_a_broker_conf_that_cannot_be_read_is_named(tmp_path: Path):
    """The error names the option."""
    (row,) = problems(broker_conf=tmp_path / "absent.conf")
    assert row.startswith("command line: --broker-conf=")
