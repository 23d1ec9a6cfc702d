"""``delayed-tracker``: the subcommands."""

from tracker.cli import (
    add,
    assets,
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
    warm,
)
from tracker.cli.demo import command as demo
from tracker.cli.ledgers import commands as ledgers
from tracker.cli.running import make_app, names_of, run_app
from tracker.cli.top import command as top
from tracker.cli.topics import commands as topics

PROGRAM = "delayed-tracker"

app = make_app(
    PROGRAM,
    about=(
        "Tracks delayed messages of ledger-based message brokers: which are due, never early, never lost.\n\n"
        "Exit status: 0 done, 1 failed or a check did not hold, 2 bad option or configuration, 3 address in use, 4 storage "
        "unusable, 5 service unavailable, 6 tracker not open or somebody else's, 7 damaged or missing data."
    ),
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
app.command("top")(top.top)
app.command("stats")(stats.stats)
app.command("buckets")(buckets.buckets)
app.command("peek")(peek.peek)
app.command("explain")(explain.explain)
app.command("histogram")(histogram.histogram)
app.command("verify")(verify.verify)
app.command("config")(config.config)
app.command("assets")(assets.assets)
app.command("warm")(warm.warm)
app.add_typer(topics.app, name="topics")
app.add_typer(ledgers.app, name="ledgers")


def command_names() -> list[str]:
    """All commands, those of a group behind its name."""
    return names_of(app)


def run() -> None:
    """Entry point of the installed command."""
    run_app(app, PROGRAM)
