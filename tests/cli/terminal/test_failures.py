"""Tests of failures: one line or one JSON object on stderr, with the names of the command line."""

import json
import re
import sys

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.main import PROGRAM
from delayed_tracker.cli.terminal.failures import OPTION_OF_FIELD, CommandLine, print_error
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput

TRACKER = ["--topic", "persistent://lab/main/delayed", "--subscription", "sub-1"]

BAD_USAGE = [
    (["fly"], "no such command 'fly'; see `delayed-tracker --help`"),
    (["poll"], "missing option '--topic'; see `delayed-tracker poll --help`"),
    (["stats", "--nonsense"], "no such option: --nonsense; see `delayed-tracker stats --help`"),
    (["poll", *TRACKER, "--max", "0"], "--max: '0' is not valid; input should be greater than or equal to 1; see "),
    (["poll", *TRACKER, "--max=1e3"], "--max: '1e3' is not valid; input should be a valid integer"),
    (
        ["poll", *TRACKER, "--then", "eat"],
        "--then: 'eat' is not valid; 'eat' is not one of 'nack', 'ack', 'keep'; see ",
    ),
    (["poll", *TRACKER, "--max"], "option '--max' requires an argument; see `delayed-tracker poll --help`"),
    (["add", *TRACKER], "missing argument 'LEDGER:ENTRY[-LAST]...'; see `delayed-tracker add --help`"),
    (["add", *TRACKER, "7:3"], "--at: give either --at INSTANT or --in-ms MILLISECONDS; see "),
    (["add", *TRACKER, "7:3", "--at", "5", "--in-ms", "5"], "--at: '5' is not valid; give either --at INSTANT or --in"),
    (["delete", *TRACKER], "--yes: give it to forget everything tracked for sub-1 of persistent://lab/main/delayed; "),
    (["trackers", "extra"], "got unexpected extra argument(s) (extra); see `delayed-tracker trackers --help`"),
    (["explain", *TRACKER, "7:1-3"], "LEDGER:ENTRY: '7:1-3' is not valid; give one position, such as 7:3"),
    (["explain", *TRACKER, "7"], "LEDGER:ENTRY: '7' is not valid; give one position, such as 7:3"),
    (["stats", *TRACKER, "--server", "tracker"], "--server: 'tracker' is not valid; give host:port "),
    (["stats", *TRACKER, "--server", "http://tracker:7651"], "--server: 'http://tracker:7651' is not valid; give "),
    (["poll", *TRACKER, "--server", "[::1]:70000"], "--server: '[::1]:70000' is not valid; give host:port "),
    (
        ["peek", *TRACKER, "--from", "9", "--until", "9"],
        "--until: '9' is not valid; give a moment after that of --from",
    ),
    (["histogram", *TRACKER, "--step-s", "9" * 18], f"--step-s: '{'9' * 18}' is not valid; input should be less than"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD_USAGE, ids=[" ".join(row[0])[:30] for row in BAD_USAGE])
def test_bad_usage_is_one_line_with_option_value_and_remedy(command, arguments, said):
    """Bad usage prints one line, not a wrapped box, with the command that prints the help."""
    ran = command(*arguments)
    assert (ran.status, ran.out) == (ExitCode.USAGE, "")
    assert ran.err.startswith(f"delayed-tracker: {said}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(("arguments", "said"), BAD_USAGE, ids=[" ".join(row[0])[:30] for row in BAD_USAGE])
def test_bad_usage_is_an_object_for_machines(command, arguments, said):
    """Errors of the command line's parser are JSON objects, too."""
    ran = command(arguments[0], "--json", *arguments[1:])
    assert (ran.status, ran.out) == (ExitCode.USAGE, "")
    error = json.loads(ran.err)["error"]
    assert error["reason"] in {"BAD_USAGE", "INVALID_INPUT"}
    assert error["message"].startswith(said)


def test_fields_of_the_api_are_said_by_their_options(capsys):
    """An error about ``max_messages`` contains the option --max."""
    print_error(InvalidInput("max_messages", 10_001, "give 1 to 10000"), CommandLine(["poll"], ["poll"]))
    assert capsys.readouterr().err == "delayed-tracker: --max: 10001 is not valid; give 1 to 10000\n"
    print_error(InvalidInput("max_messages", 10_001, "give 1 to 10000"), CommandLine(["poll", "--json"], ["poll"]))
    assert json.loads(capsys.readouterr().err)["error"]["metadata"] == {"field": "--max"}
    print_error(InvalidInput("field_of_nobody", 1, "give 2"), CommandLine(["poll"], ["poll"]))
    assert capsys.readouterr().err == "delayed-tracker: field_of_nobody: 1 is not valid; give 2\n"


def test_a_bad_storage_url_is_said_by_its_key(command):
    """An error of a storage URL contains the settings key."""
    ran = command("serve", "--set", "bucketSnapshotStorageUrl=sqlite:", "--set", "grpcListenAddress=127.0.0.1:0")
    assert ran.status == ExitCode.USAGE
    assert ran.err == (
        "delayed-tracker: bucketSnapshotStorageUrl: 'sqlite:' is not valid; "
        "write sqlite:PATH; for a storage in memory, write memory:\n"
    )


def test_a_storage_path_that_cannot_be_opened_is_said_by_its_key(command, tmp_path):
    """An error at the start of the storage contains the settings key and the URL as given."""
    settings = (
        f"bucketSnapshotStorageUrl=sqlite:{tmp_path}",
        *(f"{p}ListenAddress=127.0.0.1:0" for p in ("grpc", "http")),
    )
    ran = command("serve", *(word for setting in settings for word in ("--set", setting)))
    assert ran.status == ExitCode.USAGE
    assert ran.err.splitlines()[-1] == (
        f"delayed-tracker: bucketSnapshotStorageUrl: 'sqlite:{tmp_path}' is not valid; "
        "this is a directory; name a file in it"
    )


def test_options_that_errors_name_exist(command):
    """Each option in an error is in the help of some command."""
    helps = [command(*name.split(), "--help").out for name in PROGRAM.command_names()]
    known = {option for text in helps for option in re.findall(r"--[a-z-]+", text)}
    assert set(OPTION_OF_FIELD.values()) <= known


def test_the_version_is_told(command):
    """--version prints the version."""
    ran = command("--version")
    assert ran.status == 0
    assert re.fullmatch(r"delayed-tracker \d+\.\d+\.\d+\n", ran.out)


def test_no_command_prints_the_help(command):
    """The program without a command prints its help and exits with the status of a usage error."""
    ran = command()
    assert ran.status == ExitCode.USAGE
    assert re.search(r"Usage: .*\[OPTIONS\] COMMAND", ran.out)


@pytest.mark.parametrize("arguments", [["config"], ["config", "--json"]])
def test_an_answer_that_nobody_can_read_is_a_failure(command, monkeypatch, arguments):
    """A closed stdout, as from a supervisor, ends with one line and not with a traceback."""
    monkeypatch.setattr(sys, "stdout", None)
    ran = command(*arguments)
    assert ran.status == ExitCode.FAILURE
    assert "the answer cannot be written: standard output is closed" in ran.err


def test_problems_with_settings_are_a_list_for_machines(command, tmp_path):
    """Each problem has key, value, remedy, and the line if it is in a file."""
    path = tmp_path / "tracker.conf"
    path.write_text("\ndelayedDeliveryTickTimeMillis=often\nlogFromat=json\n")
    ran = command("config", "--json", "--config", str(path))
    assert ran.status == ExitCode.USAGE
    error = json.loads(ran.err)["error"]
    assert (error["reason"], error["message"]) == ("INVALID_SETTINGS", "2 settings not valid; see problems")
    found = {problem["key"]: problem for problem in error["problems"]}
    assert found["delayedDeliveryTickTimeMillis"] | {"remedy": ""} == {
        "origin": f"{path}:2",
        "line": 2,
        "key": "delayedDeliveryTickTimeMillis",
        "value": "often",
        "remedy": "",
    }
    assert found["logFromat"]["line"] == 3
    assert "logFormat" in found["logFromat"]["remedy"]


def test_a_problem_that_stands_in_no_file_has_no_line(command, monkeypatch):
    """A problem in the environment has no line; without --json each problem is a line of text."""
    monkeypatch.setenv("TRACKER_LOG_FORMAT", "xml")
    (problem,) = json.loads(command("config", "--json").err)["error"]["problems"]
    assert (problem["origin"], problem["line"]) == ("environment TRACKER_LOG_FORMAT", None)
    assert "environment TRACKER_LOG_FORMAT: " in command("config").err


def test_an_error_shows_control_characters_as_escapes(capsys):
    """Control characters that an error quotes from its input are printed as escapes."""
    print_error(DelayedTrackerError("no file \x1b]0;x\x07 \x9b \u202eexe"), CommandLine(["stats"], ["stats"]))
    assert capsys.readouterr().err == "delayed-tracker: no file \\x1b]0;x\\x07 \\x9b \\u202eexe\n"
