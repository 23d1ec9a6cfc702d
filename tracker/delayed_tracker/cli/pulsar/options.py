"""Options that the commands about a live cluster share."""

from pathlib import Path
from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import reject_tilde_path

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
