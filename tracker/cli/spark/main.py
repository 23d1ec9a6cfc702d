"""``spark-rebuild``: the subcommands."""

from pathlib import Path

import typer

from tracker.cli.running import make_app, names_of, run_app
from tracker.cli.spark import index, inspection, rebuild, verify

PROGRAM = "spark-rebuild"
SCRIPT = Path(__file__).parent / "submit" / "job.py"

app = make_app(
    PROGRAM,
    about=(
        "Rebuilds the index of delayed messages from the ledgers, with Spark.\n\n"
        "Exit status: 0 done, 1 failed or a check did not hold, 2 bad option or no Java, 4 storage or staging unusable, "
        "5 service or ZooKeeper unavailable, 6 tracker somebody else's, 7 damaged or missing data."
    ),
)
app.command("rebuild")(rebuild.rebuild_command)
app.command("verify")(verify.verify_command)
app.command("index")(index.index_command)
app.command("inspect")(inspection.inspect_command)


@app.command("script")
def script() -> None:
    """Print the file that spark-submit is to be given, in the place of this program.

    Example: spark-submit --master spark://host:7077 "$(spark-rebuild script)" inspect --source ledger:/data/ledgers
    """
    typer.echo(SCRIPT)


def command_names() -> list[str]:
    """All commands."""
    return names_of(app)


def run() -> None:
    """Entry point of the installed command."""
    run_app(app, PROGRAM)
