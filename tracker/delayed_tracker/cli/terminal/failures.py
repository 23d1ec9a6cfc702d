"""Prints errors on stderr, as one line or one JSON object, with the names of the command line's options.

Errors of libraries contain fields of the API. They are replaced by the options that the user gave.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Sequence

import typer

from delayed_tracker.cli.terminal.options import VARIABLE_OF_OPTION
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.settings.load import InvalidSettings
from delayed_tracker.service.telemetry.printable import printable_lines

OPTION_OF_FIELD = {
    "address": "--server",
    "bar_count": "--bars",
    "from_ms": "--from",
    "index": "--index",
    "lease_ms": "--lease-ms",
    "log_directories": "--bookie",
    "mark_delete.entry_id": "--mark-delete",
    "mark_delete.ledger_id": "--mark-delete",
    "max_messages": "--max",
    "owner": "--owner",
    "source": "--source",
    "step_ms": "--step-s",
    "tls.ca": "--tls-ca",
    "tls.certificate": "--tls-cert",
    "tls.key": "--tls-key",
    "token_file": "--token-file",
    "topic": "--topic",
    "topic_prefix": "--topic-prefix",
    "tracker.subscription": "--subscription",
    "tracker.topic": "--topic",
    "until_ms": "--until",
    "wait_ms": "--wait-ms",
}
"""Option that sets a field of the API."""
_TYPED_AS = {
    **OPTION_OF_FIELD,
    "key file": "--key",
    "metadata": "--metadata",
    "position": "LEDGER:ENTRY",
    "staging": "--staging",
    "subscription": "--subscription",
    "storage URL": "bucketSnapshotStorageUrl",
    "topicsPattern": "--topics-pattern",
}


class BadUsage(DelayedTrackerError):
    """The command line is incomplete or wrong; nothing was done."""

    reason = "BAD_USAGE"


@dataclasses.dataclass(frozen=True, slots=True)
class CommandLine:
    """Arguments after the program's name."""

    arguments: Sequence[str]
    commands: Sequence[str]
    """Names of all commands; those of a group after its name: "topics", "topics list"."""
    program: str = "delayed-tracker"

    @property
    def as_json(self) -> bool:
        """True if answers and errors are printed as JSON."""
        return "--json" in self.arguments

    @property
    def help_command(self) -> str:
        """Command that prints the help of the chosen subcommand."""
        name = ""
        for argument in self.arguments:
            longer = f"{name} {argument}".lstrip()
            name = longer if longer in self.commands else name
        return f"{self.program} {name} --help".replace("  ", " ")

    def given(self, options: Sequence[str]) -> str | None:
        """Return the last value of an option with one of these names; None if there is none."""
        found = None
        for place, argument in enumerate(self.arguments):
            name, equals, value = argument.partition("=")
            if name in options and equals:
                found = value
            elif argument in options:
                found = next(iter(self.arguments[place + 1 : place + 2]), None)
        return found


def bad_usage(error: typer.TyperException, line: CommandLine) -> BadUsage:
    """Return the parser's error as one sentence with option, value and remedy."""
    said = str(error).rstrip(".")
    problem = ""
    if isinstance(error, typer.BadParameter):
        said = error.message.removeprefix("Value error, ").rstrip(".")
        param = error.param
        options = list(param.opts) if param else [error.param_hint] if isinstance(error.param_hint, str) else []
        if said and options:
            value = line.given(options)
            problem = (
                f"{options[0]}: {said}" if value is None else f"{options[0]}: {value!r} is not valid; {_low(said)}"
            )
        else:
            said = error.format_message().rstrip(".")
    return BadUsage(f"{problem or _low(said)}; see `{line.help_command}`")


def print_error(error: DelayedTrackerError, line: CommandLine) -> None:
    """Print an error on stderr, as its message or as a JSON object; fields have the names of their options."""
    message, metadata = error.message, error.metadata
    option = _TYPED_AS.get(metadata.get("field", ""))
    if option:
        variable = VARIABLE_OF_OPTION.get(option)
        if variable is not None and variable in os.environ and line.given([option]) is None:
            option = variable
        message = option + message.removeprefix(metadata["field"])
        metadata = {**metadata, "field": option}
    if line.as_json:
        document: dict[str, object] = {"reason": error.reason, "message": message, "metadata": metadata}
        if isinstance(error, InvalidSettings):
            count = len(error.problems)
            document["message"] = f"{count} setting{'' if count == 1 else 's'} not valid; see problems"
            document["problems"] = [dataclasses.asdict(problem) for problem in error.problems]
        sys.stderr.write(json.dumps({"error": document}) + "\n")
    else:
        sys.stderr.write(f"{line.program}: {printable_lines(message)}\n")


def _low(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
