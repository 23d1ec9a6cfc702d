"""Options that several subcommands share, declared once."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_SERVER = "127.0.0.1:7650"

Server = Annotated[
    str,
    typer.Option(
        "--server", envvar="DELAYED_TRACKER_SERVER", help="Address of the running service.", metavar="HOST:PORT"
    ),
]
Topic = Annotated[
    str,
    typer.Option("--topic", help="Full topic name, such as persistent://tenant/namespace/topic.", metavar="TOPIC"),
]
Subscription = Annotated[
    str, typer.Option("--subscription", help="Subscription name as users write it.", metavar="NAME")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration in broker.conf syntax; default: the built-in values.", metavar="FILE"),
]
BrokerConf = Annotated[
    Path | None,
    typer.Option(
        "--broker-conf",
        help="A broker.conf of Pulsar, taken as it is: keys of others are ignored. --config overrides it.",
        metavar="FILE",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override one configuration key; may be repeated.", metavar="KEY=VALUE"),
]
