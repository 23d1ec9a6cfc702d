"""Options that several subcommands share, declared once."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from delayed_tracker.files.home_paths import refuse_home_path


def reject_tilde_path(param: typer.CallbackParam, value: Any) -> Any:
    """Refuse paths that begin with ``~``, which the shell did not expand; the callback of options that take a path."""
    for path in value if isinstance(value, list) else [value]:
        if path is not None:
            refuse_home_path(param.opts[0], str(path), str(path))
    return value


VARIABLE_OF_OPTION: Final = {
    option: f"DELAYED_TRACKER_{option.removeprefix('--').replace('-', '_').upper()}"
    for option in ("--server", "--source", "--tls-ca", "--tls-cert", "--tls-key", "--token-file", "--token-over-plain")
}
"""Environment variable that sets an option if the command line does not."""

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
    typer.Option(
        "--config",
        help="Configuration in broker.conf syntax; default: the built-in values.",
        metavar="FILE",
        callback=reject_tilde_path,
    ),
]
BrokerConf = Annotated[
    Path | None,
    typer.Option(
        "--broker-conf",
        help="Pulsar's broker.conf, unchanged; keys unknown to delayed-tracker are ignored. --config overrides it.",
        metavar="FILE",
        callback=reject_tilde_path,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override one configuration key; may be repeated.", metavar="KEY=VALUE"),
]
