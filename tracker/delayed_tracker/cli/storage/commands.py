"""Subcommands of ``delayed-tracker storage``."""

import typer

from delayed_tracker.cli.storage import check, copy_storage, stat

app = typer.Typer(help="Move, check and measure whole storages of any kind, without a service.")
app.command("copy")(copy_storage.copy)
app.command("check")(check.check)
app.command("stat")(stat.stat)
