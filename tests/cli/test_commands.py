"""Tests of help, options and errors of the commands."""

import json
import shutil
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE
from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.main import PROGRAM
from delayed_tracker.ledger.metadata import metadata_store
from delayed_tracker.service.settings.load import CONFIG_BYTES_MAX
from tests.ledger.test_input_bounds import at_most

COMMANDS = [
    "serve", "replay", "demo", "trackers", "open", "add", "poll", "cancel", "reschedule", "seal", "delete", "stats",
    "buckets", "peek", "explain", "histogram", "verify", "config", "assets", "top", "warm",
    "backup", "restore", "compact",
]  # fmt: skip
GROUPS = {
    "topics": [
        "list",
        "stats",
        "entries",
        "message",
        "get-message-id-by-index",
        "seek-by-time",
        "last-message-id",
        "compact",
    ],
    "ledgers": ["list", "stats", "verify", "import"],
    "storage": ["copy", "check", "stat"],
    "pulsar": ["gc", "inspect", "adopt", "publish", "repair", "restore"],
}
NOBODY = ["--server", "127.0.0.1:1"]
TRACKER = ["--topic", "persistent://lab/main/delayed", "--subscription", "sub-1"]
SAMPLE = ["--bookie", str(BUNDLED_SAMPLE / "bookie"), "--metadata", str(BUNDLED_SAMPLE / "metadata.jsonl")]


def test_help_lists_every_command_and_exit_status(command):
    """The program's help contains every command and every exit status."""
    ran = command("--help")
    assert ran.status == 0
    for name in [*COMMANDS, *GROUPS]:
        assert f" {name} " in ran.out
    for code in ExitCode:
        assert f"{code.value} " in ran.out


@pytest.mark.parametrize("group", GROUPS)
def test_help_of_a_group_lists_its_commands(command, group):
    """The help of a group contains its commands and no others."""
    ran = command(group, "--help")
    assert ran.status == 0
    for name in GROUPS[group]:
        assert f" {name} " in ran.out
    in_groups = [f"{group} {name}" for group, names in GROUPS.items() for name in names]
    assert sorted([*COMMANDS, *GROUPS, *in_groups]) == sorted(PROGRAM.command_names())


@pytest.mark.parametrize("name", [name for name in PROGRAM.command_names() if name not in GROUPS])
def test_each_command_explains_itself(command, name):
    """Every command's help contains an example, and the option for JSON."""
    ran = command(*name.split(), "--help")
    assert ran.status == 0
    assert f"Example: delayed-tracker {name}" in " ".join(ran.out.split())
    assert "--json" in ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["poll"],
        ["poll", *TRACKER, "--max", "0"],
        ["replay", *TRACKER],
        ["stats", "--nonsense"],
        ["add", *TRACKER],
    ],
)
def test_bad_usage_ends_with_its_status(command, arguments):
    """Bad usage does nothing and prints the problem on stderr."""
    ran = command(*arguments)
    assert ran.status == ExitCode.USAGE
    assert ran.out == ""
    assert ran.err


def test_config_prints_every_value_with_its_origin(command, tmp_path):
    """Default, file and command line are different origins."""
    path = tmp_path / "tracker.conf"
    path.write_text("# a comment\nlogLevel=debug\n")
    ran = command("config", "--config", str(path), "--set", "delayedDeliveryTickTimeMillis=500", "--json")
    assert ran.status == 0
    rows = json.loads(ran.out)
    assert rows["delayedDeliveryTickTimeMillis"] == {"value": "500", "origin": "command line"}
    assert rows["logLevel"] == {"value": "debug", "origin": f"{path}:2"}
    assert rows["shutdownGraceMillis"]["origin"] == "default"
    assert "logLevel" in command("config").out


def test_config_refuses_authorization_by_a_class_of_pulsar(command, tmp_path):
    """The class of a broker.conf grants nothing here: config says what to write instead, unless it is not used."""
    path = tmp_path / "broker.conf"
    provider = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"
    path.write_text(f"authorizationEnabled=false\nauthorizationProvider={provider}\n")
    assert command("config", "--broker-conf", str(path)).status == 0
    path.write_text(
        "authenticationEnabled=true\nauthenticationProviders=tls\nauthorizationEnabled=true\n"
        f"authorizationProvider={provider}\n"
    )
    ran = command("config", "--broker-conf", str(path))
    assert ran.status == ExitCode.USAGE
    assert f"{path}:4: authorizationProvider={provider}: set it to rules, and authorizationRulesFilePath" in ran.err
    assert command("config", "--broker-conf", str(path), "--set", "authorizationProvider=rules").status == 0


