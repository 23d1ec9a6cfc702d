"""``delayed-tracker``: the subcommands, and how errors leave the program."""

import importlib.metadata
import io
import os
import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

from tracker.cli import (
    add,
    buckets,
    cancel,
    config,
    delete,
    explain,
    histogram,
    open_tracker,
    peek,
    poll,
    replay,
    seal,
    serve,
    stats,
    trackers,
    verify,
)
from tracker.cli.demo import command as demo
from tracker.cli.failures import CommandLine, bad_usage, print_error
from tracker.cli.ledgers import commands as ledgers
from tracker.cli.topics import commands as topics
from tracker.core.errors import DelayedTrackerError
from tracker.service.exit_codes import ExitCode, exit_code_of

app = typer.Typer(
    name="delayed-tracker",
    help=(
        "Tracks delayed messages of ledger-based message brokers: which are due, never early, never lost.\n\n"
        "Exit status: 0 done, 1 failed or a check did not hold, 2 bad option or configuration, 3 address in use, 4 storage "
        "unusable, 5 service unavailable, 6 tracker not open or somebody else's, 7 damaged or missing data."
    ),
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("replay")(replay.replay)
app.command("demo")(demo.demo)
app.command("trackers")(trackers.trackers)
app.command("open")(open_tracker.open_tracker)
app.command("add")(add.add)
app.command("poll")(poll.poll)
app.command("cancel")(cancel.cancel)
app.command("seal")(seal.seal)
app.command("delete")(delete.delete)
app.command("stats")(stats.stats)
app.command("buckets")(buckets.buckets)
app.command("peek")(peek.peek)
app.command("explain")(explain.explain)
app.command("histogram")(histogram.histogram)
app.command("verify")(verify.verify)
app.command("config")(config.config)
app.add_typer(topics.app, name="topics")
app.add_typer(ledgers.app, name="ledgers")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"delayed-tracker {importlib.metadata.version('delayed-tracker')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """What can stand before a command."""


def command_names() -> list[str]:
    """All commands, groups included; those of a group behind its name: "topics", "topics list"."""
    names = [command.name for command in app.registered_commands if command.name]
    for group in app.registered_groups:
        assert group.name is not None
        assert group.typer_instance is not None
        names += [group.name, *(f"{group.name} {command.name}" for command in group.typer_instance.registered_commands)]
    return names


def run() -> None:
    """Entry point of the installed command: errors are one clear line and an exit status, never a traceback."""
    _prepare_streams()
    line = CommandLine(sys.argv[1:], command_names())
    try:
        # Without standalone mode the status of typer.Exit is returned, and usage errors are ours to print.
        status = app(args=list(line.arguments) or ["--help"], standalone_mode=False)
        sys.exit(status if line.arguments else ExitCode.USAGE)
    except OSError as error:
        # Files that commands are given have errors of their own; what is left is a place that takes no answer.
        print_error(DelayedTrackerError(f"the answer cannot be written: {error.strerror or error}"), line)
        sys.exit(ExitCode.FAILURE)
    except typer.TyperException as error:
        print_error(bad_usage(error, line), line)
        sys.exit(ExitCode.USAGE)
    except DelayedTrackerError as error:
        print_error(error, line)
        sys.exit(exit_code_of(error))


def _prepare_streams() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that has no letter for a name shows its code instead.
        sys.stdout.reconfigure(errors="backslashreplace")
    stderr: TextIO | None = sys.stderr
    if stderr is None:
        # Closed by whoever started us: what would be said there is not wanted.
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open as long as the process
