"""Subcommands of ``delayed-tracker ledgers``."""

import typer

from delayed_tracker.cli.ledgers import import_topics, list_ledgers, stats, verify

app = typer.Typer(help="Look at whole ledgers: what is in them, whether every checksum holds; and copy them.")
app.command("list")(list_ledgers.list_ledgers)
app.command("stats")(stats.stats)
app.command("verify")(verify.verify)
app.command("import")(import_topics.import_topics)
