"""Program ``spark-rebuild`` and its subcommands."""

import sys
from pathlib import Path

import typer

from delayed_tracker.cli.spark.starting.early_java import early_java
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import print_json
from delayed_tracker.cli.terminal.running import Program

SCRIPT = Path(__file__).parent / "submit" / "job.py"
PROGRAM = Program(
    "spark-rebuild",
    about=(
        "Rebuilds the index of delayed messages from the ledgers, with Spark.\n\n"
        "Exit status: 0 done, 1 failed or a check did not hold, 2 bad option or no Java, 4 storage or staging unusable, "
        "5 service or ZooKeeper unavailable, 6 tracker of another owner, 7 damaged or missing data, 8 credential or "
        "permission refused."
    ),
    commands={
        "rebuild": "delayed_tracker.cli.spark.rebuild:rebuild_command",
        "verify": "delayed_tracker.cli.spark.verify:verify_command",
        "index": "delayed_tracker.cli.spark.index:index_command",
        "inspect": "delayed_tracker.cli.spark.inspection:inspect_command",
        "warm": "delayed_tracker.cli.spark.starting.warm:warm_command",
        "py-files": "delayed_tracker.cli.spark.py_files:py_files_command",
        "script": "delayed_tracker.cli.spark.main:script",
    },
)


def script(*, as_json: AsJson = False) -> None:
    """Print the path of the script for spark-submit, which it runs in place of this program.

    Example: spark-submit --master spark://host:7077 "$(spark-rebuild script)" inspect --source ledger:/data/ledgers
    """
    if as_json:
        print_json({"path": str(SCRIPT)})
        return
    typer.echo(SCRIPT)


def run() -> None:
    """Run the installed command."""
    with early_java(sys.argv[1:]):
        PROGRAM.run()