def test_config_takes_a_broker_conf_and_lists_what_it_ignores(command, tmp_path):
    """Values of a broker.conf are used, and its other keys are listed on stderr, but for programs."""
    path = tmp_path / "broker.conf"
    path.write_text("advertisedAddress=lab\ndelayedDeliveryTickTimeMillis=500\nnumIOThreads=2\n")
    ran = command("config", "--broker-conf", str(path), "--json")
    assert json.loads(ran.out)["delayedDeliveryTickTimeMillis"] == {"value": "500", "origin": f"{path}:2"}
    assert ran.err == ""
    ran = command("config", "--broker-conf", str(path))
    assert "2 unused keys ignored: advertisedAddress, numIOThreads" in " ".join(ran.err.split())
    path.write_text("advertisedAddress=lab\n")
    assert "1 unused key ignored: advertisedAddress" in " ".join(
        command("config", "--broker-conf", str(path)).err.split()
    )


@pytest.mark.parametrize("option", ["--config", "--broker-conf"])
def test_a_configuration_without_end_is_refused(command, option):
    """An endless file, such as a device, is read up to a limit; an empty device is an empty file."""
    with at_most(5 * CONFIG_BYTES_MAX):
        ran = command("config", option, "/dev/zero")
    assert ran.status == ExitCode.USAGE
    assert f"command line: {option}=/dev/zero: it has more than 1048576 bytes: shorten it" in ran.err
    assert command("config", option, "/dev/null").status == 0


def test_a_misspelt_key_is_one_line_with_the_nearest_known(command, tmp_path):
    """The error contains the file, the line and the nearest known key."""
    path = tmp_path / "tracker.conf"
    path.write_text("\ndelayedDeliveryTickTimeMilis=500\n")
    for name in ("config", "serve"):
        ran = command(name, "--config", str(path))
        assert ran.status == ExitCode.USAGE
        assert ran.err.startswith(f"delayed-tracker: {path}:2: delayedDeliveryTickTimeMilis")
        assert "did you mean delayedDeliveryTickTimeMillis?" in ran.err
        assert "Traceback" not in ran.err


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_warm_refuses_a_cache_below_a_home(command, tmp_path, monkeypatch, variable):
    """A cache path with an unexpanded ~, as from a unit file or an image, is refused and not created."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, "~/cache")
    ran = command("warm")
    assert (ran.status, ran.out) == (ExitCode.USAGE, "")
    assert ran.err.startswith(
        f"delayed-tracker: {variable}: '~/cache' is not valid; ~ is not replaced by a home directory"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_setting_without_a_value_is_refused(command):
    """The error contains the option's name."""
    ran = command("config", "--set", "logLevel")
    assert ran.status == ExitCode.USAGE
    assert "give KEY=VALUE" in ran.err


@pytest.mark.parametrize("name", ["serve", "config"])
def test_an_unknown_storage_lists_the_known(command, name):
    """The error contains the scheme and the known schemes."""
    ran = command(name, "--set", "bucketSnapshotStorageUrl=tape:0")
    assert ran.status == ExitCode.USAGE
    assert "'tape'" in ran.err
    assert "sqlite" in ran.err


@pytest.mark.parametrize("name", ["serve", "config"])
def test_ledgers_of_an_unknown_kind_are_refused_at_once(command, name):
    """The error contains the setting and the known schemes."""
    ran = command(name, "--set", "ledgerSourceUrl=foo:bar")
    assert ran.status == ExitCode.USAGE
    assert ran.err.startswith("delayed-tracker: ledgerSourceUrl: 'foo:bar' is not valid; known schemes are bookkeeper+")


