"""``delayed-tracker``: the subcommands, and how errors leave the program."""

import io
import sys

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
from tracker.cli.output import print_error
from tracker.core.errors import DelayedTrackerError
from tracker.service.exit_codes import ExitCode, exit_code_of

app = typer.Typer(
    name="delayed-tracker",
    help=(
        "Tracks delayed messages of ledger-based message brokers: which are due, never early, never lost.\n\n"
        "Exit status: 0 done, 1 failed or a check did not hold, 2 bad option or configuration, 3 address in use, 4 storage "
        "unusable, 5 service unavailable, 6 tracker not open or somebody else's, 7 damaged or missing data."
    ),
    no_args_is_help=True,
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


def run() -> None:
    """Entry point of the installed command: errors are one clear line and an exit status, never a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that has no letter for a name shows its code instead.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except OSError as error:
        # Files that commands are given have errors of their own; what is left is a place that takes no answer.
        sys.stderr.write(f"delayed-tracker: {error}\n")
        sys.exit(ExitCode.FAILURE)
    except DelayedTrackerError as error:
        print_error(error, as_json="--json" in sys.argv[1:])
        sys.exit(exit_code_of(error))
