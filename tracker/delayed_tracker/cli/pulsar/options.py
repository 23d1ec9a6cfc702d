"""Options and questions that the commands about a live cluster share."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from delayed_tracker.cli.terminal.failures import BadUsage
from delayed_tracker.cli.terminal.options import reject_tilde_path
from delayed_tracker.cli.terminal.output import notice_console, progress_shown

# Without a bracket before the slash, which rich takes for the end of a style.
CLUSTER_HELP = (
    "Live cluster: bookkeeper+zk:HOST:PORT[,HOST:PORT], with /ROOT behind it if Pulsar's metadata store has a chroot."
)
ClusterUrl = Annotated[str, typer.Argument(help=CLUSTER_HELP, metavar="CLUSTER")]
OneTopic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        help="Only this topic, such as persistent://tenant/namespace/topic; of a partitioned one, all partitions.",
        metavar="TOPIC",
    ),
]
OneSubscription = Annotated[
    str | None,
    typer.Option("--subscription", help="Only subscriptions of this name, as users write it.", metavar="NAME"),
]
Admin = Annotated[
    str | None,
    typer.Option(
        "--admin",
        help="Admin interfaces of all brokers, http://HOST:PORT[,...]; default: those that ZooKeeper lists.",
        metavar="URL,...",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before something is changed.")]
Backup = Annotated[
    Path | None,
    typer.Option(
        "--backup",
        help="New file for what is changed, each before it is; `delayed-tracker pulsar restore FILE` takes it back.",
        metavar="FILE",
        callback=reject_tilde_path,
    ),
]


def require_consent(question: str, *, yes: bool) -> None:
    """Ask on the terminal before something is changed; return if the answer is yes.

    Args:
        question: says what is changed; names in it are printed as they are in other notices.
        yes: True if ``--yes`` was given; then nothing is asked.
    Raises:
        BadUsage: there is no terminal to ask on, or the answer is no; nothing was changed.
    """
    if yes:
        return
    if not progress_shown() or not sys.stdin.isatty():
        raise BadUsage(f"--yes: {question}? give it to go on without a terminal; nothing was changed")
    notice_console().print(f"{question}? [y/N] ", end="", soft_wrap=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise BadUsage("the answer was no; nothing was changed")