def test_errors_are_objects_for_machines(command):
    """With --json the error contains its reason, which is stable."""
    ran = command("config", "--json", "--set", "x=1")
    document = json.loads(ran.err)
    assert ran.status == ExitCode.USAGE
    assert document["error"]["reason"] == "INVALID_SETTINGS"


@pytest.mark.slow
def test_no_service_is_said_so(command):
    """The error contains the service's address and the remedy."""
    ran = command("stats", *TRACKER, *NOBODY)
    assert ran.status == ExitCode.SERVICE_UNAVAILABLE
    assert "no service answers at 127.0.0.1:1" in ran.err


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (["--topic", "persistent://lab/main/delayd"], "persistent://lab/main/delayed"),
        (["--subscription", "sub-7"], "sub-1"),
        (["--metadata", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--bookie", "nowhere"], "nowhere"),
    ],
)
def test_replay_says_what_is_missing(command, change, names):
    """A missing topic, subscription or file is reported before the client connects, with similar names."""
    ran = command("replay", *SAMPLE, *TRACKER, *NOBODY, *change)
    assert ran.status in {ExitCode.BAD_DATA, ExitCode.USAGE}
    assert names in ran.err
    assert "Traceback" not in ran.err


def test_replay_takes_metadata_from_zookeeper(command, monkeypatch):
    """The zk: form is not read as a file; a ZooKeeper that does not answer is in the error, and the status is 5."""
    monkeypatch.setattr(metadata_store, "_CONNECT_S", 0.05)
    ran = command("replay", *SAMPLE, *TRACKER, *NOBODY, "--metadata", "zk:127.0.0.1:1")
    assert ran.status == ExitCode.SERVICE_UNAVAILABLE
    assert "zk:127.0.0.1:1 does not answer within 0.05 s; start it or correct the address" in ran.err
    ran = command("replay", *SAMPLE, *TRACKER, *NOBODY, "--metadata", "zk:")
    assert ran.status == ExitCode.USAGE
    assert ran.err.startswith("delayed-tracker: --metadata: 'zk:' is not valid; give zk:HOST:PORT")


@pytest.mark.parametrize("place", ["", "nowhere"])
def test_replay_says_which_metadata_cannot_be_read(command, tmp_path, place):
    """The error for an unreadable dump contains the option and all forms that it accepts."""
    ran = command("replay", *SAMPLE, *TRACKER, *NOBODY, "--metadata", str(tmp_path / place))
    assert ran.status == ExitCode.USAGE
    assert ran.err.startswith(f"delayed-tracker: --metadata: '{tmp_path / place}' is not valid; ")
    assert ran.err.endswith(": give a dump of the metadata store that can be read, or zk:HOST:PORT\n")


def test_replay_refuses_a_moment_that_is_none(command):
    """A wrong time is refused before anything is read."""
    ran = command("replay", *SAMPLE, *TRACKER, *NOBODY, "--rebase-at", "soon")
    assert ran.status == ExitCode.USAGE
    assert "--rebase-at" in ran.err


def test_replay_names_the_damaged_entry(command, tmp_path):
    """A flipped byte of an entry is found by its checksum and reported with ledger and entry."""
    copy = Path(shutil.copytree(BUNDLED_SAMPLE / "bookie", tmp_path / "bookie"))
    content = bytearray((copy / "0.log").read_bytes())
    content[1024 + 4 + 40 + 20] ^= 1
    (copy / "0.log").write_bytes(content)
    ran = command("replay", "--bookie", str(copy), *SAMPLE[2:], *TRACKER, *NOBODY, "--ignore-acks")
    assert ran.status == ExitCode.BAD_DATA
    assert "entry 88:0" in ran.err
    assert "--on-error" in ran.err or "skip" in ran.err


def test_a_tampered_sample_ends_the_demo(command, tmp_path):
    """The demo verifies the sample before it starts anything."""
    copy = Path(shutil.copytree(BUNDLED_SAMPLE, tmp_path / "sample"))
    content = bytearray((copy / "bookie" / "0.log").read_bytes())
    content[len(content) // 2] ^= 1
    (copy / "bookie" / "0.log").write_bytes(content)
    ran = command("demo", "--sample", str(copy))
    assert ran.status == ExitCode.BAD_DATA
    assert "SHA-256" in ran.err
